//! etcd's validation of flags, alone and in combination.
//!
//! The order is etcd's, because only the first error is reported.

use std::net::IpAddr;

use ::tls::Version;

use crate::error::ConfigError;
use crate::flags::Flags;
use crate::gates::Gate;
use crate::notice::Notice;
use crate::resolve::tls;
use crate::url::{Url, list};
use gocompat::{GoDuration, quote, split_host_port};

/// The default of `--name`.
pub(crate) const DEFAULT_NAME: &str = "default";
/// The maximum of `--election-timeout`.
const ELECTION_MS_MAX: u64 = 50_000;
/// The maximum sampling rate, per million requests.
const TRACING_RATE_MAX: i64 = 1_000_000;

/// Rejects the flags that etcd rejects, and notes its warnings. The log flags are checked before.
pub(crate) fn check(flags: &Flags, notices: &mut Vec<Notice>) -> Result<(), ConfigError> {
    check_urls(flags, notices)?;
    check_cluster(flags)?;
    check_timing(flags)?;
    check_rest(flags)?;
    check_gates(flags, notices)?;
    if flags.compact_hash_check_time <= GoDuration::default() {
        return Err(ConfigError::CompactHashCheckTime(flags.compact_hash_check_time));
    }
    if flags.name == DEFAULT_NAME {
        notices.push(Notice::DefaultName { name: flags.name.clone() });
    }
    check_tls(flags)
}

fn check_urls(flags: &Flags, notices: &mut Vec<Notice>) -> Result<(), ConfigError> {
    check_bind(flags.listen_peer_urls.urls())?;
    check_bind(flags.listen_client_urls.urls())?;
    check_bind(flags.listen_client_http_urls.urls())?;
    if flags.listen_client_http_urls.urls().is_empty() {
        notices.push(Notice::SinglePort);
    }
    check_bind(flags.listen_metrics_urls.urls())?;
    if let Some((urls, url)) = without_host(flags.initial_advertise_peer_urls.urls()) {
        return Err(ConfigError::AdvertisePeerHost { urls, url });
    }
    if let Some((urls, url)) = without_host(flags.advertise_client_urls.urls()) {
        return Err(ConfigError::AdvertiseClientHost { urls, url });
    }
    Ok(())
}

/// Listen URLs need an IP address or `localhost`.
fn check_bind(urls: &[Url]) -> Result<(), ConfigError> {
    let is_address = |url: &Url| {
        let host = split_host_port(url.host()).map_or("", |(host, _)| host);
        host == "localhost" || host.parse::<IpAddr>().is_ok()
    };
    match urls.iter().find(|url| !url.scheme().is_unix() && !is_address(url)) {
        Some(url) => Err(ConfigError::BindName(url.to_string())),
        None => Ok(()),
    }
}

/// Returns all URLs in quotes, and the first one without a host.
fn without_host(urls: &[Url]) -> Option<(String, String)> {
    let empty = |url: &&Url| {
        !url.scheme().is_unix()
            && split_host_port(url.host()).is_none_or(|(host, _)| host.is_empty())
    };
    let url = urls.iter().find(empty)?;
    Some((quote(&list::texts(urls).join(",")), url.to_string()))
}

fn check_cluster(flags: &Flags) -> Result<(), ConfigError> {
    if !["new", "existing"].contains(&flags.initial_cluster_state.as_str()) {
        return Err(ConfigError::ClusterState(flags.initial_cluster_state.clone()));
    }
    let sources = [
        !flags.initial_cluster.is_empty(),
        !flags.discovery_srv.is_empty(),
        !flags.discovery_endpoints.is_empty(),
    ];
    if sources.iter().filter(|source| **source).count() > 1 {
        return Err(ConfigError::BootstrapConflict);
    }
    if flags.discovery_token.is_empty() != flags.discovery_endpoints.is_empty() {
        return Err(ConfigError::DiscoveryHalf);
    }
    if flags.discovery_endpoints.iter().any(|endpoint| endpoint.trim().is_empty()) {
        return Err(ConfigError::DiscoveryEmpty);
    }
    Ok(())
}

fn check_timing(flags: &Flags) -> Result<(), ConfigError> {
    let (heartbeat, election) = (flags.heartbeat_interval, flags.election_timeout);
    if heartbeat == 0 {
        return Err(ConfigError::Heartbeat);
    }
    if election == 0 {
        return Err(ConfigError::Election);
    }
    if heartbeat.saturating_mul(5) > election {
        return Err(ConfigError::ElectionShort { election, heartbeat });
    }
    if election > ELECTION_MS_MAX {
        return Err(ConfigError::ElectionLong { election, max: ELECTION_MS_MAX });
    }
    Ok(())
}

fn check_rest(flags: &Flags) -> Result<(), ConfigError> {
    if flags.advertise_client_urls.urls().is_empty() {
        return Err(ConfigError::AdvertiseClientUnset);
    }
    match flags.auto_compaction_mode.as_str() {
        "periodic" | "revision" => {}
        "" => return Err(ConfigError::CompactionModeEmpty),
        other => return Err(ConfigError::CompactionMode(other.to_owned())),
    }
    match flags.distributed_tracing_sampling_rate {
        _ if !flags.enable_distributed_tracing => Ok(()),
        ..0 => Err(ConfigError::TracingRate("positive")),
        0..=TRACING_RATE_MAX => Ok(()),
        _ => Err(ConfigError::TracingRate("less than 1000000")),
    }
}

fn check_gates(flags: &Flags, notices: &mut Vec<Notice>) -> Result<(), ConfigError> {
    let checkpoints = flags.feature_gates.enabled(Gate::LeaseCheckpoint);
    match flags.feature_gates.enabled(Gate::LeaseCheckpointPersist) {
        true if !checkpoints => return Err(ConfigError::CheckpointPersist),
        false if checkpoints => notices.push(Notice::CheckpointNotPersisted),
        _ => {}
    }
    Ok(())
}

fn check_tls(flags: &Flags) -> Result<(), ConfigError> {
    let min = tls::version(&flags.tls_min_version)?;
    let max = tls::version(&flags.tls_max_version)?;
    if max.is_some() && min > max {
        let (min, max) = (flags.tls_min_version.clone(), flags.tls_max_version.clone());
        return Err(ConfigError::TlsVersions { min, max });
    }
    if min == Some(Version::Tls13) && !flags.cipher_suites.is_empty() {
        return Err(ConfigError::CipherSuites13);
    }
    Ok(())
}
