//! The metrics of a proxy, under etcd's names.

use std::sync::{Arc, OnceLock};

use grpc::{Code, MessageCounter, Method};
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::methods::METHODS;

const LABELS: [&str; 3] = ["grpc_type", "grpc_service", "grpc_method"];
const LABELS_WITH_CODE: [&str; 4] = ["grpc_type", "grpc_service", "grpc_method", "grpc_code"];

/// The metrics of a proxy.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Watchers of clients that share a watcher of a member with an earlier one.
    pub(crate) watchers_coalescing: IntGauge,
    /// Responses of members that were sent to a further client.
    pub(crate) events_coalescing: IntCounter,
    /// Responses in the cache.
    pub(crate) cache_keys: IntGauge,
    /// Requests that were answered from the cache.
    pub(crate) cache_hits: IntGauge,
    /// Serializable requests that were not in the cache.
    pub(crate) cache_misses: IntGauge,
    calls: Calls,
    methods: Vec<OnceLock<Arc<MethodMetrics>>>,
}

#[derive(Debug)]
struct Calls {
    started: IntCounterVec,
    received: IntCounterVec,
    sent: IntCounterVec,
    handled: IntCounterVec,
}

/// The metrics of one method.
#[derive(Debug)]
pub(crate) struct MethodMetrics {
    started: IntCounter,
    received: IntCounter,
    sent: IntCounter,
    /// By code; created with the first call that ends with it.
    handled: IntCounterVec,
    labels: [&'static str; 3],
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// The registry already has one of them.
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Metrics> {
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(format!("etcd_grpc_proxy_{name}"), help)?;
            registry.register(Box::new(gauge.clone()))?;
            prometheus::Result::Ok(gauge)
        };
        let events_coalescing = IntCounter::new(
            "etcd_grpc_proxy_events_coalescing_total",
            "Responses of watchers that were sent to a further client.",
        )?;
        registry.register(Box::new(events_coalescing.clone()))?;
        Ok(Metrics {
            watchers_coalescing: gauge(
                "watchers_coalescing_total",
                "Watchers of clients that share a watcher of a member with another one.",
            )?,
            events_coalescing,
            cache_keys: gauge("cache_keys_total", "Keys and ranges in the cache.")?,
            cache_hits: gauge("cache_hits_total", "Reads that were answered from the cache.")?,
            cache_misses: gauge("cache_misses_total", "Reads that were not in the cache.")?,
            calls: Calls {
                started: counters(registry, "started", "Calls that began.", &LABELS)?,
                received: counters(registry, "msg_received", "Messages received.", &LABELS)?,
                sent: counters(registry, "msg_sent", "Messages sent.", &LABELS)?,
                handled: counters(
                    registry,
                    "handled",
                    "Calls that ended, well or not, by their code.",
                    &LABELS_WITH_CODE,
                )?,
            },
            methods: METHODS.iter().map(|_| OnceLock::new()).collect(),
        })
    }

    /// Returns the metrics of the method at a position in [`METHODS`].
    pub(crate) fn method(&self, at: usize) -> &Arc<MethodMetrics> {
        self.methods[at].get_or_init(|| Arc::new(self.calls.of(&METHODS[at])))
    }
}

impl Calls {
    fn of(&self, method: &Method) -> MethodMetrics {
        let labels = [method.kind.name(), method.service, method.name];
        MethodMetrics {
            started: self.started.with_label_values(&labels),
            received: self.received.with_label_values(&labels),
            sent: self.sent.with_label_values(&labels),
            handled: self.handled.clone(),
            labels,
        }
    }
}

impl MethodMetrics {
    /// Counts the start of a call.
    pub(crate) fn started(&self) {
        self.started.inc();
    }

    /// Counts the end of a call.
    pub(crate) fn handled(&self, code: Code) {
        let [kind, service, name] = self.labels;
        self.handled.with_label_values(&[kind, service, name, code.name()]).inc();
    }
}

impl MessageCounter for MethodMetrics {
    fn received(&self) {
        self.received.inc();
    }

    fn received_bytes(&self, _: usize) {}

    fn sent(&self, _: usize) {
        self.sent.inc();
    }
}

fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> prometheus::Result<IntCounterVec> {
    let counters =
        IntCounterVec::new(Opts::new(format!("grpc_server_{name}_total"), help), labels)?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn metrics_have_etcds_names() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        metrics.method(0).started();
        metrics.method(0).handled(Code::Ok);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "etcd_grpc_proxy_watchers_coalescing_total 0",
            "etcd_grpc_proxy_events_coalescing_total 0",
            "etcd_grpc_proxy_cache_keys_total 0",
            "etcd_grpc_proxy_cache_hits_total 0",
            "etcd_grpc_proxy_cache_misses_total 0",
            r#"grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 1"#,
            r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 1"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
    }
}
