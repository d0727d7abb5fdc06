//! From a folder to a member: what is on disk is opened, checked and taken up; what is missing in an empty one is made.
//!
//! ```text
//!   member/wal    is there a log?  no ─► a new cluster: ids from names and URLs, a log that begins with its members;
//!                                        or one that is there, and has a place for this member: an empty log, which its leader fills
//!                                  yes ─► whose it is, the newest place to start from, the entries behind that
//!   member/snap   <index>.snap.db  a database that a leader sent, if the place to start from is beyond our own
//!                 db               the state; it says itself how far the log is applied
//! ```
//!
//! The log may have been written by etcd 3.4 to 3.7. Members and voters come from the database, which has them as of the entry that it says was applied
//! last; entries behind that are handed out to be applied as soon as they are known to be committed.

mod error;
mod force;
mod log;
mod state;

use std::sync::Arc;

use backend::Backend;
use bytes::Bytes;
use env::{Disk, Random};
use membership::{Cluster, ClusterId, Membership};
use proto::walpb::Snapshot;
use raft::{MemoryStorage, Peer, RawNode};
use types::{Index, MemberId};
use wal::snap::Snapshotter;
use wal::{UnreadWal, Wal};

pub use error::StartError;

use crate::config::{ExistingCluster, ServerConfig};
use crate::member::Platform;
use crate::pipeline::voters::Voters;
use crate::state::StateMachine;
use sync::Notify;

/// What may be under way to be applied. Consensus hears that something was applied when it next looks, which under load is after the next sync; so this is what
/// can be answered in the time of one sync. The entries are in memory anyway.
const APPLYING_BYTES_MAX: u64 = 64 << 20;

/// A member that is ready to run.
pub(crate) struct Bootstrapped {
    pub(crate) cluster_id: ClusterId,
    pub(crate) local: MemberId,
    pub(crate) state: StateMachine,
    pub(crate) wal: Wal,
    pub(crate) node: RawNode<MemoryStorage>,
    pub(crate) voters: Voters,
    pub(crate) applied: Index,
    /// The place in the log from which it was started.
    pub(crate) snapshot_index: Index,
    /// Rung when there is something to do for watchers.
    pub(crate) watch: Arc<Notify>,
}

/// Takes up what is in the folder, or begins a cluster in an empty one.
pub(crate) fn bootstrap(
    config: &ServerConfig,
    platform: &mut Platform,
) -> Result<Bootstrapped, StartError> {
    make_folders(config, &platform.disk)?;
    Snapshotter::new(Arc::clone(&platform.disk), config.snap_path()).clean()?;
    let has_log = wal::exists(&*platform.disk, &config.wal_path()).map_err(in_log(config))?;
    match &config.join {
        _ if has_log => restart(config, platform),
        Some(join) => begin_in(config, platform, join),
        None => begin(config, platform),
    }
}

/// An error about the folder of the log.
fn in_log(config: &ServerConfig) -> impl Fn(wal::OpenError) -> StartError {
    let folder = config.wal_path();
    move |source| StartError::OpenLog { folder: folder.clone(), source }
}

fn make_folders(config: &ServerConfig, disk: &Arc<dyn Disk>) -> Result<(), StartError> {
    for folder in [config.data_dir.clone(), config.snap_path()] {
        disk.create_dir_all_durably(&folder)
            .map_err(|source| StartError::Folder { folder, source })?;
    }
    Ok(())
}

