//! The initial cluster: read and verified only by a member without data.
//!
//! ```text
//!     --name a --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380
//!              --initial-advertise-peer-urls http://10.0.0.1:2380
//!
//!     members a, b; the URLs of a must be the advertised ones
//! ```

use ::discovery::srv::Lookup;
use config::url::Url;
use config::url::UrlError;
use config::url::list::{self, UrlsMap};
use config::{Config, Discovery};
use gocompat::quote;

use super::discovery;
use super::host_resolver::HostResolver;
use super::url_match::match_urls;

/// The members that a cluster starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitialCluster {
    /// Names and peer URLs.
    pub(crate) members: UrlsMap,
    /// The cluster token, which enters the member ids.
    pub(crate) token: String,
    /// The name that all peer certificates must be valid for, if it is not their own.
    pub(crate) server_name: Option<String>,
}

impl InitialCluster {
    fn check_duplicates(&self) -> Result<(), InitialClusterError> {
        match self.members.has_duplicate_url() {
            true => Err(InitialClusterError::DuplicateUrl(self.members.to_string())),
            false => Ok(()),
        }
    }
}

/// An initial cluster that is rejected, with etcd's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InitialClusterError {
    /// A URL is invalid.
    #[error("error setting up initial cluster: {0}")]
    Url(#[from] UrlError),
    /// The local member is missing.
    #[error("couldn't find local name {} in the initial cluster configuration", quote(.0))]
    NoLocalMember(String),
    /// The initial cluster has a URL of the local member that it does not advertise.
    #[error(
        "--initial-cluster has {missing} but missing from --initial-advertise-peer-urls={advertised} ({reason})"
    )]
    NotAdvertised {
        /// The missing URLs as `name=url`.
        missing: String,
        /// The advertised URLs.
        advertised: String,
        /// The first difference.
        reason: String,
    },
    /// The local member advertises a URL that the initial cluster does not have.
    #[error(
        "--initial-advertise-peer-urls has {missing} but missing from --initial-cluster={cluster}"
    )]
    NotInCluster {
        /// The missing URLs.
        missing: String,
        /// The initial cluster that would match.
        cluster: String,
    },
    /// Both have the same URLs, but not equally often.
    #[error("failed to resolve {advertised} to match --initial-cluster={cluster} ({reason})")]
    Unresolved {
        /// The advertised URLs.
        advertised: String,
        /// The initial cluster that would match.
        cluster: String,
        /// The first difference.
        reason: String,
    },
    /// A URL appears twice.
    #[error("initial cluster {0} has duplicate url")]
    DuplicateUrl(String),
    /// DNS has no members.
    #[error("error setting up initial cluster: {0}")]
    Srv(String),
    /// The local member is missing in DNS.
    #[error(
        "error setting up initial cluster: cannot find local etcd member {} in SRV records",
        quote(.0)
    )]
    NotInSrv(String),
    /// Discovery is for new clusters only.
    #[error("discovery URL should not be set when joining existing initial cluster")]
    DiscoveryOnJoin,
    /// The discovery service failed.
    #[error("failed to join discovery cluster ({0})")]
    Discovery(String),
    /// A URL appears twice in the list of the discovery service.
    #[error("discovery cluster {0} has duplicate url")]
    DuplicateDiscovered(String),
}

/// Returns the initial cluster of a new cluster.
///
/// `resolver` is used only if the local member's URLs are spelled differently in the two flags, and
/// `lookup` only for DNS discovery. With a discovery service, the result is the local member alone.
pub(super) fn new_cluster(
    config: &Config,
    resolver: &HostResolver<'_>,
    lookup: &dyn Lookup,
) -> Result<InitialCluster, InitialClusterError> {
    let cluster = configured_cluster(config, lookup)?;
    let own = own_urls(config, &cluster)?;
    if let Err(reason) = match_urls(&config.advertise.peer, own, resolver) {
        return Err(describe_difference(config, own, reason));
    }
    cluster.check_duplicates()?;
    Ok(cluster)
}

/// Returns the configured members of an existing cluster. The advertised URLs are not checked,
/// because the existing members know them.
pub(super) fn existing_cluster(
    config: &Config,
    lookup: &dyn Lookup,
) -> Result<InitialCluster, InitialClusterError> {
    let cluster = configured_cluster(config, lookup)?;
    own_urls(config, &cluster)?;
    cluster.check_duplicates()?;
    match config.cluster.discovery {
        Some(Discovery::Service(_)) => Err(InitialClusterError::DiscoveryOnJoin),
        Some(Discovery::Srv { .. }) | None => Ok(cluster),
    }
}

/// Reads the members from the flags or from DNS.
fn configured_cluster(
    config: &Config,
    lookup: &dyn Lookup,
) -> Result<InitialCluster, InitialClusterError> {
    let token = config.cluster.token.clone();
    match &config.cluster.discovery {
        None => {
            let members = UrlsMap::parse(&config.cluster.initial)?;
            Ok(InitialCluster { members, token, server_name: None })
        }
        Some(Discovery::Srv { domain, service_name }) => {
            discovery::by_dns(config, domain, service_name, lookup)
        }
        Some(Discovery::Service(service)) => {
            let members = UrlsMap::of(&config.name, &config.advertise.peer);
            Ok(InitialCluster { members, token: service.token.clone(), server_name: None })
        }
    }
}

fn own_urls<'a>(
    config: &Config,
    cluster: &'a InitialCluster,
) -> Result<&'a [Url], InitialClusterError> {
    let own = cluster.members.get(&config.name);
    own.ok_or_else(|| InitialClusterError::NoLocalMember(config.name.clone()))
}

/// Describes how the advertised URLs differ from `own`, the URLs in the initial cluster.
fn describe_difference(config: &Config, own: &[Url], reason: String) -> InitialClusterError {
    let advertised = list::texts(&config.advertise.peer);
    let named = |url: &Url| format!("{}={url}", config.name);
    let missing: Vec<String> =
        own.iter().filter(|url| !advertised.contains(&url.to_string())).map(named).collect();
    if !missing.is_empty() {
        let (missing, advertised) = (missing.join(","), advertised.join(","));
        return InitialClusterError::NotAdvertised { missing, advertised, reason };
    }
    let extra = advertised.iter().filter(|text| own.iter().all(|url| url.as_str() != *text));
    let missing = extra.cloned().collect::<Vec<_>>().join(",");
    let cluster = config.advertise.peer.iter().map(named).collect::<Vec<_>>().join(",");
    if missing.is_empty() {
        let advertised = advertised.join(",");
        return InitialClusterError::Unresolved { advertised, cluster, reason };
    }
    InitialClusterError::NotInCluster { missing, cluster }
}
