//! Metrics that are read on a scrape instead of being updated on events.
//!
//! ```text
//!   etcd_server_has_leader                              1        from the progress of Raft
//!   etcd_debugging_mvcc_keys_total                      20000    from the store
//!   etcd_cluster_version {cluster_version="3.7"}        1        the current one
//!                        {cluster_version="3.6"}        0        one seen by an earlier scrape
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use crate::quota;
use ::proto::etcdserverpb::AlarmType;
use backend::schema::version::Version;
use lease::Counts;
use membership::version::short;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, MetricFamily, MetricType};
use types::MemberId;

use crate::server::{Server, ServerInner};
use crate::state::StateMachine;

/// Reads metrics from a running member. Returns none once it has stopped.
#[derive(Debug)]
pub struct ServerCollector {
    /// Weak, so that a registry does not keep a stopped member and its database open.
    server: Weak<ServerInner>,
    descs: Vec<Desc>,
    seen: Mutex<SeenLabels>,
}

/// Labels seen by earlier scrapes: once they are removed, their value is zero.
#[derive(Debug, Default)]
struct SeenLabels {
    versions: BTreeSet<Version>,
    alarms: BTreeSet<(i32, u64)>,
}

impl ServerCollector {
    /// Creates a collector for a running member.
    ///
    /// # Errors
    /// A metric name is invalid.
    pub fn new(server: &Server) -> Result<ServerCollector, prometheus::Error> {
        let weak = Arc::downgrade(&server.inner);
        let mut collector =
            ServerCollector { server: weak, descs: Vec::new(), seen: Mutex::default() };
        let families = collector.read(server);
        collector.descs = families.iter().map(Family::desc).collect::<Result<_, _>>()?;
        Ok(collector)
    }

    /// Reads all families, in the order of etcd's documentation.
    fn read(&self, server: &Server) -> Vec<Family> {
        let state = server.state();
        let mut families = consensus(server);
        families.extend(self.cluster(server.local(), &state));
        families.extend(database(&state));
        families.extend(watchers(&state));
        families.extend(leases(&state.lessor.counts()));
        families
    }

    fn cluster(&self, local: MemberId, state: &StateMachine) -> Vec<Family> {
        vec![
            labeled(
                "etcd_server_id",
                "The id of this member, as a label; the value is 1.",
                &["server_id"],
                [(vec![local.to_string()], true)],
            ),
            self.cluster_version(state),
            known_peers(local, state),
            self.alarms(state),
            gauge(
                "etcd_debugging_auth_revision",
                "The auth revision.",
                state.auth.revision() as f64,
            ),
        ]
    }

    fn cluster_version(&self, state: &StateMachine) -> Family {
        let now = state.cluster.now().version();
        let mut seen = self.seen.lock();
        seen.versions.extend(now);
        let versions = seen.versions.iter();
        labeled(
            "etcd_cluster_version",
            "The cluster version: 1 for the current one, 0 for earlier ones.",
            &["cluster_version"],
            versions.map(|version| (vec![short(*version)], Some(*version) == now)),
        )
    }

    fn alarms(&self, state: &StateMachine) -> Family {
        let raised = state.alarms.get(AlarmType::None.into());
        let now: BTreeSet<_> = raised.iter().map(|it| (it.alarm, it.member_id)).collect();
        let mut seen = self.seen.lock();
        seen.alarms.extend(&now);
        let alarms = seen.alarms.iter();
        labeled(
            "etcd_debugging_server_alarms",
            "Alarms: 1 if raised, 0 if cleared.",
            &["alarm_type", "server_id"],
            alarms.map(|alarm| {
                let labels = vec![alarm_name(alarm.0), MemberId(alarm.1).to_string()];
                (labels, now.contains(alarm))
            }),
        )
    }
}

impl Collector for ServerCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(inner) = self.server.upgrade() else { return Vec::new() };
        self.read(&Server { inner }).into_iter().map(Family::into_proto).collect()
    }
}

fn consensus(server: &Server) -> Vec<Family> {
    let has_leader = server.leader().is_some();
    // Read before the committed index, so that applied never exceeds committed.
    let applied = server.applied().0;
    vec![
        gauge(
            "etcd_server_has_leader",
            "Whether a leader is known: 1 or 0.",
            f64::from(has_leader),
        ),
        gauge(
            "etcd_server_is_leader",
            "Whether this member leads: 1 or 0.",
            server.is_leader().into(),
        ),
        gauge(
            "etcd_server_is_learner",
            "Whether this member is a learner: 1 or 0.",
            server.is_learner().into(),
        ),
        gauge(
            "etcd_server_proposals_committed_total",
            "The committed index.",
            server.committed().0 as f64,
        ),
        gauge("etcd_server_proposals_applied_total", "The applied index.", applied as f64),
        gauge(
            "etcd_server_proposals_pending",
            "Pending proposals.",
            server.inner.proposals.pending.request_count() as f64,
        ),
        gauge(
            "etcd_server_quota_backend_bytes",
            "The quota of the database in bytes.",
            quota_bytes(server.config().quota_backend_bytes),
        ),
    ]
}

fn known_peers(local: MemberId, state: &StateMachine) -> Family {
    let cluster = state.cluster.now();
    let labels = |remote: MemberId| vec![local.to_string(), remote.to_string()];
    let members = cluster.ids().map(|id| (labels(id), true));
    let removed = cluster.removed().map(|id| (labels(id), false));
    labeled(
        "etcd_network_known_peers",
        "Members: 1 for current ones, 0 for removed ones.",
        &["Local", "Remote"],
        members.chain(removed),
    )
}