/// A member that was there before.
fn restart(config: &ServerConfig, platform: &mut Platform) -> Result<Bootstrapped, StartError> {
    // Whatever can be found wrong without changing anything comes first.
    let (start, last, opening) = take_log(config, platform)?;
    check_log(config, state::peek_applied(config, platform), last)?;
    let backend = state::open_backend(config, platform, Some(&start))?;
    let mut log = log::read(config, &platform.disk, &start, opening)?;
    let metadata = log.metadata;
    let (cluster_id, local) = (ClusterId(metadata.cluster_id()), MemberId(metadata.node_id()));
    if log.is_blank() {
        let members = first_members(config, cluster_id, local)?;
        if let Some(members) = members {
            tracing::info!(local_member_id = %local, "the first start was cut short; beginning again");
            let peers = peers(&members);
            let join = ExistingCluster { cluster_id, local, members };
            return begin_with(config, platform, backend, Some(log.wal), join, &peers);
        }
    }
    let cluster = Cluster::new(cluster_id, local, config.max_learners, Membership::default());
    let watch = Arc::new(Notify::default());
    let state = state::open(config, platform, backend, cluster, &watch)?;
    let applied = state.applied()?.0.max(Index(start.index()));
    check_log(config, applied, Index(log.wal.last_index()))?;
    let members = state.cluster.now();
    members.check_learners(0, config.max_learners)?;
    let voters = Voters::from(members.conf_state());
    if config.force_new_cluster {
        if members.is_removed(local) {
            return Err(StartError::Removed(local));
        }
        force::go_on_alone(&mut log, local, voters.clone(), applied)?;
    }
    tracing::info!(
        cluster_id = %cluster_id,
        local_member_id = %local,
        commit_index = log.state.commit(),
        applied_index = applied.0,
        members = members.members().count(),
        "restarting local member"
    );
    let storage = log::storage(&start, &log, &voters, applied)?;
    let seed = seed(&mut *platform.random)?;
    let node = RawNode::new(raft_config(config, local, applied, seed), storage)?;
    let snapshot_index = Index(start.index());
    let wal = log.wal;
    Ok(Bootstrapped { cluster_id, local, state, wal, node, voters, applied, snapshot_index, watch })
}

/// The place to start from, the last entry, and the log itself, locked. If another process has it, that is waited for: it may be about to end.
fn take_log(
    config: &ServerConfig,
    platform: &Platform,
) -> Result<(Snapshot, Index, UnreadWal), StartError> {
    let take = || -> Result<_, StartError> {
        let (start, last) = log::survey(config, &*platform.disk)?;
        let opening = log::lock(config, &platform.disk, &start)?;
        Ok((start, last, opening))
    };
    match take() {
        Err(StartError::OpenLog { source: wal::OpenError::Locked { .. }, .. }) => {
            state::wait_for_database(config, platform)?;
            take()
        }
        taken => taken,
    }
}

/// The log has what was applied, or it has lost what it had acknowledged.
fn check_log(config: &ServerConfig, applied: Index, last: Index) -> Result<(), StartError> {
    if applied > last {
        let folder = config.wal_path();
        return Err(StartError::LogBehindDatabase { folder, applied, last });
    }
    Ok(())
}

/// The first member of its name.
fn begin(config: &ServerConfig, platform: &mut Platform) -> Result<Bootstrapped, StartError> {
    // A database that has applied something had a log, which is somewhere else or lost.
    check_log(config, state::peek_applied(config, platform), Index::ZERO)?;
    let (cluster_id, members) =
        Membership::bootstrap(&config.cluster_token, &config.initial_cluster)?;
    let named = |member: &&membership::Member| member.attributes.name == config.name;
    let local = members
        .members()
        .find(named)
        .ok_or_else(|| StartError::NotInCluster(config.name.clone()))?
        .id;
    let peers = peers(&members);
    let backend = state::open_backend(config, platform, None)?;
    begin_with(
        config,
        platform,
        backend,
        None,
        ExistingCluster { cluster_id, local, members },
        &peers,
    )
}

/// The members that a new cluster begins with, if the settings speak of this one. If not, others may have all there is to know, unless there are none.
fn first_members(
    config: &ServerConfig,
    cluster_id: ClusterId,
    local: MemberId,
) -> Result<Option<Membership>, StartError> {
    let first = Membership::bootstrap(&config.cluster_token, &config.initial_cluster).ok();
    let first = first.filter(|(id, members)| *id == cluster_id && members.member(local).is_some());
    // A cluster of this member alone: nobody else will tell it anything.
    if first.is_none() && cluster_id == ClusterId::of([local]) {
        return Err(StartError::NeverBegun { folder: config.wal_path() });
    }
    Ok(first.map(|(_, members)| members))
}

