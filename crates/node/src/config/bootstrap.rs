//! The initial cluster: read and verified only by a member that has no data yet.
//!
//! ```text
//!     --name a --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380 --initial-advertise-peer-urls http://10.0.0.1:2380
//!     members a, b; the URLs of a are those that a advertises
//! ```

use std::net::IpAddr;

use super::go::{quote, quote_list};
use super::meant::Config;
use super::names::{self, Names, Resolve};
use super::url::list::{self, UrlsMap};
use super::url::{Url, UrlError, bracketed};

/// The members that a cluster starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialCluster {
    /// Names and URLs.
    pub members: UrlsMap,
    /// Part of the ids of members.
    pub token: String,
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
}

impl Config {
    /// The cluster to start with. `resolve` is asked only if the URLs of the member are written in two ways, and for half a minute if it does
    /// not know.
    pub fn initial_cluster(&self, resolve: Resolve<'_>) -> Result<InitialCluster, BootstrapError> {
        self.initial_cluster_by(&Names { resolve, pause: &names::pauses() })
    }

    fn initial_cluster_by(&self, names: &Names<'_>) -> Result<InitialCluster, BootstrapError> {
        let members = UrlsMap::parse(&self.cluster.initial)?;
        let own = members.get(&self.name);
        let own = own.ok_or_else(|| BootstrapError::NoLocalMember(self.name.clone()))?;
        if let Err(reason) = same_places(&self.advertise.peer, own, names) {
            return Err(self.difference(own, reason));
        }
        if members.has_duplicate_url() {
            return Err(BootstrapError::DuplicateUrl(members.to_string()));
        }
        Ok(InitialCluster { members, token: self.cluster.token.clone() })
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

/// Whether two lists of URLs lead to the same places, and if not, why not.
fn same_places(a: &[Url], b: &[Url], names: &Names<'_>) -> Result<(), String> {
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
