//! Resolving `Flags` into a `Config`.
//!
//! ```text
//!     --name m1 --listen-peer-urls http://0.0.0.0:2380     on a machine with the address 10.0.0.7
//!
//!     data_dir         m1.etcd
//!     advertise.peer   http://10.0.0.7:2380
//!     cluster.initial  m1=http://10.0.0.7:2380
//! ```
//!
//! The flags have passed [`check`](super::check). etcd reports the errors of this module later,
//! when it starts, or not at all.

mod discovery;
mod flag_values;
pub(crate) mod logging;
pub(crate) mod tls;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::logging::LogConfig;
use gocompat::{GoDuration, parse_decimal};

use crate::check::DEFAULT_NAME;
use crate::error::ConfigError;
use crate::flags::Flags;
use crate::gates::Gate;
use crate::host_info::HostInfo;
use crate::notice::{
    BCRYPT_COST, BCRYPT_COSTS, Notice, QUOTA_BYTES_RECOMMENDED, REQUEST_BYTES_RECOMMENDED,
};
use crate::resolved::{
    Advertise, Auth, AutoCompaction, Backend, Checks, Client, ClusterConfig, ClusterState,
    Compaction, Config, Keepalive, Limits, Listen, Monitoring, Peer, ProfilesBy, Raft, Tracing,
};
use crate::url::{self, ListenUrl, Url};

const DEFAULT_ADVERTISE_PEER: &str = "http://localhost:2380";
const DEFAULT_ADVERTISE_CLIENT: &str = "http://localhost:2379";
const DEFAULT_INITIAL_CLUSTER: &str = "default=http://localhost:2380";

const SNAPSHOT_COUNT: u64 = 10_000;
const SNAPSHOT_CATCHUP_ENTRIES: u64 = 5_000;
const QUOTA_BYTES: u64 = 2 * 1024 * 1024 * 1024;
const BATCH_INTERVAL: Duration = Duration::from_millis(100);
const BATCH_OPERATIONS: u64 = 10_000;
const COMPACTION_BATCH_REVISIONS: u64 = 1_000;
const COMPACTION_PAUSE: Duration = Duration::from_millis(10);
const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(100);
const SLOW_REQUEST: Duration = Duration::from_millis(300);
/// The value of `--auto-compaction-mode` for a period of time.
const PERIODIC: &str = "periodic";
const HOUR_NANOS: i64 = 3_600_000_000_000;

/// Resolves checked flags, and notes what to log about them.
pub(crate) fn resolve(
    mut flags: Flags,
    logs: LogConfig,
    host_info: &HostInfo,
    notices: &mut Vec<Notice>,
) -> Result<Config, ConfigError> {
    advertise_default_host(&mut flags, host_info, notices);
    tls::note_ignored_auto_tls(&flags, notices);
    let (peer, tls) = (peer(&flags, notices)?, tls::client(&flags, notices)?);
    let listen = listen(&flags)?;
    Ok(Config {
        data_dir: data_dir(&flags, notices),
        wal_dir: (!flags.wal_dir.is_empty()).then(|| PathBuf::from(&flags.wal_dir)),
        listen,
        advertise: Advertise {
            peer: flags.initial_advertise_peer_urls.urls().to_vec(),
            client: flags.advertise_client_urls.urls().to_vec(),
        },
        compaction: compaction(&flags)?,
        cluster: cluster(&flags)?,
        raft: raft(&flags, notices),
        backend: backend(&flags, notices)?,
        limits: limits(&flags, notices),
        client: client(&flags, notices),
        tls,
        peer,
        auth: auth(&flags, notices),
        checks: checks(&flags)?,
        monitoring: monitoring(&flags),
        flag_values: flag_values::flag_values(&flags, host_info)?,
        logs,
        name: flags.name,
        gates: flags.feature_gates,
        unsafe_no_fsync: flags.unsafe_no_fsync,
    })
}

/// Advertises the address of the default route if the member listens on all addresses and no
/// advertised URL was given.
///
/// Compat: as in etcd, the default initial cluster follows the name of the member if one was given.
fn advertise_default_host(flags: &mut Flags, host_info: &HostInfo, notices: &mut Vec<Notice>) {
    let found = (host_info.default_host)();
    let host = found.ok().map(|address| gocompat::bracketed(&address.to_string()).into_owned());
    let peer = host.as_deref().and_then(|host| {
        let listen = flags.listen_peer_urls.urls();
        default_host_url(
            listen,
            flags.initial_advertise_peer_urls.urls(),
            DEFAULT_ADVERTISE_PEER,
            host,
        )
    });
    let client = host.as_deref().and_then(|host| {
        let listen = flags.listen_client_urls.urls();
        default_host_url(listen, flags.advertise_client_urls.urls(), DEFAULT_ADVERTISE_CLIENT, host)
    });
    let used = peer.is_some() || client.is_some();
    if let Some(url) = peer {
        flags.initial_advertise_peer_urls.replace(vec![url]);
    }
    if let Some(url) = client {
        flags.advertise_client_urls.replace(vec![url]);
    }
    if flags.name != DEFAULT_NAME && flags.initial_cluster == DEFAULT_INITIAL_CLUSTER {
        flags.initial_cluster = initial_cluster_of(flags);
    }
    match (host, found) {
        (Some(host), _) if used => notices.push(Notice::DefaultHost { host }),
        (_, Err(error)) => notices.push(Notice::NoDefaultHost { error: error.to_string() }),
        _ => {}
    }
}

