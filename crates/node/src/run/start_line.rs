//! The first line of a starting member: its configuration, with etcd's names and values.
//!
//! ```text
//!   {"msg":"starting an etcd server","etcd-version":"3.7.3",…,"member-initialized":false,
//!    "name":"m1","data-dir":"m1.etcd",…,"heartbeat-interval":"100ms","election-timeout":"1s",…}
//! ```
//!
//! Tools find the settings of a running member here, so the values are those of etcd for the same
//! flags, also where Bowline resolves them to something else ([`config::FlagValues`]).

use std::time::Duration;

use config::gates::Gate;
use config::url::Url;
use config::{Config, DiscoveryFlags, FlagValues};
use gocompat::GoDuration;
use net::Runtimes;

use crate::bootstrap::InitialCluster;
use crate::listeners::texts;

/// The only stage that is left of `--v2-deprecation`, whatever the flag says.
const V2_DEPRECATION: &str = "write-only";

/// Logs the configuration. `initial` is the initial cluster of a member without data.
///
/// Compat: as in etcd, a member with data logs no initial cluster and no token, since it uses
/// neither.
pub(super) fn log(config: &Config, initial: Option<&InitialCluster>) {
    let FlagValues { discovery, auto_compaction_mode, auto_compaction_retention, .. } =
        &config.flag_values;
    let DiscoveryFlags { dial_timeout, request_timeout, keepalive_time, .. } = discovery;
    let wal_dir = config.wal_dir.as_ref().map_or(String::new(), |dir| dir.display().to_string());
    tracing::info!(
        etcd_version = types::ETCD_VERSION,
        bowline_version = config::BOWLINE_VERSION,
        git_sha = config::GIT_SHA,
        go_version = config::GO_VERSION,
        go_os = std::env::consts::OS,
        go_arch = config.flag_values.arch,
        max_cpu_set = Runtimes::count_default(),
        max_cpu_available = std::thread::available_parallelism().map_or(1, usize::from),
        member_initialized = initial.is_none(),
        name = config.name,
        data_dir = %config.data_dir.display(),
        wal_dir,
        wal_dir_dedicated = wal_dir,
        member_dir = %config.data_dir.join("member").display(),
        force_new_cluster = config.cluster.force_new,
        heartbeat_interval = %go(config.raft.tick),
        election_timeout = %go(config.raft.election_timeout()),
        initial_election_tick_advance = config.raft.initial_election_tick_advance,
        snapshot_count = config.flag_values.snapshot_count,
        max_wals = config.raft.wals_max.unwrap_or(0),
        max_snapshots = config.raft.snapshots_max.unwrap_or(0),
        snapshot_catchup_entries = config.flag_values.snapshot_catchup_entries,
        initial_advertise_peer_urls = ?url_texts(&config.advertise.peer),
        listen_peer_urls = ?texts(&config.listen.peer),
        advertise_client_urls = ?url_texts(&config.advertise.client),
        listen_client_urls = ?texts(&config.listen.client),
        listen_metrics_urls = ?texts(&config.listen.metrics),
        local_address = config.peer.local_address.map_or(String::new(), |it| it.to_string()),
        cors = ?config.client.cors.iter().collect::<Vec<_>>(),
        host_whitelist = ?config.client.host_whitelist.iter().collect::<Vec<_>>(),
        initial_cluster = initial.map_or(String::new(), |it| it.members.to_string()),
        initial_cluster_state = config.cluster.state.as_str(),
        initial_cluster_token = initial.map_or("", |it| &it.token),
        quota_backend_bytes = config.flag_values.quota_backend_bytes,
        max_request_bytes = config.limits.request_bytes,
        max_concurrent_streams = config.client.streams_max,
        pre_vote = config.raft.pre_vote,
        feature_gates = %config.gates,
        initial_corrupt_check = config.gates.enabled(Gate::InitialCorruptCheck),
        corrupt_check_time_interval = %go(config.checks.corruption_interval.unwrap_or_default()),
        compact_check_time_interval = %go(config.checks.compact_hash_interval),
        auto_compaction_mode,
        auto_compaction_retention = %auto_compaction_retention,
        auto_compaction_interval = %auto_compaction_retention,
        discovery_token = discovery.token,
        discovery_endpoints = discovery.endpoints.join(","),
        discovery_dial_timeout = %dial_timeout,
        discovery_request_timeout = %request_timeout,
        discovery_keepalive_time = %keepalive_time,
        discovery_keepalive_timeout = %discovery.keepalive_timeout,
        discovery_insecure_transport = discovery.insecure_transport,
        discovery_insecure_skip_tls_verify = discovery.insecure_skip_tls_verify,
        discovery_cert = discovery.cert,
        discovery_key = discovery.key,
        discovery_cacert = discovery.cacert,
        discovery_user = discovery.user,
        downgrade_check_interval = %go(config.checks.downgrade_interval.unwrap_or_default()),
        max_learners = config.cluster.learners_max,
        v2_deprecation = V2_DEPRECATION,
        "starting an etcd server"
    );
}

fn url_texts(urls: &[Url]) -> Vec<String> {
    urls.iter().map(ToString::to_string).collect()
}

/// Converts a duration to one that prints as in Go.
fn go(time: Duration) -> GoDuration {
    GoDuration::from(time)
}
