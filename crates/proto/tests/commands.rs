//! Conversions between the wire form of a log entry and `Command`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::fs;
use std::path::Path;

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Value};
use proto::command::{Command, NotACommand, RaftRequest};
use proto::etcdserverpb::{InternalRaftRequest, PutRequest, Request, RequestHeader};

/// Fields of `InternalRaftRequest` that are not commands.
const OTHERS: [&str; 3] = ["header", "ID", "v2"];

/// Fields of the wire form in the order in which etcd's `dispatch` looks at them.
const PRECEDENCE: [&str; 30] = [
    "cluster_version_set",
    "cluster_member_attr_set",
    "downgrade_info_set",
    "downgrade_version_test",
    "range",
    "put",
    "delete_range",
    "txn",
    "compaction",
    "lease_grant",
    "lease_revoke",
    "lease_checkpoint",
    "alarm",
    "authenticate",
    "auth_enable",
    "auth_disable",
    "auth_status",
    "auth_user_add",
    "auth_user_delete",
    "auth_user_get",
    "auth_user_change_password",
    "auth_user_grant_role",
    "auth_user_revoke_role",
    "auth_user_list",
    "auth_role_add",
    "auth_role_delete",
    "auth_role_get",
    "auth_role_list",
    "auth_role_grant_permission",
    "auth_role_revoke_permission",
];

fn fields() -> Vec<FieldDescriptor> {
    let pool = DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET).unwrap();
    let message = pool.get_message_by_name("etcdserverpb.InternalRaftRequest").unwrap();
    let fields: Vec<_> = message.fields().collect();
    fields.into_iter().filter(|field| !OTHERS.contains(&field.name())).collect()
}

/// Encodes a wire request with a header and the fields of these names, each an empty message.
fn wire(fields: &[FieldDescriptor], names: &[&str]) -> Vec<u8> {
    let mut message = DynamicMessage::new(fields[0].parent_message().clone());
    for field in fields.iter().filter(|field| names.contains(&field.name())) {
        let kind = field.kind();
        let empty = DynamicMessage::new(kind.as_message().unwrap().clone());
        message.set_field(field, Value::Message(empty));
    }
    let mut request = InternalRaftRequest::decode(&*message.encode_to_vec()).unwrap();
    let username = "alice".to_owned();
    request.header = Some(RequestHeader { id: 7, username, auth_revision: 3 });
    request.encode_to_vec()
}

fn decode(bytes: &[u8]) -> Result<RaftRequest, NotACommand> {
    RaftRequest::try_from(InternalRaftRequest::decode(bytes).unwrap())
}

fn encode(request: RaftRequest) -> Vec<u8> {
    InternalRaftRequest::from(request).encode_to_vec()
}

#[test]
fn every_command_of_the_wire_form_round_trips() {
    let fields = fields();
    let mut names: Vec<&str> = fields.iter().map(FieldDescriptor::name).collect();
    for name in &names {
        let bytes = wire(&fields, &[name]);
        let request = decode(&bytes).unwrap();
        assert_eq!(request.request_id(), 7);
        assert_eq!(encode(request), bytes, "{name}");
    }
    names.sort_unstable();
    let mut listed = PRECEDENCE.to_vec();
    listed.sort_unstable();
    assert_eq!(names, listed, "every field has a place in the order");
}

#[test]
fn the_first_command_in_dispatch_order_wins_if_several_are_set() {
    let fields = fields();
    for (at, first) in PRECEDENCE.iter().enumerate() {
        let alone = decode(&wire(&fields, &[first])).unwrap();
        for second in &PRECEDENCE[at..] {
            let both = decode(&wire(&fields, &[first, second])).unwrap();
            assert_eq!(both, alone, "{first} and {second}");
        }
    }
}

#[test]
fn captured_entries_round_trip() {
    let captured = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captured");
    let dirs = fs::read_dir(captured).unwrap().map(|entry| entry.unwrap().path());
    let releases: Vec<_> = dirs.filter(|path| path.is_dir()).collect();
    assert_eq!(releases.len(), 4, "{releases:?}");
    for release in releases {
        let path = release.join("etcdserverpb.InternalRaftRequest.hex");
        let release = release.display();
        let text = fs::read_to_string(path).unwrap();
        let hex = text.lines().filter_map(|line| line.split_once("InternalRaftRequest "));
        for (_, hex) in hex.filter(|(before, _)| !before.starts_with('#')) {
            let wire = InternalRaftRequest::decode(&*unhex(hex)).unwrap();
            match RaftRequest::try_from(wire.clone()) {
                Ok(request) => assert_eq!(InternalRaftRequest::from(request), wire, "{release}"),
                Err(reason) => assert!(matches!(reason, NotACommand::V2(_)), "{release} {hex}"),
            }
        }
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn a_v2_request_wins_over_all_commands() {
    let v2 = Request { id: Some(5), ..Request::default() };
    let put = Some(PutRequest::default());
    let wire = InternalRaftRequest { v2: Some(v2.clone()), put, ..Default::default() };
    assert_eq!(RaftRequest::try_from(wire), Err(NotACommand::V2(Box::new(v2))));
}

#[test]
fn an_entry_without_a_known_field_is_not_a_command() {
    let unknown = [0xfa, 0xff, 0x03, 0x01, 0x00];
    for bytes in [&[][..], &unknown] {
        assert_eq!(decode(bytes), Err(NotACommand::Empty));
    }
}

#[test]
fn the_id_outside_the_header_wins_unless_it_is_zero() {
    let header = |id| Some(RequestHeader { id, ..RequestHeader::default() });
    for (id, header, expected) in [(0, header(7), 7), (5, header(7), 5), (5, None, 5), (0, None, 0)]
    {
        let put = Some(PutRequest::default());
        let wire = InternalRaftRequest { id, header, put, ..Default::default() };
        assert_eq!(RaftRequest::try_from(wire).unwrap().request_id(), expected);
    }
}

/// The enum is moved once per entry: it stays as small as its largest frequent request.
#[test]
fn a_command_is_no_larger_than_a_range_request() {
    let range = size_of::<proto::etcdserverpb::RangeRequest>();
    assert!(size_of::<Command>() <= range + size_of::<usize>(), "{}", size_of::<Command>());
}