/// Returns the URL to advertise instead of the default if the member listens on all addresses.
fn default_host_url(listen: &[Url], advertised: &[Url], default: &str, host: &str) -> Option<Url> {
    let [url] = advertised else { return None };
    let first = listen.first().filter(|first| first.hostname() == "0.0.0.0")?;
    (url.as_str() == default).then(|| Url::with_host(url.scheme(), host, first.port()))
}

/// Returns an initial cluster with only the local member.
fn initial_cluster_of(flags: &Flags) -> String {
    let name = if flags.name.is_empty() { DEFAULT_NAME } else { &flags.name };
    let urls = flags.initial_advertise_peer_urls.urls();
    urls.iter().map(|url| format!("{name}={url}")).collect::<Vec<_>>().join(",")
}

fn data_dir(flags: &Flags, notices: &mut Vec<Notice>) -> PathBuf {
    if !flags.data_dir.is_empty() {
        return PathBuf::from(&flags.data_dir);
    }
    let dir = format!("{}.etcd", flags.name);
    notices.push(Notice::DefaultDataDir { dir: dir.clone() });
    PathBuf::from(dir)
}

fn listen(flags: &Flags) -> Result<Listen, ConfigError> {
    let (client, http) = (flags.listen_client_urls.urls(), flags.listen_client_http_urls.urls());
    let without_certificate =
        flags.cert_file.is_empty() && flags.key_file.is_empty() && !flags.auto_tls;
    let mut both = client.iter().chain(http);
    if let Some(url) = both.find(|url| url.scheme().is_secure() && without_certificate) {
        return Err(ConfigError::ClientTls(url.to_string()));
    }
    let metrics = flags.listen_metrics_urls.urls();
    let listen = Listen {
        peer: listen_urls(flags.listen_peer_urls.urls())?,
        client: listen_urls(client)?,
        client_http: listen_urls(http)?,
        metrics: listen_urls(metrics)?,
        reuse_port: flags.socket_reuse_port,
        reuse_address: flags.socket_reuse_address,
    };
    let is_client_address =
        |url: &&ListenUrl| listen.client.iter().any(|other| other.address() == url.address());
    if let Some(url) = listen.client_http.iter().find(is_client_address) {
        return Err(ConfigError::BothOnOneUrl(url.to_string()));
    }
    if without_certificate && metrics.iter().any(|url| url.scheme().is_secure()) {
        return Err(ConfigError::MetricsTls);
    }
    Ok(listen)
}

fn listen_urls(urls: &[Url]) -> Result<Vec<ListenUrl>, ConfigError> {
    urls.iter().map(|url| Ok(ListenUrl::new(url.clone())?)).collect()
}

fn cluster(flags: &Flags) -> Result<ClusterConfig, ConfigError> {
    let new = flags.initial_cluster_state == ClusterState::New.as_str();
    Ok(ClusterConfig {
        state: if new { ClusterState::New } else { ClusterState::Existing },
        token: flags.initial_cluster_token.clone(),
        initial: flags.initial_cluster.clone(),
        discovery: discovery::discovery(flags)?,
        force_new: flags.force_new_cluster,
        strict_reconfig_check: flags.strict_reconfig_check,
        learners_max: u64::try_from(flags.max_learners).unwrap_or(0),
    })
}

fn raft(flags: &Flags, notices: &mut Vec<Notice>) -> Raft {
    let (mut snapshot_count, mut catchup) = (flags.snapshot_count, flags.snapshot_catchup_entries);
    if snapshot_count == 0 {
        snapshot_count = SNAPSHOT_COUNT;
        notices.push(Notice::SnapshotCount { updated: snapshot_count });
    }
    if catchup == 0 {
        catchup = SNAPSHOT_CATCHUP_ENTRIES;
        notices.push(Notice::CatchUpEntries { updated: catchup });
    }
    Raft {
        tick: Duration::from_millis(flags.heartbeat_interval),
        election_ticks: flags.election_timeout / flags.heartbeat_interval.max(1),
        pre_vote: flags.pre_vote,
        initial_election_tick_advance: flags.initial_election_tick_advance,
        snapshot_count,
        snapshot_catchup_entries: catchup,
        snapshots_max: unless_zero(flags.max_snapshots),
        wals_max: unless_zero(flags.max_wals),
    }
}

