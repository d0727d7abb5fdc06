//! The settings of each component, derived from the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use profile::Profiles;
use server::{AutoCompaction, Features, ServerConfig};

use crate::bootstrap::{Bootstrap, InitialCluster};
use config::gates::Gate;
use config::url::Address;
use config::url::list::UrlsMap;
use config::{Config, DiscoveryService};

/// Returns the settings of the server.
pub(crate) fn server(config: &Config, bootstrap: &Bootstrap) -> ServerConfig {
    let mut server = ServerConfig::new(&config.name, &config.data_dir);
    server.wal_dir.clone_from(&config.wal_dir);
    server.peer_urls = texts(&config.advertise.peer);
    server.client_urls = texts(&config.advertise.client);
    server.cluster_token.clone_from(&config.cluster.token);
    match bootstrap {
        Bootstrap::DataDir => server.initial_cluster = configured_members(config),
        Bootstrap::NewCluster(initial) => {
            server.initial_cluster = members(initial);
            server.cluster_token.clone_from(&initial.token);
        }
        Bootstrap::Join(join) => server.join = Some(join.clone()),
    }
    server.force_new_cluster = config.cluster.force_new;
    server.strict_reconfig_check = config.cluster.strict_reconfig_check;
    server.max_learners = count(config.cluster.learners_max);
    set_raft(&mut server, &config.raft);
    set_backend(&mut server, config);
    set_limits(&mut server, config);
    set_checks(&mut server, &config.checks);
    server.features = features(config);
    server.unsafe_no_fsync = config.unsafe_no_fsync;
    server
}

fn set_raft(server: &mut ServerConfig, raft: &config::Raft) {
    server.heartbeat = raft.tick;
    server.election_ticks = u32::try_from(raft.election_ticks).unwrap_or(u32::MAX);
    server.pre_vote = raft.pre_vote;
    server.initial_election_tick_advance = raft.initial_election_tick_advance;
    server.snapshot_count = raft.snapshot_count;
    server.snapshot_catchup_entries = raft.snapshot_catchup_entries;
    // Zero keeps all.
    server.max_snapshots = raft.snapshots_max.map_or(0, count);
    server.max_wals = raft.wals_max.map_or(0, count);
}

fn set_backend(server: &mut ServerConfig, config: &Config) {
    let backend = &config.backend;
    // A negative quota is no limit.
    server.quota_backend_bytes =
        backend.quota_bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    server.backend.bolt.sync = !config.unsafe_no_fsync;
    server.backend.batch_interval = backend.batch_interval;
    server.backend.batch_ops = count(backend.batch_operations);
    server.backend.bolt.mlock = backend.mlock;
    server.bootstrap_defrag_threshold_bytes =
        backend.bootstrap_defrag_megabytes.unwrap_or(0).saturating_mul(1 << 20);
    let compaction = &config.compaction;
    server.compaction_batch_limit = count(compaction.batch_revisions);
    server.compaction_sleep_interval = compaction.pause;
    server.auto_compaction = match compaction.auto {
        None => AutoCompaction::Off,
        Some(config::AutoCompaction::Periodic(time)) => AutoCompaction::Periodic(time),
        Some(config::AutoCompaction::Revision(revisions)) => {
            AutoCompaction::Revision(i64::try_from(revisions).unwrap_or(i64::MAX))
        }
    };
}

fn set_limits(server: &mut ServerConfig, config: &Config) {
    server.max_request_bytes = count(config.limits.request_bytes);
    server.max_txn_ops = count(config.limits.txn_operations);
    if let Some(interval) = config.client.watch_progress_interval {
        server.watch_progress_notify_interval = interval;
    }
    server.auth_token.clone_from(&config.auth.token);
    server.auth_token_ttl = config.auth.token_ttl;
    server.bcrypt_cost = config.auth.bcrypt_cost;
    server.client_cert_auth = config.tls.info.client_cert_auth;
    server.warning_apply_duration = config.monitoring.slow_apply;
}

fn set_checks(server: &mut ServerConfig, checks: &config::Checks) {
    server.corrupt_check_time = checks.corruption_interval.unwrap_or_default();
    server.compact_hash_check_time = checks.compact_hash_interval;
    server.downgrade_check_time = checks.downgrade_interval.unwrap_or_default();
}

fn features(config: &Config) -> Features {
    let enabled = |gate| config.gates.enabled(gate);
    Features {
        compact_hash_check: enabled(Gate::CompactHashCheck),
        fast_lease_keep_alive: enabled(Gate::FastLeaseKeepAlive),
        initial_corrupt_check: enabled(Gate::InitialCorruptCheck),
        lease_checkpoint: enabled(Gate::LeaseCheckpoint),
        lease_checkpoint_persist: enabled(Gate::LeaseCheckpointPersist),
        priority_request: enabled(Gate::PriorityRequest),
        stalled_leader_transfer: enabled(Gate::StalledLeaderTransfer),
    }
}