/// A member of a cluster that is there already. Its leader tells it everything, its members too.
fn begin_in(
    config: &ServerConfig,
    platform: &mut Platform,
    join: &ExistingCluster,
) -> Result<Bootstrapped, StartError> {
    check_log(config, state::peek_applied(config, platform), Index::ZERO)?;
    let backend = state::open_backend(config, platform, None)?;
    begin_with(config, platform, backend, None, join.clone(), &[])
}

/// Makes what the folder is missing, a log too if there is none. The log begins with these members, or with nothing.
fn begin_with(
    config: &ServerConfig,
    platform: &mut Platform,
    backend: Backend,
    wal: Option<Wal>,
    join: ExistingCluster,
    peers: &[Peer],
) -> Result<Bootstrapped, StartError> {
    let ExistingCluster { cluster_id, local, members } = join;
    // Consensus has them from the beginning, though the entries that say so are still to be applied.
    let voters = if peers.is_empty() { Voters::default() } else { members.conf_state().into() };
    tracing::info!(local_member_id = %local, cluster_id = %cluster_id, "starting local member");
    let cluster = Cluster::new(cluster_id, local, config.max_learners, members);
    let watch = Arc::new(Notify::default());
    let state = state::open(config, platform, backend, cluster, &watch)?;
    check_log(config, state.applied()?.0, Index::ZERO)?;
    let wal = match wal {
        Some(wal) => wal,
        None => log::create(config, &platform.disk, cluster_id, local)?,
    };
    let seed = seed(&mut *platform.random)?;
    let node_config = raft_config(config, local, Index::ZERO, seed);
    let mut node = RawNode::new(node_config, MemoryStorage::new())?;
    if !peers.is_empty() {
        node.bootstrap(peers)?;
    }
    Ok(Bootstrapped {
        cluster_id,
        local,
        state,
        wal,
        node,
        voters,
        applied: Index::ZERO,
        snapshot_index: Index::ZERO,
        watch,
    })
}

/// The members of a new cluster, as the first entries of its log say them: in the order of their ids, on every member.
fn peers(members: &Membership) -> Vec<Peer> {
    let peer = |member: &membership::Member| Peer {
        id: member.id,
        context: Bytes::from(member.to_json()),
    };
    members.members().map(peer).collect()
}

fn raft_config(config: &ServerConfig, local: MemberId, applied: Index, seed: u64) -> raft::Config {
    raft::Config {
        election_ticks: config.election_ticks,
        heartbeat_ticks: 1,
        seed,
        applied,
        async_storage_writes: true,
        check_quorum: true,
        pre_vote: config.pre_vote,
        max_applying_bytes: APPLYING_BYTES_MAX,
        max_uncommitted_bytes: config.unapplied_bytes_max,
        ..raft::Config::new(local)
    }
}

fn seed(random: &mut dyn Random) -> Result<u64, StartError> {
    random.next_u64().map_err(StartError::Random)
}

/// Lets go of a database whose file is to be replaced.
fn close(backend: Backend) -> Result<(), StartError> {
    Ok(backend.close()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_was_never_begun_waits_for_others_if_there_are_any() {
        let config = ServerConfig::new("a", "/a");
        let first = |members: &[MemberId]| {
            first_members(&config, ClusterId::of(members.iter().copied()), members[0])
        };
        let (one, two) = (MemberId(1), MemberId(2));
        assert!(matches!(first(&[one, two]), Ok(None)));
        assert!(matches!(first(&[one]), Err(StartError::NeverBegun { .. })));
        let (cluster_id, members) =
            Membership::bootstrap(&config.cluster_token, &config.initial_cluster).unwrap();
        let local = members.members().next().unwrap().id;
        assert_eq!(first_members(&config, cluster_id, local).unwrap(), Some(members));
    }
}