fn peer(flags: &Flags, notices: &mut Vec<Notice>) -> Result<Peer, ConfigError> {
    let timeout = |flag, value: GoDuration| {
        let reject = || ConfigError::NotPositive { flag, value: value.to_string() };
        positive(value).ok_or_else(reject)
    };
    Ok(Peer {
        tls: tls::peer(flags, notices)?,
        local_address: local_address(flags, notices),
        read_timeout: timeout("raft-read-timeout", flags.raft_read_timeout)?,
        write_timeout: timeout("raft-write-timeout", flags.raft_write_timeout)?,
    })
}

/// Returns the address to dial peers from: the first advertised one that is neither loopback nor
/// unspecified. `None` without the feature gate.
fn local_address(flags: &Flags, notices: &mut Vec<Notice>) -> Option<IpAddr> {
    if !flags.feature_gates.enabled(Gate::SetMemberLocalAddr) {
        return None;
    }
    let urls = flags.initial_advertise_peer_urls.urls();
    let is_own = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
    let mut addresses = urls.iter().filter_map(|url| url.hostname().parse().ok());
    let address = addresses.find(is_own);
    notices.push(Notice::LocalAddress { urls: url::list::texts(urls), address });
    address
}

fn backend(flags: &Flags, notices: &mut Vec<Notice>) -> Result<Backend, ConfigError> {
    let quota_bytes = match u64::try_from(flags.quota_backend_bytes) {
        Ok(0) => Some(QUOTA_BYTES),
        Ok(bytes) => Some(bytes),
        Err(_) => None,
    };
    if let Some(bytes) = quota_bytes.filter(|bytes| *bytes > QUOTA_BYTES_RECOMMENDED) {
        notices.push(Notice::LargeQuota { bytes });
    }
    if flags.backend_bbolt_freelist_type == "array" {
        notices.push(Notice::ArrayFreelist);
    }
    Ok(Backend {
        quota_bytes,
        batch_interval: time("backend-batch-interval", flags.backend_batch_interval)?
            .unwrap_or(BATCH_INTERVAL),
        batch_operations: number("backend-batch-limit", flags.backend_batch_limit)?
            .unwrap_or(BATCH_OPERATIONS),
        bootstrap_defrag_megabytes: unless_zero(flags.bootstrap_defrag_threshold_megabytes),
        mlock: flags.memory_mlock,
    })
}

fn compaction(flags: &Flags) -> Result<Compaction, ConfigError> {
    Ok(Compaction {
        auto: auto_compaction(&flags.auto_compaction_mode, &flags.auto_compaction_retention)?,
        batch_revisions: number("compaction-batch-limit", flags.compaction_batch_limit)?
            .unwrap_or(COMPACTION_BATCH_REVISIONS),
        pause: time("compaction-sleep-interval", flags.compaction_sleep_interval)?
            .unwrap_or(COMPACTION_PAUSE),
    })
}

/// Resolves the retention: a plain number is hours or revisions, other texts are durations.
///
/// Compat: as in etcd, the nanoseconds of a duration serve as a number of revisions too.
fn auto_compaction(mode: &str, retention: &str) -> Result<Option<AutoCompaction>, ConfigError> {
    let amount = retention_nanos(mode, retention)?;
    let negative =
        || ConfigError::Negative { flag: "auto-compaction-retention", value: retention.to_owned() };
    match u64::try_from(amount).map_err(|_| negative())? {
        0 => Ok(None),
        nanos if mode == PERIODIC => {
            Ok(Some(AutoCompaction::Periodic(Duration::from_nanos(nanos))))
        }
        revisions => Ok(Some(AutoCompaction::Revision(revisions))),
    }
}

/// Returns the retention in nanoseconds, or in revisions.
fn retention_nanos(mode: &str, retention: &str) -> Result<i64, ConfigError> {
    let retention = if retention.is_empty() { "0" } else { retention };
    Ok(match parse_decimal(retention).ok().filter(|number| *number >= 0) {
        Some(hours) if mode == PERIODIC => hours
            .checked_mul(HOUR_NANOS)
            .ok_or_else(|| ConfigError::Retention(format!("{retention} hours is too long")))?,
        Some(revisions) => revisions,
        None => GoDuration::parse(retention)
            .map_err(|error| ConfigError::Retention(error.to_string()))?
            .nanos(),
    })
}

