//! Compares names, types, labels and buckets with etcd's.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::proto::{LabelPair, MetricFamily, MetricType};
use prometheus::{Registry, TextEncoder};

use super::*;
use crate::background::tests::{ManualMember, header};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest;

fn gathered(registry: &Registry) -> BTreeMap<String, MetricFamily> {
    registry.gather().into_iter().map(|family| (family.name().to_owned(), family)).collect()
}

/// Registers all metrics, with a value in every series.
fn populated() -> Registry {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    metrics.learner_promote_failures.with_label_values(&["x"]).inc();
    metrics.feature_enabled.with_label_values(&["AllAlpha", "ALPHA"]).set(0);
    metrics.apply_duration.observe(Op::Put, true, Duration::from_millis(1));
    metrics.request_duration.observe(Op::ReadonlyTxn, false, Duration::from_millis(1));
    metrics.range_duration.observe(true, Duration::from_millis(1));
    registry
}

fn kind(kind: MetricType) -> &'static str {
    match kind {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY | MetricType::UNTYPED => "other",
    }
}

/// Formats a family: name, type, labels, and the first and last bound.
fn line(family: &MetricFamily) -> String {
    let metric = &family.get_metric()[0];
    let labels: Vec<&str> = metric.get_label().iter().map(LabelPair::name).collect();
    let buckets = metric.get_histogram().get_bucket();
    let bounds = buckets.first().zip(buckets.last()).map_or(String::new(), |(first, last)| {
        format!(" {}..{}/{}", first.upper_bound(), last.upper_bound(), buckets.len())
    });
    format!("{} {}{{{}}}{bounds}", family.name(), kind(family.get_field_type()), labels.join(","))
}

#[test]
fn names_types_labels_and_bounds_are_etcds() {
    let lines: Vec<String> = gathered(&populated()).values().map(line).collect();
    let wanted: Vec<&str> = include_str!("../../testdata/metrics/counted.txt").lines().collect();
    assert_eq!(lines, wanted);
}

#[test]
fn a_series_with_labels_appears_with_its_first_value() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let name = "etcd_server_apply_duration_seconds";
    assert!(!gathered(&registry).contains_key(name));
    metrics.apply_duration.observe(Op::Put, true, Duration::from_micros(150));
    metrics.apply_duration.observe(Op::Put, true, Duration::from_micros(50));
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let series =
        "etcd_server_apply_duration_seconds_bucket{op=\"Put\",success=\"true\",version=\"v3\",le=";
    assert!(text.contains(&format!("{series}\"0.0001\"}} 1\n")), "{text}");
    assert!(text.contains(&format!("{series}\"+Inf\"}} 2\n")), "{text}");
    assert!(!text.contains("success=\"false\""));
}

#[test]
fn the_reported_version_is_etcds() {
    let text = TextEncoder::new().encode_to_string(&populated().gather()).unwrap();
    let version = types::ETCD_VERSION;
    assert!(text.contains(&format!("etcd_server_version{{server_version=\"{version}\"}} 1\n")));
}

#[test]
fn a_registry_accepts_the_metrics_once() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    metrics.clone().leader_changes.inc();
    assert_eq!(metrics.leader_changes.get(), 1, "a clone shares the counters");
    assert!(Metrics::new(&registry).is_err());
}

fn with_collector(member: &ManualMember) -> Registry {
    let registry = Registry::new();
    registry.register(Box::new(ServerCollector::new(&member.server).unwrap())).unwrap();
    registry
}

fn set_version(member: &mut ManualMember, ver: &str) {
    let set = proto::membershippb::ClusterVersionSetRequest { ver: ver.to_owned() };
    member.apply_ok(&InternalRaftRequest { cluster_version_set: Some(set), ..header() });
}

fn alarm(member: &mut ManualMember, action: i32) {
    let alarm = Some(pb::AlarmRequest { action, member_id: 0xab, alarm: 1 });
    member.apply_ok(&InternalRaftRequest { alarm, ..header() });
}

#[test]
fn names_of_collected_metrics_are_etcds() {
    let mut member = ManualMember::new();
    set_version(&mut member, "3.7.0");
    alarm(&mut member, 1);
    let lines: Vec<String> = gathered(&with_collector(&member)).values().map(line).collect();
    let wanted: Vec<&str> = include_str!("../../testdata/metrics/read.txt").lines().collect();
    assert_eq!(lines, wanted);
}

#[test]
fn collected_values_match_the_state() {
    let mut member = ManualMember::new();
    member.lead();
    member.put("a");
    member.put("b");
    member.put("a");
    let lease_grant = Some(pb::LeaseGrantRequest { id: 7, ttl: 60 });
    member.apply_ok(&InternalRaftRequest { lease_grant, ..header() });
    let registry = with_collector(&member);
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for line in [
        "etcd_server_has_leader 1",
        "etcd_server_is_leader 1",
        "etcd_server_is_learner 0",
        "etcd_server_id{server_id=\"1\"} 1",
        "etcd_network_known_peers{Local=\"1\",Remote=\"1\"} 1",
        "etcd_server_quota_backend_bytes 2147483648",
        "etcd_debugging_mvcc_keys_total 2",
        "etcd_debugging_mvcc_current_revision 4",
        "etcd_debugging_mvcc_compact_revision -1",
        "etcd_debugging_lease_granted_total 1",
        "etcd_debugging_lease_ttl_total_bucket{le=\"32\"} 0",
        "etcd_debugging_lease_ttl_total_bucket{le=\"64\"} 1",
        "etcd_debugging_lease_ttl_total_sum 60",
        "etcd_debugging_auth_revision 1",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
    }
}

#[test]
fn removed_labels_have_the_value_zero() {
    let mut member = ManualMember::new();
    set_version(&mut member, "3.6.0");
    alarm(&mut member, 1);
    let registry = with_collector(&member);
    set_version(&mut member, "3.7.0");
    alarm(&mut member, 2);
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for line in [
        "etcd_cluster_version{cluster_version=\"3.6\"} 0",
        "etcd_cluster_version{cluster_version=\"3.7\"} 1",
        "etcd_debugging_server_alarms{alarm_type=\"NOSPACE\",server_id=\"ab\"} 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
    }
}

#[test]
fn a_collector_does_not_keep_a_stopped_member() {
    let member = ManualMember::new();
    let registry = with_collector(&member);
    drop(member);
    assert!(registry.gather().is_empty());
}
