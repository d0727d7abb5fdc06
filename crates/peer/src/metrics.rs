//! Metrics of peer traffic, with etcd's names.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, exponential_buckets,
};
use types::MemberId;

/// Buckets of round trips: 0.1 ms to 3.3 s.
const ROUND_TRIP: (f64, usize) = (0.0001, 16);
/// Buckets of snapshots: 0.1 s to 51 s.
const SNAPSHOT: (f64, usize) = (0.1, 10);

/// The label of unknown senders.
pub(crate) const UNKNOWN: &str = "UNKNOWN";

/// The metrics of all peers, created on demand.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    active: IntGaugeVec,
    disconnected: IntCounterVec,
    sent_bytes: IntCounterVec,
    received_bytes: IntCounterVec,
    sent_failures: IntCounterVec,
    received_failures: IntCounterVec,
    snapshots_sent: Snapshots,
    snapshots_received: Snapshots,
    round_trip: HistogramVec,
}

/// The metrics of snapshots in one direction.
#[derive(Clone, Debug)]
struct Snapshots {
    success: IntCounterVec,
    failures: IntCounterVec,
    in_flight: IntGaugeVec,
    duration: HistogramVec,
}

/// The metrics of one peer.
#[derive(Clone, Debug)]
pub(crate) struct PeerMetrics {
    pub(crate) active: IntGauge,
    pub(crate) disconnected: IntCounter,
    pub(crate) sent_bytes: IntCounter,
    pub(crate) received_bytes: IntCounter,
    pub(crate) sent_failures: IntCounter,
    pub(crate) received_failures: IntCounter,
    pub(crate) round_trip: Histogram,
    pub(crate) snapshots_sent: SnapshotMetrics,
}

/// The metrics of snapshots to or from one peer.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotMetrics {
    pub(crate) success: IntCounter,
    pub(crate) failures: IntCounter,
    pub(crate) in_flight: IntGauge,
    pub(crate) duration: Histogram,
}

impl Metrics {
    /// Registers all metrics.
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Metrics> {
        let make = Make(registry);
        let both = &["Local", "Remote"];
        Ok(Metrics {
            active: make.gauges(
                "active_peers",
                "The current number of active peer connections.",
                both,
            )?,
            disconnected: make.counters(
                "disconnected_peers_total",
                "The total number of disconnected peers.",
                both,
            )?,
            sent_bytes: make.counters(
                "peer_sent_bytes_total",
                "The total number of bytes sent to peers.",
                &["To"],
            )?,
            received_bytes: make.counters(
                "peer_received_bytes_total",
                "The total number of bytes received from peers.",
                &["From"],
            )?,
            sent_failures: make.counters(
                "peer_sent_failures_total",
                "The total number of send failures from peers.",
                &["To"],
            )?,
            received_failures: make.counters(
                "peer_received_failures_total",
                "The total number of receive failures from peers.",
                &["From"],
            )?,
            snapshots_sent: make.snapshots("send", "To")?,
            snapshots_received: make.snapshots("receive", "From")?,
            round_trip: make.histograms(
                "peer_round_trip_time_seconds",
                "Round-Trip-Time histogram between peers",
                &["To"],
                ROUND_TRIP,
            )?,
        })
    }

    /// Returns the metrics of a peer.
    pub(crate) fn of(&self, local: MemberId, remote: MemberId) -> PeerMetrics {
        self.named(local, &remote.to_string())
    }

    /// Returns the metrics that all unknown senders share. Ids that senders claim never become
    /// labels, because their number is unbounded.
    pub(crate) fn of_unknown(&self, local: MemberId) -> PeerMetrics {
        self.named(local, UNKNOWN)
    }

