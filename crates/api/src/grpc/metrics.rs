//! What is counted of gRPC, under etcd's names.
//!
//! Counters of every method are looked up once, at the start; counting a call is a few additions. Compat: what counts as a message is what counts in etcd, where
//! a unary call has always received one and sent one, also if it failed, and the end of a client's stream counts as received.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

use super::rpc::{METHODS, Method};
use super::status::{CODES, Code};
use super::versions::ClientVersions;

const LABELS: [&str; 3] = ["grpc_type", "grpc_service", "grpc_method"];
const LABELS_WITH_CODE: [&str; 4] = ["grpc_type", "grpc_service", "grpc_method", "grpc_code"];

/// Go's default buckets.
const HANDLING_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// What is counted of gRPC.
#[derive(Debug)]
pub(crate) struct Metrics {
    families: Families,
    methods: Vec<OnceLock<Arc<MethodMetrics>>>,
    /// `etcd_network_client_grpc_sent_bytes_total`
    pub(crate) sent_bytes: IntCounter,
    /// `etcd_network_client_grpc_received_bytes_total`
    pub(crate) received_bytes: IntCounter,
    /// `etcd_server_client_requests_total`
    pub(crate) versions: ClientVersions,
    /// `etcd_network_server_stream_failures_total`
    stream_failures: IntCounterVec,
}

/// What is counted of one method.
#[derive(Debug)]
pub(crate) struct MethodMetrics {
    started: IntCounter,
    received: IntCounter,
    sent: IntCounter,
    handled: [IntCounter; CODES],
    seconds: Option<Histogram>,
}

#[derive(Debug)]
struct Families {
    started: IntCounterVec,
    received: IntCounterVec,
    sent: IntCounterVec,
    handled: IntCounterVec,
    seconds: Option<HistogramVec>,
}

impl Metrics {
    /// Registers them. `extensive` adds how long calls take, as `--metrics=extensive` does.
    pub(crate) fn new(registry: &Registry, extensive: bool) -> prometheus::Result<Metrics> {
        let metrics = Metrics {
            families: Families::new(registry, extensive)?,
            methods: METHODS.iter().map(|_| OnceLock::new()).collect(),
            sent_bytes: counter(
                registry,
                "etcd_network_client_grpc_sent_bytes_total",
                "Bytes of messages sent to clients of gRPC.",
            )?,
            received_bytes: counter(
                registry,
                "etcd_network_client_grpc_received_bytes_total",
                "Bytes of messages received from clients of gRPC.",
            )?,
            versions: ClientVersions::new(registry)?,
            stream_failures: counters(
                registry,
                "etcd_network_server_stream_failures_total",
                "Streams that broke while they were sent to or received from, by service.",
                &["Type", "API"],
            )?,
        };
        for (at, method) in METHODS.iter().enumerate() {
            if method.is_counted_from_the_start() {
                metrics.method(at);
            }
        }
        Ok(metrics)
    }

    /// The counters of the method at a place among [`METHODS`].
    pub(crate) fn method(&self, at: usize) -> &Arc<MethodMetrics> {
        self.methods[at].get_or_init(|| Arc::new(self.families.of(&METHODS[at])))
    }

    /// Something came in over a stream that is no request, other than by its client's will.
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
            sent: counters(
                registry,
                "grpc_server_msg_sent_total",
                "Messages sent in calls.",
                &LABELS,
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
            sent: self.sent.with_label_values(&labels),
            handled: Code::ALL.map(|code| self.handled.with_label_values(&handled(code))),
            seconds: self.seconds.as_ref().map(|seconds| seconds.with_label_values(&labels)),
        }
    }
}

impl MethodMetrics {
    pub(crate) fn received(&self) {
        self.received.inc();
    }

    pub(crate) fn sent(&self) {
        self.sent.inc();
    }

    /// A call has begun.
    pub(crate) fn begin(self: &Arc<Self>) -> Counted {
        self.started.inc();
        Counted { metrics: Arc::clone(self), started: Instant::now(), ended: false }
    }
}

/// A call that is being counted. If it is dropped before it ended, its client has given up.
#[derive(Debug)]
pub(crate) struct Counted {
    metrics: Arc<MethodMetrics>,
    pub(crate) started: Instant,
    ended: bool,
}

impl Counted {
    /// The call has ended.
    pub(crate) fn end(mut self, code: Code) {
        self.count(code);
    }

    fn count(&mut self, code: Code) {
        self.ended = true;
        self.metrics.handled[code as usize].inc();
        if let Some(seconds) = &self.metrics.seconds {
            seconds.observe(self.started.elapsed().as_secs_f64());
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.ended {
            self.count(Code::Canceled);
        }
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
    use prometheus::TextEncoder;

    use super::*;

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn all_series_are_there_from_the_start_but_those_of_locks_and_elections() {
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

        let (at, _) = Method::find("/v3lockpb.Lock/Lock").unwrap();
        metrics.method(at).begin().end(Code::Ok);
        let line = r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Lock",grpc_service="v3lockpb.Lock",grpc_type="unary"} 1"#;
        assert!(text(&registry).contains(line));
    }

    #[test]
    fn a_call_that_is_dropped_was_canceled() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, true).unwrap();
        let (at, _) = Method::find("/etcdserverpb.KV/Put").unwrap();
        drop(metrics.method(at).begin());
        let text = text(&registry);
        let labels = r#"grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
        assert!(
            text.contains(&format!("grpc_server_handled_total{{grpc_code=\"Canceled\",{labels} 1"))
        );
        assert!(text.contains(&format!("grpc_server_handling_seconds_count{{{labels} 1")));
    }
}
