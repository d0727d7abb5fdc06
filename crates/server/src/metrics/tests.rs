//! Names, types, labels and buckets are etcd's.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Registry, TextEncoder};

use super::*;

fn gathered(registry: &Registry) -> BTreeMap<String, MetricFamily> {
    registry.gather().into_iter().map(|family| (family.name().to_owned(), family)).collect()
}

/// Registers everything, with something in every series.
fn touched() -> Registry {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    metrics.learner_promote_failures.with_label_values(&["x"]).inc();
    metrics.stream_failures.with_label_values(&["send", "watch"]).inc();
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

/// One line of what there is: name, type, labels, and the first and last bound.
fn line(family: &MetricFamily) -> String {
    let metric = &family.get_metric()[0];
    let labels: Vec<&str> = metric.get_label().iter().map(|label| label.name()).collect();
    let buckets = metric.get_histogram().get_bucket();
    let bounds = buckets.first().zip(buckets.last()).map_or(String::new(), |(first, last)| {
        format!(" {}..{}/{}", first.upper_bound(), last.upper_bound(), buckets.len())
    });
    format!("{} {}{{{}}}{bounds}", family.name(), kind(family.get_field_type()), labels.join(","))
}

#[test]
fn names_types_labels_and_bounds_are_etcds() {
    let lines: Vec<String> = gathered(&touched()).values().map(line).collect();
    let wanted: Vec<&str> = include_str!("../../testdata/metrics/counted.txt").lines().collect();
    assert_eq!(lines, wanted);
}

#[test]
fn a_series_with_labels_shows_once_it_is_observed() {
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
fn the_version_is_etcds() {
    let text = TextEncoder::new().encode_to_string(&touched().gather()).unwrap();
    assert!(text.contains("etcd_server_version{server_version=\"3.7.1\"} 1\n"));
}

#[test]
fn a_registry_takes_them_once() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    metrics.clone().leader_changes.inc();
    assert_eq!(metrics.leader_changes.get(), 1, "a clone counts the same");
    assert!(Metrics::new(&registry).is_err());
}