    fn named(&self, local: MemberId, remote: &str) -> PeerMetrics {
        let local = local.to_string();
        let (both, one) = ([local.as_str(), remote], [remote]);
        PeerMetrics {
            active: self.active.with_label_values(&both),
            disconnected: self.disconnected.with_label_values(&both),
            sent_bytes: self.sent_bytes.with_label_values(&one),
            received_bytes: self.received_bytes.with_label_values(&one),
            sent_failures: self.sent_failures.with_label_values(&one),
            received_failures: self.received_failures.with_label_values(&one),
            round_trip: self.round_trip.with_label_values(&one),
            snapshots_sent: self.snapshots_sent.of(&one),
        }
    }

    pub(crate) fn received_failure(&self, from: &str) {
        self.received_failures.with_label_values(&[from]).inc();
    }

    pub(crate) fn received_bytes(&self, from: &str, bytes: u64) {
        self.received_bytes.with_label_values(&[from]).inc_by(bytes);
    }

    pub(crate) fn snapshots_from(&self, from: &str) -> SnapshotMetrics {
        self.snapshots_received.of(&[from])
    }
}

impl Snapshots {
    fn of(&self, member: &[&str]) -> SnapshotMetrics {
        SnapshotMetrics {
            success: self.success.with_label_values(member),
            failures: self.failures.with_label_values(member),
            in_flight: self.in_flight.with_label_values(member),
            duration: self.duration.with_label_values(member),
        }
    }
}

struct Make<'a>(&'a Registry);

impl Make<'_> {
    fn counters(&self, name: &str, help: &str, by: &[&str]) -> prometheus::Result<IntCounterVec> {
        let counters = IntCounterVec::new(opts(name, help), by)?;
        self.0.register(Box::new(counters.clone()))?;
        Ok(counters)
    }

    fn gauges(&self, name: &str, help: &str, by: &[&str]) -> prometheus::Result<IntGaugeVec> {
        let gauges = IntGaugeVec::new(opts(name, help), by)?;
        self.0.register(Box::new(gauges.clone()))?;
        Ok(gauges)
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        by: &[&str],
        (first, count): (f64, usize),
    ) -> prometheus::Result<HistogramVec> {
        let opts = HistogramOpts::from(opts(name, help));
        let opts = opts.buckets(exponential_buckets(first, 2.0, count)?);
        let histograms = HistogramVec::new(opts, by)?;
        self.0.register(Box::new(histograms.clone()))?;
        Ok(histograms)
    }

    fn snapshots(&self, direction: &str, by: &str) -> prometheus::Result<Snapshots> {
        let name = |what: &str| format!("snapshot_{direction}_{what}");
        let by = &[by];
        let help = |what: &str| format!("Total number of {what}");
        Ok(Snapshots {
            success: self.counters(
                &name("success"),
                &help(&format!("successful snapshot {direction}s")),
                by,
            )?,
            failures: self.counters(
                &name("failures"),
                &help(&format!("snapshot {direction} failures")),
                by,
            )?,
            in_flight: self.gauges(
                &name("inflights_total"),
                &help(&format!("inflight snapshot {direction}s")),
                by,
            )?,
            duration: self.histograms(
                &name("total_duration_seconds"),
                &format!("Total latency distributions of v3 snapshot {direction}s"),
                by,
                SNAPSHOT,
            )?,
        })
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("etcd").subsystem("network")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_are_etcds() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let counts = metrics.of(MemberId(1), MemberId(0xb));
        counts.sent_bytes.inc_by(7);
        metrics.snapshots_from("b").success.inc();
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "etcd_network_active_peers{Local=\"1\",Remote=\"b\"} 0",
            "etcd_network_disconnected_peers_total{Local=\"1\",Remote=\"b\"} 0",
            "etcd_network_peer_sent_bytes_total{To=\"b\"} 7",
            "etcd_network_snapshot_send_success{To=\"b\"} 0",
            "etcd_network_snapshot_receive_success{From=\"b\"} 1",
            "etcd_network_snapshot_receive_inflights_total{From=\"b\"} 0",
            "etcd_network_snapshot_send_total_duration_seconds_bucket{To=\"b\",le=\"51.2\"} 0",
            "etcd_network_peer_round_trip_time_seconds_bucket{To=\"b\",le=\"3.2768\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
