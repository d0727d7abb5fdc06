//! Finding the members of a new cluster: by DNS, or through a running cluster that keeps their
//! list.
//!
//! DNS is queried at once. The running cluster is queried only when this member turned out to be
//! new ([`join_service`]), because a query also registers the member.

use config::url::Url;
use config::url::list::UrlsMap;
use config::{Config, Discovery};
use discovery::JoinError;
use discovery::srv::{self, Lookup, OwnUrl, SrvQuery};

use super::initial_cluster::{InitialCluster, InitialClusterError};
use crate::settings;

/// Finds the members in the SRV records of `domain`.
pub(super) fn by_dns(
    config: &Config,
    domain: &str,
    service_name: &str,
    lookup: &dyn Lookup,
) -> Result<InitialCluster, InitialClusterError> {
    let own_urls: Vec<OwnUrl> = config.advertise.peer.iter().map(own_url).collect();
    let query = SrvQuery { name: &config.name, domain, service_name, own_urls: &own_urls };
    let found = srv::find(&query, lookup);
    let errors = found.errors.join("\n");
    if !errors.is_empty() {
        tracing::warn!(error = errors, "failed to resolve during SRV discovery");
    }
    if found.members.is_empty() {
        return Err(InitialClusterError::Srv(errors));
    }
    for node in &found.members {
        tracing::info!(node, "got bootstrap from DNS for etcd-server");
    }
    let text = found.members.join(",");
    let members = UrlsMap::parse(&text)?;
    if members.get(&config.name).is_none() {
        return Err(InitialClusterError::NotInSrv(config.name.clone()));
    }
    // Compat: as in etcd, with the system's certificate authorities the peers' certificates must be
    // valid for the domain.
    let by_domain = text.contains("https://") && config.peer.tls.info.trusted_ca_file.is_none();
    let server_name = by_domain.then(|| domain.to_owned());
    Ok(InitialCluster { members, token: config.cluster.token.clone(), server_name })
}

fn own_url(url: &Url) -> OwnUrl {
    OwnUrl {
        scheme: url.scheme().as_str().to_owned(),
        host: url.hostname().to_owned(),
        port: url.port().parse().unwrap_or(0),
    }
}

/// Registers the member with the discovery service, if one is configured, and waits until the list
/// is complete, without a timeout. Returns `alone` if none is configured.
///
/// `alone` is the initial cluster with this member only, and `id` the member's id in it.
pub(super) fn join_service(
    config: &Config,
    alone: InitialCluster,
    id: u64,
    metrics: &tls::Metrics,
) -> Result<InitialCluster, InitialClusterError> {
    let Some(Discovery::Service(service)) = &config.cluster.discovery else { return Ok(alone) };
    tracing::info!("Bootstrapping cluster using v3 discovery.");
    let failed = |error: JoinError| InitialClusterError::Discovery(error.to_string());
    let is_valid = |text: &str| UrlsMap::parse(text).is_ok();
    let info = alone.members.to_string();
    let settings = settings::discovery(service);
    let text = discovery::join_blocking(&settings, metrics, id, &info, is_valid);
    parse_members(&text.map_err(failed)?, alone.token)
}

fn parse_members(text: &str, token: String) -> Result<InitialCluster, InitialClusterError> {
    let members = UrlsMap::parse(text)?;
    if members.has_duplicate_url() {
        return Err(InitialClusterError::DuplicateDiscovered(members.to_string()));
    }
    Ok(InitialCluster { members, token, server_name: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovered_members_must_have_distinct_urls() {
        let members = |text: &str| {
            let found = parse_members(text, "t".to_owned());
            found.map(|found| found.members.len()).map_err(|error| error.to_string())
        };
        assert_eq!(members("a=http://1:1,b=http://2:1"), Ok(2));
        assert_eq!(
            members("a=http://1:1,b=http://1:1").unwrap_err(),
            "discovery cluster a=http://1:1,b=http://1:1 has duplicate url"
        );
    }
}
