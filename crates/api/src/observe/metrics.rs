//! Metrics of gRPC calls, under etcd's names.
//!
//! The counters of each method are looked up once, at the start; counting a call takes a few
//! additions. Compat: messages are counted as in etcd, where a unary call always receives one and
//! sends one, even if it fails, and the end of a client's stream counts as received.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use grpc::{CODES, Code, MessageCounter, Method};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

use super::versions::ClientVersions;
use crate::methods::{METHODS, is_counted_from_the_start};

const LABELS: [&str; 3] = ["grpc_type", "grpc_service", "grpc_method"];
const LABELS_WITH_CODE: [&str; 4] = ["grpc_type", "grpc_service", "grpc_method", "grpc_code"];

/// Prometheus' default buckets in Go.
const HANDLING_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Metrics of all methods.
#[derive(Debug)]
pub(crate) struct Metrics {
    families: Families,
    methods: Vec<OnceLock<Arc<MethodMetrics>>>,
    /// `etcd_server_client_requests_total`
    pub(crate) versions: ClientVersions,
    /// `etcd_network_server_stream_failures_total`
    stream_failures: IntCounterVec,
}

/// Metrics of one method.
#[derive(Debug)]
pub(crate) struct MethodMetrics {
    started: IntCounter,
    received: IntCounter,
    received_bytes: IntCounter,
    sent: IntCounter,
    sent_bytes: IntCounter,
    handled: [IntCounter; CODES],
    seconds: Option<Histogram>,
}

#[derive(Debug)]
struct Families {
    started: IntCounterVec,
    received: IntCounterVec,
    /// `etcd_network_client_grpc_received_bytes_total`, over all methods.
    received_bytes: IntCounter,
    sent: IntCounterVec,
    /// `etcd_network_client_grpc_sent_bytes_total`, over all methods.
    sent_bytes: IntCounter,
    handled: IntCounterVec,
    seconds: Option<HistogramVec>,
}

impl Metrics {
    /// Registers the metrics. `extensive` adds a histogram of durations, as `--metrics=extensive`
    /// does.
    pub(crate) fn new(registry: &Registry, extensive: bool) -> prometheus::Result<Metrics> {
        let metrics = Metrics {
            families: Families::new(registry, extensive)?,
            methods: METHODS.iter().map(|_| OnceLock::new()).collect(),
            versions: ClientVersions::new(registry)?,
            stream_failures: counters(
                registry,
                "etcd_network_server_stream_failures_total",
                "Streams that broke while they were sent to or received from, by service.",
                &["Type", "API"],
            )?,
        };
        for (at, method) in METHODS.iter().enumerate() {
            if is_counted_from_the_start(method) {
                metrics.method(at);
            }
        }
        Ok(metrics)
    }

    /// Returns the metrics of the method at a position in [`METHODS`].
    pub(crate) fn method(&self, at: usize) -> &Arc<MethodMetrics> {
        self.methods[at].get_or_init(|| Arc::new(self.families.of(&METHODS[at])))
    }

    /// Counts a stream that failed to receive a request, other than by cancellation.
    pub(crate) fn receive_failed(&self, api: &str) {
        self.stream_failures.with_label_values(&["receive", api]).inc();
    }
}

impl Families {
    fn new(registry: &Registry, extensive: bool) -> prometheus::Result<Families> {
        let seconds = extensive.then(|| handling_seconds(registry)).transpose()?;
        Ok(Families {
            started: counters(registry, "grpc_server_started_total", "Calls that began.", &LABELS)?,
            received: counters(
                registry,
                "grpc_server_msg_received_total",
                "Messages received in calls.",
                &LABELS,
            )?,
            received_bytes: counter(
                registry,
                "etcd_network_client_grpc_received_bytes_total",
                "Bytes of messages received from clients of gRPC.",
            )?,
            sent: counters(
                registry,
                "grpc_server_msg_sent_total",
                "Messages sent in calls.",
                &LABELS,
            )?,
            sent_bytes: counter(
                registry,
                "etcd_network_client_grpc_sent_bytes_total",
                "Bytes of messages sent to clients of gRPC.",
            )?,
            handled: counters(
                registry,
                "grpc_server_handled_total",
                "Calls that ended, well or not, by their code.",
                &LABELS_WITH_CODE,
            )?,
            seconds,
        })
    }

