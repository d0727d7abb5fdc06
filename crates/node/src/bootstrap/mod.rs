//! The start of a member: from its data directory, as part of a new cluster, or by joining one.
//!
//! ```text
//!   data on disk   use it; the flags about the initial cluster are ignored
//!   new            --initial-cluster, or DNS. Query the peers whether this member was bootstrapped
//!                  before: then its data is lost, and it must not start again. With a discovery
//!                  service, register and wait for the other members
//!   existing       query the peers for the members and their ids, and whether the version fits
//! ```

mod discovery;
mod host_resolver;
mod initial_cluster;
mod url_match;

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::time::Duration;

use ::discovery::SystemDns;
use backend::schema::version::Version;
use config::{ClusterState, Config};
use env::{Disk, OsDisk};
use membership::join::{JoinError, adopt_ids, describe};
use membership::{ClusterId, Member, Membership, version};
use peer::{PeerRpcClient, RemoteCluster, wait};
use server::{ExistingCluster, PeerRequestError};
use types::MemberId;

use crate::settings;
use host_resolver::HostResolver;
use initial_cluster::{existing_cluster, new_cluster};
use url_match::match_url_texts;

pub(crate) use initial_cluster::{InitialCluster, InitialClusterError};

/// Timeout per peer for the check whether this member was bootstrapped before.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout per peer for the list of members.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The source of a member's initial state.
#[derive(Debug)]
pub(crate) enum Bootstrap {
    /// The data directory.
    DataDir,
    /// A new cluster.
    NewCluster(InitialCluster),
    /// An existing cluster that already lists this member.
    Join(ExistingCluster),
}