fn database(state: &StateMachine) -> Vec<Family> {
    let (backend, store) = (&state.backend, &state.store);
    vec![
        gauge(
            "etcd_mvcc_db_total_size_in_bytes",
            "The size of the database file.",
            backend.size() as f64,
        ),
        gauge(
            "etcd_mvcc_db_total_size_in_use_in_bytes",
            "The size of the database file without its free pages.",
            backend.size_in_use() as f64,
        ),
        gauge("etcd_debugging_mvcc_keys_total", "Keys.", store.keys() as f64),
        gauge(
            "etcd_debugging_mvcc_current_revision",
            "The revision of the store.",
            store.current() as f64,
        ),
        gauge(
            "etcd_debugging_mvcc_compact_revision",
            "The compacted revision; -1 before the first compaction.",
            store.compacted() as f64,
        ),
    ]
}

fn watchers(state: &StateMachine) -> Vec<Family> {
    let store = &state.store;
    let families = [
        ("etcd_debugging_mvcc_watch_stream_total", "Watch streams.", store.watch_streams()),
        ("etcd_debugging_mvcc_watcher_total", "Watchers.", store.watchers()),
        ("etcd_debugging_mvcc_slow_watcher_total", "Unsynced watchers.", store.slow_watchers()),
        (
            "etcd_debugging_mvcc_pending_events_total",
            "Events that are not sent yet.",
            store.pending_events(),
        ),
    ];
    families.into_iter().map(|(name, help, value)| gauge(name, help, value as f64)).collect()
}

fn leases(counts: &Counts) -> Vec<Family> {
    vec![
        counter("etcd_debugging_lease_granted_total", "Leases granted.", counts.granted),
        counter("etcd_debugging_lease_revoked_total", "Leases revoked.", counts.revoked),
        counter(
            "etcd_debugging_lease_renewed_total",
            "Leases renewed by this member.",
            counts.renewed,
        ),
        Family {
            name: "etcd_debugging_lease_ttl_total",
            help: "TTLs of leases, in seconds.",
            labels: &[],
            kind: MetricType::HISTOGRAM,
            metrics: vec![ttls(counts)],
        },
    ]
}

/// Converts the TTL histogram of the lessor.
fn ttls(counts: &Counts) -> proto::Metric {
    let (last, bounded) = counts.ttl.split_last().unwrap_or((&0, &[]));
    let mut sum = 0;
    let mut bound = 1.0;
    let mut buckets = Vec::new();
    for count in bounded {
        sum += count;
        let mut bucket = proto::Bucket::default();
        bucket.set_cumulative_count(sum);
        bucket.set_upper_bound(bound);
        buckets.push(bucket);
        bound *= 2.0;
    }
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(buckets);
    histogram.set_sample_count(sum + last);
    histogram.set_sample_sum(counts.ttl_sum as f64);
    let mut metric = proto::Metric::default();
    metric.set_histogram(histogram);
    metric
}

// Compat: as in etcd, a negative quota means no limit and is shown unchanged.
fn quota_bytes(configured: i64) -> f64 {
    if configured == 0 { quota::BYTES_DEFAULT as f64 } else { configured as f64 }
}

fn alarm_name(kind: i32) -> String {
    AlarmType::try_from(kind).map_or_else(|_| kind.to_string(), |it| it.as_str_name().to_owned())
}

/// A metric name with its series.
struct Family {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    kind: MetricType,
    metrics: Vec<proto::Metric>,
}

impl Family {
    fn desc(&self) -> Result<Desc, prometheus::Error> {
        let labels = self.labels.iter().copied().map(str::to_owned).collect();
        let constant = std::iter::empty().collect();
        Desc::new(self.name.to_owned(), self.help.to_owned(), labels, constant)
    }

    fn into_proto(self) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(self.kind);
        family.set_metric(self.metrics);
        family
    }
}

fn gauge(name: &'static str, help: &'static str, value: f64) -> Family {
    let metrics = vec![gauge_metric(value)];
    Family { name, help, labels: &[], kind: MetricType::GAUGE, metrics }
}

fn gauge_metric(value: f64) -> proto::Metric {
    let mut gauge = proto::Gauge::default();
    gauge.set_value(value);
    proto::Metric::from_gauge(gauge)
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Family {
    let mut counter = proto::Counter::default();
    counter.set_value(value as f64);
    let mut metric = proto::Metric::default();
    metric.set_counter(counter);
    Family { name, help, labels: &[], kind: MetricType::COUNTER, metrics: vec![metric] }
}

/// Creates a gauge with labels, 1 where `holds` is true. Labels are sorted by name.
fn labeled(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    series: impl IntoIterator<Item = (Vec<String>, bool)>,
) -> Family {
    let metric = |(values, holds): (Vec<String>, bool)| {
        let mut metric = gauge_metric(f64::from(holds));
        metric.set_label(labels.iter().zip(values).map(pair).collect());
        metric
    };
    let metrics = series.into_iter().map(metric).collect();
    Family { name, help, labels, kind: MetricType::GAUGE, metrics }
}

fn pair((name, value): (&&str, String)) -> proto::LabelPair {
    let mut pair = proto::LabelPair::default();
    pair.set_name((*name).to_owned());
    pair.set_value(value);
    pair
}