    fn of(&self, method: &Method) -> MethodMetrics {
        let labels = [method.kind.name(), method.service, method.name];
        let [kind, service, name] = labels;
        let handled = |code: Code| [kind, service, name, code.name()];
        MethodMetrics {
            started: self.started.with_label_values(&labels),
            received: self.received.with_label_values(&labels),
            received_bytes: self.received_bytes.clone(),
            sent: self.sent.with_label_values(&labels),
            sent_bytes: self.sent_bytes.clone(),
            handled: Code::ALL.map(|code| self.handled.with_label_values(&handled(code))),
            seconds: self.seconds.as_ref().map(|seconds| seconds.with_label_values(&labels)),
        }
    }
}

impl MethodMetrics {
    /// Counts the start of a call.
    pub(super) fn started(&self) {
        self.started.inc();
    }

    /// Counts the end of a call.
    pub(super) fn handled(&self, code: Code, started: Instant) {
        self.handled[code as usize].inc();
        if let Some(seconds) = &self.seconds {
            seconds.observe(started.elapsed().as_secs_f64());
        }
    }
}

impl MessageCounter for MethodMetrics {
    fn received(&self) {
        self.received.inc();
    }

    fn received_bytes(&self, bytes: usize) {
        self.received_bytes.inc_by(bytes as u64);
    }

    fn sent(&self, bytes: usize) {
        self.sent.inc();
        self.sent_bytes.inc_by(bytes as u64);
    }
}

fn handling_seconds(registry: &Registry) -> prometheus::Result<HistogramVec> {
    let help = "Time from the beginning of a call to its end, in seconds.";
    let opts = HistogramOpts::new("grpc_server_handling_seconds", help);
    let seconds = HistogramVec::new(opts.buckets(HANDLING_BUCKETS.to_vec()), &LABELS)?;
    registry.register(Box::new(seconds.clone()))?;
    Ok(seconds)
}

fn counter(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntCounter> {
    let counter = IntCounter::new(name, help)?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

pub(super) fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> prometheus::Result<IntCounterVec> {
    let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grpc::{Observer as _, Status};
    use prometheus::TextEncoder;

    use super::*;
    use crate::methods::{self, RPCS};
    use crate::observe::CallObserver;

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    fn observer(metrics: &Metrics, path: &str) -> CallObserver {
        let (at, method) = methods::table().find(path).unwrap();
        let metrics = Arc::clone(metrics.method(at));
        let mut observer = CallObserver::new(RPCS[at], method, metrics, Duration::MAX, None);
        observer.start();
        observer
    }

    #[test]
    fn all_series_exist_from_the_start_except_locks_and_elections() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, false).unwrap();
        let before = text(&registry);
        let series = |text: &str, name: &str| {
            text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).count()
        };
        assert_eq!(series(&before, "grpc_server_started_total"), 45);
        assert_eq!(series(&before, "grpc_server_handled_total"), 45 * CODES);
        assert!(!before.contains("grpc_server_handling_seconds"));
        assert!(!before.contains("v3lockpb"));

        observer(&metrics, "/v3lockpb.Lock/Lock").finish(&Status::OK);
        let line = r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Lock",grpc_service="v3lockpb.Lock",grpc_type="unary"} 1"#;
        assert!(text(&registry).contains(line));
    }

    #[test]
    fn a_dropped_call_counts_as_canceled() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, true).unwrap();
        drop(observer(&metrics, "/etcdserverpb.KV/Put"));
        let text = text(&registry);
        let labels = r#"grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
        assert!(
            text.contains(&format!("grpc_server_handled_total{{grpc_code=\"Canceled\",{labels} 1"))
        );
        assert!(text.contains(&format!("grpc_server_handling_seconds_count{{{labels} 1")));
    }

    #[test]
    fn a_handled_call_is_counted_once() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, false).unwrap();
        let mut put = observer(&metrics, "/etcdserverpb.KV/Put");
        put.handled(Code::Ok);
        put.finish(&Status::CANCELED);
        let labels = r#"grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
        for (code, count) in [("OK", 1), ("Canceled", 0)] {
            let line = format!("grpc_server_handled_total{{grpc_code=\"{code}\",{labels} {count}");
            assert!(text(&registry).contains(&line), "{line}");
        }
    }
}
