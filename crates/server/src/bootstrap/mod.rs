//! Bootstrap: builds a member from its data directory, or a new one in an empty directory.
//!
//! ```text
//!   member/wal    has a log?  no ─┬► new cluster: ids from names and URLs; the first entries of
//!                                 │  the log add the members
//!                                 └► joining an existing cluster: an empty log, which the leader
//!                                    fills
//!                             yes ─► metadata, newest snapshot record, entries after that
//!   member/snap   <index>.snap.db    a database that a leader sent, used if the snapshot record
//!                                    is newer than the member's own database
//!                 db                 the state, with the applied index in it
//! ```
//!
//! The log may have been written by etcd 3.4 to 3.7. Members and voters are read from the database,
//! which holds them as of its applied index. Entries after that are applied once they are known to
//! be committed.

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

/// The maximum size of entries handed out and not yet applied. The raft loop is notified of applied
/// entries at its next turn, under load after the next sync, so this must cover the entries that
/// are applied during one sync. The entries are in memory anyway.
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
    /// The index of the snapshot record from which the log was read.
    pub(crate) snapshot_index: Index,
    /// Notified when the watch hub has work to do.
    pub(crate) watch: Arc<Notify>,
}

/// Builds a member from the data directory, or creates one in an empty directory.
pub(crate) fn bootstrap(
    config: &ServerConfig,
    platform: &mut Platform,
) -> Result<Bootstrapped, StartError> {
    create_dirs(config, &platform.disk)?;
    Snapshotter::new(Arc::clone(&platform.disk), config.snap_path()).clean()?;
    let has_log = wal::exists(&*platform.disk, &config.wal_path()).map_err(in_log(config))?;
    match &config.join {
        _ if has_log => restart(config, platform),
        Some(join) => join_cluster(config, platform, join),
        None => new_cluster(config, platform),
    }
}

/// Returns a function that adds the directory of the log to an error.
fn in_log(config: &ServerConfig) -> impl Fn(wal::OpenError) -> StartError {
    let dir = config.wal_path();
    move |source| StartError::OpenLog { dir: dir.clone(), source }
}

fn create_dirs(config: &ServerConfig, disk: &Arc<dyn Disk>) -> Result<(), StartError> {
    for dir in [config.data_dir.clone(), config.snap_path()] {
        disk.create_dir_all_durably(&dir).map_err(|source| StartError::DataDir { dir, source })?;
    }
    Ok(())
}

/// Restarts an existing member.
fn restart(config: &ServerConfig, platform: &mut Platform) -> Result<Bootstrapped, StartError> {
    // Checks that change nothing on disk come first.
    let (start, last, opening) = take_log(config, platform)?;
    let applied = state::peek_applied(config, platform);
    check_log(config, applied.or_zero(), last)?;
    state::check_database(config, platform, Index(start.index()), applied)?;
    let backend = state::open_backend(config, platform, Some(&start))?;
    let mut log = log::read(config, &platform.disk, &start, opening)?;
    let metadata = log.metadata;
    let (cluster_id, local) = (ClusterId(metadata.cluster_id()), MemberId(metadata.node_id()));
    if log.is_blank() {
        let members = first_members(config, cluster_id, local)?;
        if let Some(members) = members {
            tracing::info!(local_member_id = %local, "the first start was interrupted; starting again");
            let peers = peers(&members);
            let join = ExistingCluster { cluster_id, local, members };
            return create_member(config, platform, backend, Some(log.wal), join, &peers);
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
        force::force_new_cluster(&mut log, local, voters.clone(), applied)?;
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

/// Returns the snapshot record to start from, the last index, and the locked log. If another
/// process holds the log, waits for that process to end.
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

/// Checks that the log contains all applied entries; otherwise it has lost acknowledged data.
fn check_log(config: &ServerConfig, applied: Index, last: Index) -> Result<(), StartError> {
    if applied > last {
        let dir = config.wal_path();
        return Err(StartError::LogBehindDatabase { dir, applied, last });
    }
    Ok(())
}

/// Starts a member of a new cluster.
fn new_cluster(config: &ServerConfig, platform: &mut Platform) -> Result<Bootstrapped, StartError> {
    // A database with applied entries had a log, which is elsewhere or lost.
    check_log(config, state::peek_applied(config, platform).or_zero(), Index::ZERO)?;
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
    create_member(
        config,
        platform,
        backend,
        None,
        ExistingCluster { cluster_id, local, members },
        &peers,
    )
}

/// Returns the members of a new cluster, if the configuration describes this cluster. Otherwise the
/// member waits for its leader, unless it has no peers.
fn first_members(
    config: &ServerConfig,
    cluster_id: ClusterId,
    local: MemberId,
) -> Result<Option<Membership>, StartError> {
    let first = Membership::bootstrap(&config.cluster_token, &config.initial_cluster).ok();
    let first = first.filter(|(id, members)| *id == cluster_id && members.member(local).is_some());
    // In a cluster of one, no peer can send the log.
    if first.is_none() && cluster_id == ClusterId::of([local]) {
        return Err(StartError::InterruptedFirstStart { dir: config.wal_path() });
    }
    Ok(first.map(|(_, members)| members))
}

/// Starts a member that joins an existing cluster. Its leader sends the log, including the members.
fn join_cluster(
    config: &ServerConfig,
    platform: &mut Platform,
    join: &ExistingCluster,
) -> Result<Bootstrapped, StartError> {
    check_log(config, state::peek_applied(config, platform).or_zero(), Index::ZERO)?;
    let backend = state::open_backend(config, platform, None)?;
    create_member(config, platform, backend, None, join.clone(), &[])
}

/// Creates a new member: its state, and its log if there is none. The first entries add `peers`, if
/// any.
fn create_member(
    config: &ServerConfig,
    platform: &mut Platform,
    backend: Backend,
    wal: Option<Wal>,
    join: ExistingCluster,
    peers: &[Peer],
) -> Result<Bootstrapped, StartError> {
    let ExistingCluster { cluster_id, local, members } = join;
    // Consensus knows the voters from the start, although the entries that add them are not applied
    // yet.
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

/// Returns the members for the first entries of the log, ordered by id so that all members write
/// the same entries.
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

/// Closes a database whose file is to be replaced.
fn close(backend: Backend) -> Result<(), StartError> {
    Ok(backend.close()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_log_waits_for_the_leader_if_there_are_peers() {
        let config = ServerConfig::new("a", "/a");
        let first = |members: &[MemberId]| {
            first_members(&config, ClusterId::of(members.iter().copied()), members[0])
        };
        let (one, two) = (MemberId(1), MemberId(2));
        assert!(matches!(first(&[one, two]), Ok(None)));
        assert!(matches!(first(&[one]), Err(StartError::InterruptedFirstStart { .. })));
        let (cluster_id, members) =
            Membership::bootstrap(&config.cluster_token, &config.initial_cluster).unwrap();
        let local = members.members().next().unwrap().id;
        assert_eq!(first_members(&config, cluster_id, local).unwrap(), Some(members));
    }
}