/// Returns the configured initial cluster, or nothing if it does not parse. A member with data
/// needs it only if the data is still empty.
fn configured_members(config: &Config) -> BTreeMap<String, Vec<String>> {
    let initial = UrlsMap::parse(&config.cluster.initial).unwrap_or_default();
    initial.iter().map(|(name, urls)| (name.to_owned(), texts(urls))).collect()
}

pub(crate) fn members(initial: &InitialCluster) -> BTreeMap<String, Vec<String>> {
    initial.members.iter().map(|(name, urls)| (name.to_owned(), texts(urls))).collect()
}

fn texts(urls: &[config::url::Url]) -> Vec<String> {
    config::url::list::texts(urls)
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the settings of client connections.
pub(crate) fn connections(config: &Config, connections_max: u32) -> net::Config {
    let client = &config.client;
    let (interval, timeout) =
        client.keepalive.map(|ping| (ping.interval, ping.timeout)).unwrap_or_default();
    let min_time = client.ping_interval_min.unwrap_or_default();
    net::Config {
        connections_max,
        streams_max: client.streams_max,
        keep_alive: net::KeepAlive::from_flags(min_time, interval, timeout),
        prints_http2_headers: prints_http2_headers(),
        ..net::Config::default()
    }
}

/// Returns whether the environment asks to print the header fields of HTTP/2 requests.
///
/// Compat: a setting of Go's HTTP/2 library, which looks for exactly this text.
pub(crate) fn prints_http2_headers() -> bool {
    let setting = std::env::var("GODEBUG");
    setting.is_ok_and(|setting| setting.contains("http2debug=2"))
}

/// Returns the settings of the gRPC API.
pub(crate) fn grpc(config: &Config, tracer: Option<trace::Tracer>) -> api::GrpcConfig {
    api::GrpcConfig {
        warning_unary_request_duration: config.monitoring.slow_request,
        extensive_metrics: config.monitoring.extensive_metrics,
        stop_service_on_defragment: config.gates.enabled(Gate::StopGrpcServiceOnDefrag),
        tracer,
    }
}

/// Returns the settings of distributed tracing, if it is configured.
pub(crate) fn tracing(config: &Config) -> Option<trace::Settings> {
    let config::Tracing { address, service_name, instance_id, sampled_per_million } =
        config.monitoring.tracing.clone()?;
    Some(trace::Settings { address, service_name, instance_id, sampled_per_million })
}

/// Enables profiles, if they are configured.
pub(crate) fn profiles(config: &Config, command_line: &[String]) -> Option<Profiles> {
    config.monitoring.profiles.map(|_| Profiles::new(command_line.to_vec()))
}

/// Returns the settings of the HTTP API.
pub(crate) fn http(
    config: &Config,
    command_line: Vec<String>,
    profiles: Option<Profiles>,
) -> api::http::Config {
    let client = &config.client;
    let access =
        api::http::Access { hosts: client.host_whitelist.clone(), origins: client.cors.clone() };
    api::http::Config { access, command_line, gateway: client.gateway, profiles }
}

/// Returns the settings of the discovery client.
pub(crate) fn discovery(service: &DiscoveryService) -> discovery::Settings {
    let service = service.clone();
    let config::DiscoveryUser { name, password, token } = service.user;
    discovery::Settings {
        token: service.token,
        endpoints: service.endpoints,
        dial_timeout: service.dial_timeout,
        proxies: Arc::new(proxies("discovery").for_grpc()),
        request_timeout: service.request_timeout,
        keepalive_time: service.keepalive_time,
        keepalive_timeout: service.keepalive_timeout,
        tls: service.tls,
        request_bytes_max: service.request_bytes_max,
        answer_bytes_max: service.answer_bytes_max,
        user: discovery::User { name, password, token },
    }
}

/// Reads the proxies from the environment, and logs those that may count for these connections.
pub(crate) fn proxies(connections: &str) -> net::ProxySettings {
    let (settings, errors) = net::ProxySettings::from_variables(|name| std::env::var(name).ok());
    for error in errors {
        tracing::warn!(connections, %error, "ignored a proxy of the environment");
    }
    for (scheme, proxy) in ["http", "https"].into_iter().zip(settings.proxies()) {
        if let Some(proxy) = proxy {
            tracing::info!(connections, scheme, %proxy, "using a proxy of the environment");
        }
    }
    settings
}

/// Returns the address to bind.
pub(crate) fn address(address: &Address) -> net::Address {
    match address {
        Address::Tcp { host, port } => net::Address::Tcp(gocompat::join_host_port(host, *port)),
        Address::Unix(path) => net::Address::Unix(PathBuf::from(path)),
    }
}

/// Returns the advertised peer URLs.
pub(crate) fn peer_urls(config: &Config) -> Vec<String> {
    texts(&config.advertise.peer)
}
