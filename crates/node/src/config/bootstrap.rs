//! The initial cluster: read and verified only by a member that has no data yet.
//!
//! ```text
//!     --name a --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380 --initial-advertise-peer-urls http://10.0.0.1:2380
//!     members a, b; the URLs of a are those that a advertises
//! ```
//!
//! Where nobody told who they are, they are found: see [`discovering`](super::discovering).

use std::net::IpAddr;

use discovery::srv::Lookup;

use super::discovering;
use super::meant::{Config, Discovery};
use super::names::{Names, Resolve};
use super::url::list::{self, UrlsMap};
use super::url::{Url, UrlError};
use gocompat::{bracketed, quote, quote_list};

/// The members that a cluster starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialCluster {
    /// Names and URLs.
    pub members: UrlsMap,
    /// Part of the ids of members.
    pub token: String,
    /// The name that the certificates of all members are for, if it is none of their own.
    pub server_name: Option<String>,
}

impl InitialCluster {
    fn check_duplicates(&self) -> Result<(), BootstrapError> {
        match self.members.has_duplicate_url() {
            true => Err(BootstrapError::DuplicateUrl(self.members.to_string())),
            false => Ok(()),
        }
    }
}

/// Why there is no initial cluster, in etcd's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// A URL is none.
    #[error("error setting up initial cluster: {0}")]
    Url(#[from] UrlError),
    /// The member is not in it.
    #[error("couldn't find local name {} in the initial cluster configuration", quote(.0))]
    NoLocalMember(String),
    /// It has a URL of the member that the member does not advertise.
    #[error(
        "--initial-cluster has {missing} but missing from --initial-advertise-peer-urls={advertised} ({reason})"
    )]
    NotAdvertised {
        /// With the name before each.
        missing: String,
        /// All that are advertised.
        advertised: String,
        /// How the two were found to differ.
        reason: String,
    },
    /// The member advertises a URL that it does not have.
    #[error(
        "--initial-advertise-peer-urls has {missing} but missing from --initial-cluster={cluster}"
    )]
    NotInCluster {
        /// Those URLs.
        missing: String,
        /// What it should have been.
        cluster: String,
    },
    /// Both have the same URLs, but not as often.
    #[error("failed to resolve {advertised} to match --initial-cluster={cluster} ({reason})")]
    Unresolved {
        /// All that are advertised.
        advertised: String,
        /// What it should have been.
        cluster: String,
        /// How the two were found to differ.
        reason: String,
    },
    /// A URL is there twice.
    #[error("initial cluster {0} has duplicate url")]
    DuplicateUrl(String),
    /// DNS has no members.
    #[error("error setting up initial cluster: {0}")]
    Srv(String),
    /// DNS has members, and this is none of them.
    #[error(
        "error setting up initial cluster: cannot find local etcd member {} in SRV records",
        quote(.0)
    )]
    NotInSrv(String),
    /// Who joins a cluster knows it.
    #[error("discovery URL should not be set when joining existing initial cluster")]
    DiscoveryOnJoin,
    /// No cluster was found on a list.
    #[error("failed to join discovery cluster ({0})")]
    Discovery(String),
    /// On a list, a URL is there twice.
    #[error("discovery cluster {0} has duplicate url")]
    DuplicateDiscovered(String),
}

impl Config {
    /// The cluster to make. `resolve` is asked only if the URLs of the member are written in two ways, and for half a minute if it does
    /// not know; `lookup` only if the others are to be found in DNS. If they are to be found on a list, it is the member alone, for now.
    ///
    /// # Errors
    /// If it does not work out.
    pub fn initial_cluster(
        &self,
        resolve: Resolve<'_>,
        lookup: &dyn Lookup,
    ) -> Result<InitialCluster, BootstrapError> {
        let told = self.told_cluster(lookup)?;
        self.verify_new(&told, &Names::new(resolve))?;
        Ok(told)
    }

    /// The cluster to join, as far as the member was told. What it advertises does not matter: the others know.
    ///
    /// # Errors
    /// If it does not work out.
    pub fn joined_cluster(&self, lookup: &dyn Lookup) -> Result<InitialCluster, BootstrapError> {
        let told = self.told_cluster(lookup)?;
        self.own_urls(&told)?;
        told.check_duplicates()?;
        match self.cluster.discovery {
            Some(Discovery::List(_)) => Err(BootstrapError::DiscoveryOnJoin),
            Some(Discovery::Srv { .. }) | None => Ok(told),
        }
    }