fn limits(flags: &Flags, notices: &mut Vec<Notice>) -> Limits {
    let bytes = flags.max_request_bytes;
    if bytes > REQUEST_BYTES_RECOMMENDED {
        notices.push(Notice::LargeRequests { bytes });
    }
    Limits { txn_operations: flags.max_txn_ops, request_bytes: bytes }
}

fn client(flags: &Flags, notices: &mut Vec<Notice>) -> Client {
    let interval = positive(flags.grpc_keepalive_interval);
    let timeout = positive(flags.grpc_keepalive_timeout);
    Client {
        streams_max: flags.max_concurrent_streams,
        ping_interval_min: positive(flags.grpc_keepalive_min_time),
        keepalive: interval.zip(timeout).map(|(interval, timeout)| Keepalive { interval, timeout }),
        cors: flags.cors.values().clone(),
        gateway: flags.enable_grpc_gateway,
        host_whitelist: flags.host_whitelist.iter().cloned().collect(),
        watch_progress_interval: progress_interval(flags, notices),
    }
}

fn progress_interval(flags: &Flags, notices: &mut Vec<Notice>) -> Option<Duration> {
    let interval = positive(flags.watch_progress_notify_interval)?;
    if interval < PROGRESS_INTERVAL_MIN {
        notices.push(Notice::ProgressInterval { min: PROGRESS_INTERVAL_MIN.into() });
    }
    Some(interval.max(PROGRESS_INTERVAL_MIN))
}

fn auth(flags: &Flags, notices: &mut Vec<Notice>) -> Auth {
    let valid = Some(flags.bcrypt_cost).filter(|cost| BCRYPT_COSTS.contains(cost));
    if valid.is_none() {
        notices.push(Notice::BcryptCost { given: flags.bcrypt_cost });
    }
    Auth {
        token: flags.auth_token.clone(),
        bcrypt_cost: valid.and_then(|cost| u32::try_from(cost).ok()).unwrap_or(BCRYPT_COST),
        token_ttl: Duration::from_secs(flags.auth_token_ttl),
    }
}

fn checks(flags: &Flags) -> Result<Checks, ConfigError> {
    Ok(Checks {
        corruption_interval: time("corrupt-check-time", flags.corrupt_check_time)?,
        compact_hash_interval: flags.compact_hash_check_time.non_negative(),
        downgrade_interval: time("downgrade-check-time", flags.downgrade_check_time)?,
    })
}

fn monitoring(flags: &Flags) -> Monitoring {
    let unset = flags.warning_unary_request_duration == GoDuration::default();
    Monitoring {
        extensive_metrics: flags.metrics == "extensive",
        slow_apply: flags.warning_apply_duration.non_negative(),
        slow_request: if unset {
            SLOW_REQUEST
        } else {
            flags.warning_unary_request_duration.non_negative()
        },
        tracing: flags.enable_distributed_tracing.then(|| tracing(flags)),
        profiles: profiles(flags),
    }
}

/// Compat: as in etcd, profiles are also enabled by the log level, written exactly like this.
fn profiles(flags: &Flags) -> Option<ProfilesBy> {
    match (flags.enable_pprof, flags.log_level.as_str()) {
        (true, _) => Some(ProfilesBy::Flag),
        (false, "debug") => Some(ProfilesBy::LogLevel),
        (false, _) => None,
    }
}

fn tracing(flags: &Flags) -> Tracing {
    let id = &flags.distributed_tracing_instance_id;
    Tracing {
        address: flags.distributed_tracing_address.clone(),
        service_name: flags.distributed_tracing_service_name.clone(),
        instance_id: Some(id.clone()).filter(|id| !id.is_empty()),
        // `check` has verified the range.
        sampled_per_million: u32::try_from(flags.distributed_tracing_sampling_rate).unwrap_or(0),
    }
}

fn unless_zero(value: u64) -> Option<u64> {
    Some(value).filter(|value| *value != 0)
}

/// Returns `None`, which switches a feature off, unless the duration is positive.
fn positive(value: GoDuration) -> Option<Duration> {
    Some(value.non_negative()).filter(|value| !value.is_zero())
}

/// Returns `None` for zero, which stands for a default. Rejects negative values, with which etcd
/// would run a loop without a pause.
fn time(flag: &'static str, value: GoDuration) -> Result<Option<Duration>, ConfigError> {
    if value < GoDuration::default() {
        return Err(ConfigError::Negative { flag, value: value.to_string() });
    }
    Ok(positive(value))
}

/// Returns `None` for zero, which stands for a default. Rejects negative numbers.
fn number(flag: &'static str, value: i64) -> Result<Option<u64>, ConfigError> {
    let reject = |_| ConfigError::Negative { flag, value: value.to_string() };
    u64::try_from(value).map(unless_zero).map_err(reject)
}
