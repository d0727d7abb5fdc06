//! What a member begins with that has no data yet.
//!
//! ```text
//!   told       --initial-cluster, or what DNS knows
//!   new        asks the others first whether they have a place for this member already: then its data is lost, and it must not begin anew;
//!              if there is a list of members somewhere, it writes itself there, and waits for the others
//!   existing   asks the others for the members and their ids, and whether it speaks their version
//! ```
//!
//! A member that has data is asked nothing: it knows.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::time::Duration;

use backend::schema::version::Version;
use discovery::SystemDns;
use env::{Disk, OsDisk};
use membership::join::{JoinError, adopt_ids, describe};
use membership::{ClusterId, Member, Membership, version};
use peer::{Asker, KnownCluster, wait};
use server::{AskError, Joining};
use types::MemberId;

use crate::config::{BootstrapError, ClusterState, Config, InitialCluster, Names, same_places};
use crate::settings;

/// How long each of the others may take to say whether this member is there already.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long each of them may take to say who is in the cluster.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// What a member begins with.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// Its data.
    Data,
    /// A new cluster.
    New(InitialCluster),
    /// A cluster that is there.
    Join(Joining),
}

/// Why a member does not begin. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BeginError {
    #[error(transparent)]
    Log(#[from] wal::OpenError),
    #[error(transparent)]
    InitialCluster(#[from] BootstrapError),
    #[error(transparent)]
    Members(#[from] membership::BootstrapError),
    #[error("member {0} has already been bootstrapped")]
    Bootstrapped(MemberId),
    #[error("cannot fetch cluster info from peer urls: {0}")]
    Fetch(AskError),
    #[error("error validating peerURLs {cluster}: {error}")]
    Mismatch { cluster: String, error: JoinError },
    #[error("incompatible with current running cluster")]
    Incompatible,
    #[error(transparent)]
    Learners(#[from] membership::Refused),
}

/// What the member was told of a cluster; nothing if it has data, and whatever that says does not matter.
pub(crate) fn told(config: &Config) -> Result<Option<InitialCluster>, BeginError> {
    let server = settings::server(config, &Beginning::Data);
    let disk: &dyn Disk = &OsDisk;
    if wal::exists(disk, &server.wal_path())? {
        return Ok(None);
    }
    let dns = SystemDns::default();
    let told = match config.cluster.state {
        ClusterState::New => config.initial_cluster(&resolve, &dns)?,
        ClusterState::Existing => config.joined_cluster(&dns)?,
    };
    Ok(Some(told))
}

impl Beginning {
    /// Finds out what to make of what the member was told, if need be by asking others.
    pub(crate) fn find(
        config: &Config,
        told: Option<InitialCluster>,
        asker: &Asker,
        metrics: &tls::Metrics,
    ) -> Result<Beginning, BeginError> {
        match (told, config.cluster.state) {
            (None, _) => Ok(Beginning::Data),
            (Some(told), ClusterState::New) => new(config, told, asker, metrics),
            (Some(told), ClusterState::Existing) => join(config, &told, asker),
        }
    }

    /// Whether there is data already.
    pub(crate) fn has_data(&self) -> bool {
        matches!(self, Beginning::Data)
    }
}

fn new(
    config: &Config,
    told: InitialCluster,
    asker: &Asker,
    metrics: &tls::Metrics,
) -> Result<Beginning, BeginError> {
    let (_, members) = bootstrapped(&told)?;
    let others = others(&members, &config.name);
    let local = named(&members, &config.name);
    // Who does not answer has not begun either.
    if let Ok(known) = wait(asker.members_quietly(&others, CHECK_TIMEOUT))
        && let Some(local) = local
        && known.members.iter().any(|it| it.id == local.id && !it.attributes.client_urls.is_empty())
    {
        return Err(BeginError::Bootstrapped(local.id));
    }
    let id = local.map(|local| local.id.0).unwrap_or_default();
    Ok(Beginning::New(config.discover(told, id, metrics)?))
}

fn join(config: &Config, told: &InitialCluster, asker: &Asker) -> Result<Beginning, BeginError> {
    let (_, told) = bootstrapped(told)?;
    let others = others(&told, &config.name);
    let known = wait(asker.members(&others, FETCH_TIMEOUT)).map_err(BeginError::Fetch)?;
    let KnownCluster { id: cluster_id, members } = known;
    let running = Membership::of(members);
    let members = identify(&told, cluster_id, &running, &Names::new(&resolve))?;
    let local = named(&members, &config.name).map(|member| member.id).unwrap_or_default();
    check_version(asker, &members, local, config.raft.request_timeout())?;
    let learners_max = usize::try_from(config.cluster.learners_max).unwrap_or(usize::MAX);
    running.check_learners(0, learners_max)?;
    Ok(Beginning::Join(Joining { cluster_id, local, members }))
}

/// The members that it was told of, with the ids that the running cluster has for them. Each is compared with each, so the patience for names is
/// for all pairs together.
fn identify(
    told: &Membership,
    cluster_id: ClusterId,
    running: &Membership,
    names: &Names<'_>,
) -> Result<Membership, BeginError> {
    let adopted = adopt_ids(told, running, &mut |a, b| same_places(a, b, names));
    adopted.map_err(|error| {
        let cluster = describe(cluster_id, running);
        BeginError::Mismatch { cluster, error }
    })
}

/// The members that it was told of, with the ids that a new cluster would give them.
fn bootstrapped(told: &InitialCluster) -> Result<(ClusterId, Membership), BeginError> {
    Ok(Membership::bootstrap(&told.token, &settings::members(told))?)
}

fn named<'a>(members: &'a Membership, name: &str) -> Option<&'a Member> {
    members.members().find(|member| member.attributes.name == name)
}

/// Where the others are reached, in order.
fn others(members: &Membership, name: &str) -> Vec<String> {
    let others = members.members().filter(|member| member.attributes.name != name);
    let urls: BTreeSet<_> = others.flat_map(|member| member.raft.peer_urls.clone()).collect();
    urls.into_iter().collect()
}

/// Whether this program speaks what the cluster speaks.
fn check_version(
    asker: &Asker,
    members: &Membership,
    local: MemberId,
    within: Duration,
) -> Result<(), BeginError> {
    let others: Vec<_> = members.members().filter(|member| member.id != local).collect();
    let clusters: Vec<_> = others.iter().map(|member| spoken(asker, member, within)).collect();
    let downgrading = others.iter().find_map(|member| {
        let asked = wait(asker.downgrade_enabled(&member.raft.peer_urls, within));
        asked
            .inspect_err(|error| warn_of(member, error, "failed to get downgrade enabled status"))
            .ok()
    });
    let joinable = version::joinable(downgrading.unwrap_or(false));
    if !version::may_join(clusters, &joinable) {
        return Err(BeginError::Incompatible);
    }
    Ok(())
}

/// The version that a member thinks the cluster speaks.
fn spoken(asker: &Asker, member: &Member, within: Duration) -> Option<Version> {
    match wait(asker.version(&member.raft.peer_urls, within)) {
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

fn warn_of(member: &Member, error: &AskError, what: &str) {
    tracing::warn!(remote_member_id = %member.id, %error, "{what}");
}

fn resolve(host: &str) -> Result<IpAddr, String> {
    let mut addresses = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().map(|address| address.ip()).ok_or_else(|| format!("{host} has no address"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn members(hosts: [&str; 3]) -> Membership {
        let urls = |host: &str| vec![format!("http://{host}:2380")];
        let members = hosts.map(|host| (host.to_owned(), urls(host))).into();
        Membership::bootstrap("t", &members).expect("sound").1
    }

    #[test]
    fn names_that_nobody_knows_are_waited_for_once_not_for_each_pair() {
        let (asked, pauses) = (Cell::new(0), Cell::new(5));
        let resolve = |host: &str| {
            asked.set(asked.get() + 1);
            Err(format!("lookup {host}: no such host"))
        };
        let pause = || {
            let has_time = pauses.get() > 0;
            pauses.set(pauses.get().max(1) - 1);
            has_time
        };
        let (told, running) = (members(["a", "b", "c"]), members(["x", "y", "z"]));
        let names = Names::with_pause(&resolve, pause);
        let refused = identify(&told, ClusterId(1), &running, &names).expect_err("unknown");
        assert!(refused.to_string().contains("no such host"), "{refused}");
        assert_eq!(asked.get(), 5 + 3, "five tries for the first pair, and one for each pair");
    }
}