    fn told_cluster(&self, lookup: &dyn Lookup) -> Result<InitialCluster, BootstrapError> {
        let token = self.cluster.token.clone();
        match &self.cluster.discovery {
            None => {
                let members = UrlsMap::parse(&self.cluster.initial)?;
                Ok(InitialCluster { members, token, server_name: None })
            }
            Some(Discovery::Srv { domain, service_name }) => {
                discovering::by_dns(self, domain, service_name, lookup)
            }
            Some(Discovery::List(list)) => {
                let members = UrlsMap::of(&self.name, &self.advertise.peer);
                Ok(InitialCluster { members, token: list.token.clone(), server_name: None })
            }
        }
    }

    fn own_urls<'a>(&self, cluster: &'a InitialCluster) -> Result<&'a [Url], BootstrapError> {
        let own = cluster.members.get(&self.name);
        own.ok_or_else(|| BootstrapError::NoLocalMember(self.name.clone()))
    }

    fn verify_new(
        &self,
        cluster: &InitialCluster,
        names: &Names<'_>,
    ) -> Result<(), BootstrapError> {
        let own = self.own_urls(cluster)?;
        if let Err(reason) = lead_to_same(&self.advertise.peer, own, names) {
            return Err(self.difference(own, reason));
        }
        cluster.check_duplicates()
    }

    fn difference(&self, own: &[Url], reason: String) -> BootstrapError {
        let advertised = list::texts(&self.advertise.peer);
        let named = |url: &Url| format!("{}={url}", self.name);
        let missing: Vec<String> =
            own.iter().filter(|url| !advertised.contains(&url.to_string())).map(named).collect();
        if !missing.is_empty() {
            let (missing, advertised) = (missing.join(","), advertised.join(","));
            return BootstrapError::NotAdvertised { missing, advertised, reason };
        }
        let extra = advertised.iter().filter(|text| own.iter().all(|url| url.as_str() != *text));
        let missing = extra.cloned().collect::<Vec<_>>().join(",");
        let cluster = self.advertise.peer.iter().map(named).collect::<Vec<_>>().join(",");
        if missing.is_empty() {
            return BootstrapError::Unresolved {
                advertised: advertised.join(","),
                cluster,
                reason,
            };
        }
        BootstrapError::NotInCluster { missing, cluster }
    }
}

/// Whether two lists of peer URLs lead to the same places, and if not, why not. `names` are asked for if they are written in two ways.
///
/// # Errors
/// How they differ.
pub fn same_places(a: &[String], b: &[String], names: &Names<'_>) -> Result<(), String> {
    if a.len() != b.len() {
        return Err(format!("len({}) != len({})", quote_list(a), quote_list(b)));
    }
    let read = |urls: &[String]| {
        let mut urls = urls.iter().map(|url| read_url(url)).collect::<Result<Vec<_>, _>>()?;
        urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        Ok::<_, String>(urls)
    };
    lead_to_same(&read(a)?, &read(b)?, names)
}

fn read_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|_| format!("failed to parse string to URL: {}", quote(text)))
}

fn lead_to_same(a: &[Url], b: &[Url], names: &Names<'_>) -> Result<(), String> {
    if a.len() != b.len() {
        let (a, b) = (quote_list(&list::texts(a)), quote_list(&list::texts(b)));
        return Err(format!("len({a}) != len({b})"));
    }
    if a.iter().zip(b).all(|(a, b)| a.same_place(b)) {
        return Ok(());
    }
    let (a, b) = (resolve_all(a, names)?, resolve_all(b, names)?);
    match a.iter().zip(&b).find(|(a, b)| !a.same_place(b)) {
        Some((a, b)) => {
            Err(format!("resolved urls: {} != {}", quote(a.as_str()), quote(b.as_str())))
        }
        None => Ok(()),
    }
}

/// With addresses in the place of names, in the order of texts.
fn resolve_all(urls: &[Url], names: &Names<'_>) -> Result<Vec<Url>, String> {
    let mut urls = urls.iter().map(|url| resolve_one(url, names)).collect::<Result<Vec<_>, _>>()?;
    urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Ok(urls)
}

fn resolve_one(url: &Url, names: &Names<'_>) -> Result<Url, String> {
    // Compat: as in etcd, `localhost` is no address, not even its own.
    if url.scheme().is_unix() || url.hostname() == "localhost" {
        return Ok(url.clone());
    }
    let address: IpAddr = match url.hostname().parse() {
        Ok(address) => address,
        Err(_) => names
            .address(url)
            .map_err(|reason| format!("failed to resolve {} ({reason})", quote(url.as_str())))?,
    };
    Ok(Url::with_host(url.scheme(), &bracketed(&address.to_string()), url.port()))
}

#[cfg(test)]
mod tests;