/// A failed bootstrap. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootstrapError {
    #[error(transparent)]
    Log(#[from] wal::OpenError),
    #[error(transparent)]
    InitialCluster(#[from] InitialClusterError),
    #[error(transparent)]
    Members(#[from] membership::BootstrapError),
    #[error("member {0} has already been bootstrapped")]
    Bootstrapped(MemberId),
    #[error("cannot fetch cluster info from peer urls: {0}")]
    Fetch(PeerRequestError),
    #[error("error validating peerURLs {cluster}: {error}")]
    Mismatch { cluster: String, error: JoinError },
    #[error("incompatible with current running cluster")]
    Incompatible,
    #[error(transparent)]
    Learners(#[from] membership::ConfChangeRefusal),
}

/// Returns the configured initial cluster, or `None` if there is a WAL and so the flags do not
/// matter.
pub(crate) fn initial_cluster(config: &Config) -> Result<Option<InitialCluster>, BootstrapError> {
    let server = settings::server(config, &Bootstrap::DataDir);
    let disk: &dyn Disk = &OsDisk;
    if wal::exists(disk, &server.wal_path())? {
        return Ok(None);
    }
    let dns = SystemDns::default();
    let initial = match config.cluster.state {
        ClusterState::New => new_cluster(config, &HostResolver::new(&resolve), &dns)?,
        ClusterState::Existing => existing_cluster(config, &dns)?,
    };
    Ok(Some(initial))
}

impl Bootstrap {
    /// Decides how to start, asking the peers if there is no data.
    pub(crate) fn choose(
        config: &Config,
        initial: Option<InitialCluster>,
        rpc: &PeerRpcClient,
        metrics: &tls::Metrics,
    ) -> Result<Bootstrap, BootstrapError> {
        match (initial, config.cluster.state) {
            (None, _) => Ok(Bootstrap::DataDir),
            (Some(initial), ClusterState::New) => create(config, initial, rpc, metrics),
            (Some(initial), ClusterState::Existing) => join(config, &initial, rpc),
        }
    }
}

/// Creates a new cluster, unless a peer already knows this member.
fn create(
    config: &Config,
    initial: InitialCluster,
    rpc: &PeerRpcClient,
    metrics: &tls::Metrics,
) -> Result<Bootstrap, BootstrapError> {
    let (_, members) = with_new_ids(&initial)?;
    let peer_urls = peer_urls(&members, &config.name);
    let local = find_by_name(&members, &config.name);
    // Peers that do not answer have not started either.
    if let Ok(known) = wait(rpc.members_quietly(&peer_urls, CHECK_TIMEOUT))
        && let Some(local) = local
        && known.members.iter().any(|it| it.id == local.id && !it.attributes.client_urls.is_empty())
    {
        return Err(BootstrapError::Bootstrapped(local.id));
    }
    let id = local.map(|local| local.id.0).unwrap_or_default();
    Ok(Bootstrap::NewCluster(discovery::join_service(config, initial, id, metrics)?))
}

/// Joins an existing cluster, to which this member was added before.
fn join(
    config: &Config,
    initial: &InitialCluster,
    rpc: &PeerRpcClient,
) -> Result<Bootstrap, BootstrapError> {
    let (_, configured) = with_new_ids(initial)?;
    let peer_urls = peer_urls(&configured, &config.name);
    let known = wait(rpc.members(&peer_urls, FETCH_TIMEOUT)).map_err(BootstrapError::Fetch)?;
    let RemoteCluster { id: cluster_id, members } = known;
    let running = Membership::of(members);
    let members =
        adopt_running_ids(&configured, cluster_id, &running, &HostResolver::new(&resolve))?;
    let local = find_by_name(&members, &config.name).map(|member| member.id).unwrap_or_default();
    check_version(rpc, &members, local, config.raft.request_timeout())?;
    let learners_max = usize::try_from(config.cluster.learners_max).unwrap_or(usize::MAX);
    running.check_learners(0, learners_max)?;
    Ok(Bootstrap::Join(ExistingCluster { cluster_id, local, members }))
}

/// Gives the configured members the ids that the running cluster has for them.
///
/// Each configured member is compared with each running one. They share one resolver, so that its
/// deadline holds for all pairs together.
fn adopt_running_ids(
    configured: &Membership,
    cluster_id: ClusterId,
    running: &Membership,
    resolver: &HostResolver<'_>,
) -> Result<Membership, BootstrapError> {
    let adopted = adopt_ids(configured, running, &mut |a, b| match_url_texts(a, b, resolver));
    adopted.map_err(|error| {
        let cluster = describe(cluster_id, running);
        BootstrapError::Mismatch { cluster, error }
    })
}

/// Gives the configured members the ids that a new cluster would give them.
fn with_new_ids(initial: &InitialCluster) -> Result<(ClusterId, Membership), BootstrapError> {
    Ok(Membership::bootstrap(&initial.token, &settings::members(initial))?)
}

fn find_by_name<'a>(members: &'a Membership, name: &str) -> Option<&'a Member> {
    members.members().find(|member| member.attributes.name == name)
}

/// Returns the sorted peer URLs of all members but the local one.
fn peer_urls(members: &Membership, local_name: &str) -> Vec<String> {
    let peers = members.members().filter(|member| member.attributes.name != local_name);
    let urls: BTreeSet<_> = peers.flat_map(|member| member.raft.peer_urls.clone()).collect();
    urls.into_iter().collect()
}

/// Checks that this binary supports the cluster version of the peers.
fn check_version(
    rpc: &PeerRpcClient,
    members: &Membership,
    local: MemberId,
    timeout: Duration,
) -> Result<(), BootstrapError> {
    let peers: Vec<_> = members.members().filter(|member| member.id != local).collect();
    let versions: Vec<_> =
        peers.iter().map(|member| cluster_version(rpc, member, timeout)).collect();
    let downgrading = peers.iter().find_map(|member| {
        let enabled = wait(rpc.downgrade_enabled(&member.raft.peer_urls, timeout));
        enabled
            .inspect_err(|error| warn_of(member, error, "failed to get downgrade enabled status"))
            .ok()
    });
    let joinable = version::joinable(downgrading.unwrap_or(false));
    if !version::may_join(versions, &joinable) {
        return Err(BootstrapError::Incompatible);
    }
    Ok(())
}

/// Requests the cluster version of a member.
fn cluster_version(rpc: &PeerRpcClient, member: &Member, timeout: Duration) -> Option<Version> {
    match wait(rpc.version(&member.raft.peer_urls, timeout)) {
        Ok(versions) => {
            let parsed = Version::parse(versions.cluster.as_bytes());
            if parsed.is_none() {
                tracing::warn!(
                    remote_member_id = %member.id,
                    remote_member_cluster_version = versions.cluster,
                    "failed to parse cluster version of remote member"
                );
            }
            parsed
        }
        Err(error) => {
            warn_of(member, &error, "failed to get version");
            None
        }
    }
}

fn warn_of(member: &Member, error: &PeerRequestError, message: &str) {
    tracing::warn!(remote_member_id = %member.id, %error, "{message}");
}

fn resolve(host: &str) -> Result<IpAddr, String> {
    let mut addresses = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().map(|address| address.ip()).ok_or_else(|| format!("{host} has no address"))
}

#[cfg(test)]
mod tests;
