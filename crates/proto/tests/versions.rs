//! The version annotations and gateway routes can be read from the descriptors.

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use proto::FILE_DESCRIPTOR_SET;

fn pool() -> DescriptorPool {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("the build made valid descriptors")
}

fn message(name: &str) -> MessageDescriptor {
    pool().get_message_by_name(name).unwrap_or_else(|| panic!("no message {name}"))
}

/// Returns the annotation with this name, if present.
fn annotation(options: &DynamicMessage, name: &str) -> Option<String> {
    let extension =
        pool().get_extension_by_name(&format!("versionpb.{name}")).expect("the annotation exists");
    let value = options.has_extension(&extension).then(|| options.get_extension(&extension))?;
    Some(value.as_str().expect("annotations are strings").to_owned())
}

fn message_since(name: &str) -> Option<String> {
    annotation(&message(name).options(), "etcd_version_msg")
}

fn field_since(name: &str, field: &str) -> Option<String> {
    let field = message(name).get_field_by_name(field).expect("the field exists");
    annotation(&field.options(), "etcd_version_field")
}

#[test]
fn messages_are_annotated() {
    assert_eq!(message_since("etcdserverpb.PutRequest").as_deref(), Some("3.0"));
    assert_eq!(message_since("etcdserverpb.LeaseCheckpointRequest").as_deref(), Some("3.4"));
    assert_eq!(message_since("membershippb.ClusterVersionSetRequest").as_deref(), Some("3.5"));
    assert_eq!(message_since("etcdserverpb.DowngradeVersionTestRequest").as_deref(), Some("3.6"));
    assert_eq!(message_since("etcdserverpb.RangeStreamResponse").as_deref(), Some("3.7"));
    assert_eq!(message_since("mvccpb.KeyValue"), None);
    assert_eq!(
        message_since("etcdserverpb.AuthRoleGetResponse"),
        None,
        "only its fields are annotated"
    );
}

#[test]
fn fields_are_annotated() {
    let log = "etcdserverpb.InternalRaftRequest";
    assert_eq!(field_since(log, "put"), None);
    assert_eq!(field_since(log, "v2"), None);
    assert_eq!(field_since(log, "lease_checkpoint").as_deref(), Some("3.4"));
    assert_eq!(field_since(log, "downgrade_info_set").as_deref(), Some("3.5"));
    assert_eq!(field_since(log, "downgrade_version_test").as_deref(), Some("3.6"));
    assert_eq!(field_since("etcdserverpb.Compare", "range_end").as_deref(), Some("3.3"));
    assert_eq!(field_since("etcdserverpb.Compare", "lease").as_deref(), Some("3.3"));
}

#[test]
fn enums_and_their_values_are_annotated() {
    let alarm = pool().get_enum_by_name("etcdserverpb.AlarmType").unwrap();
    assert_eq!(annotation(&alarm.options(), "etcd_version_enum").as_deref(), Some("3.0"));
    let value = |name| alarm.get_value_by_name(name).unwrap().options();
    assert_eq!(annotation(&value("CORRUPT"), "etcd_version_enum_value").as_deref(), Some("3.3"));
    assert_eq!(annotation(&value("NOSPACE"), "etcd_version_enum_value"), None);
}

/// With a missing annotation, a log entry could contain fields that no release is known to read.
#[test]
fn every_message_of_a_log_entry_has_a_version_annotation_or_is_known_to_be_old() {
    let old = ["authpb.Permission", "authpb.UserAddOptions", "etcdserverpb.Request"];
    let mut seen = vec![message("etcdserverpb.InternalRaftRequest")];
    let mut next = 0;
    while let Some(current) = seen.get(next).cloned() {
        next += 1;
        let inner = current.fields().filter_map(|field| field.kind().as_message().cloned());
        for message in inner {
            if !seen.contains(&message) {
                seen.push(message);
            }
        }
    }
    let unannotated: Vec<_> = seen
        .iter()
        .filter(|message| annotation(&message.options(), "etcd_version_msg").is_none())
        .map(MessageDescriptor::full_name)
        .filter(|name| !old.contains(name))
        .collect();
    assert!(seen.len() > 30, "only {} messages were reached", seen.len());
    assert_eq!(unannotated, [""; 0]);
}

#[test]
fn gateway_routes_are_on_the_methods() {
    let pool = pool();
    let http = pool.get_extension_by_name("google.api.http").unwrap();
    let lease = pool.get_service_by_name("etcdserverpb.Lease").unwrap();
    let revoke = lease.methods().find(|method| method.name() == "LeaseRevoke").unwrap();
    let options = revoke.options();
    let rule = options.get_extension(&http);
    let rule = rule.as_message().unwrap();
    assert_eq!(rule.get_field_by_name("post").unwrap().as_str(), Some("/v3/lease/revoke"));
    let others = rule.get_field_by_name("additional_bindings").unwrap();
    let other = others.as_list().unwrap()[0].as_message().unwrap();
    assert_eq!(other.get_field_by_name("post").unwrap().as_str(), Some("/v3/kv/lease/revoke"));
}

#[test]
fn descriptors_have_etcds_field_names() {
    let member = message("etcdserverpb.Member");
    let names: Vec<_> = member.fields().map(|field| field.name().to_owned()).collect();
    assert_eq!(names, ["ID", "name", "peerURLs", "clientURLs", "isLearner"]);
}
