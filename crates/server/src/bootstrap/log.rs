//! Opens the log of an existing member, or creates that of a new one.

use std::path::Path;
use std::sync::Arc;

use env::Disk;
use membership::ClusterId;
use prost::Message as _;
use proto::etcdserverpb::Metadata;
use proto::raftpb::HardState;
use proto::walpb::Snapshot;
use raft::{ConfState, Entry, MemoryStorage, SnapshotMetadata};
use types::{Index, MemberId, Term};
use wal::{LogContents, LogSurvey, UnreadWal, Wal};

use super::{StartError, in_log};
use crate::config::ServerConfig;
use crate::pipeline::voters::Voters;

/// The contents of a log.
pub(super) struct Log {
    pub(super) wal: Wal,
    /// The ids of the member and of the cluster.
    pub(super) metadata: Metadata,
    pub(super) state: HardState,
    pub(super) entries: Vec<Entry>,
}

impl Log {
    /// Returns whether the member has never sent a message: its hard state is durable before that,
    /// and has a term. Its first start was interrupted, and some of the first entries may be
    /// present.
    pub(super) fn is_blank(&self) -> bool {
        self.state.term() == 0
    }
}

/// Returns the newest snapshot record and the last index of the log.
pub(super) fn survey(
    config: &ServerConfig,
    disk: &dyn Disk,
) -> Result<(Snapshot, Index), StartError> {
    let dir = config.wal_path();
    let LogSurvey { snapshots, last_index } = wal::survey(disk, &dir)?;
    let start = snapshots.into_iter().next_back().ok_or(StartError::NoStart)?;
    tracing::info!(snapshot_index = start.index(), "found the newest snapshot record in the log");
    Ok((start, Index(last_index)))
}

/// Locks and opens the log, without changing it.
pub(super) fn lock(
    config: &ServerConfig,
    disk: &Arc<dyn Disk>,
    start: &Snapshot,
) -> Result<UnreadWal, StartError> {
    let unread = Wal::open(Arc::clone(disk), &config.wal_path(), start, wal_config(config));
    unread.map_err(in_log(config))
}

/// Reads the log from the snapshot on, and opens it for appending. A torn tail is repaired once.
pub(super) fn read(
    config: &ServerConfig,
    disk: &Arc<dyn Disk>,
    start: &Snapshot,
    unread: UnreadWal,
) -> Result<Log, StartError> {
    let (wal, contents) = match unread.read_all() {
        Err(error) if error.is_torn() => {
            repair(&**disk, &config.wal_path())?;
            lock(config, disk, start)?.read_all()?
        }
        other => other?,
    };
    let LogContents { metadata, state, entries } = contents;
    let metadata = Metadata::decode(metadata).map_err(StartError::Metadata)?;
    let entries = entries.into_iter().map(entry).collect::<Result<_, _>>()?;
    Ok(Log { wal, metadata, state, entries })
}

fn entry(entry: proto::raftpb::Entry) -> Result<Entry, StartError> {
    Entry::try_from(entry).map_err(|error| StartError::Entry(error.to_string()))
}

fn repair(disk: &dyn Disk, dir: &Path) -> Result<(), StartError> {
    let repair = wal::repair(disk, dir)?;
    tracing::warn!(?repair, path = %dir.display(), "repaired WAL");
    Ok(())
}

/// Creates the log of a new member.
pub(super) fn create(
    config: &ServerConfig,
    disk: &Arc<dyn Disk>,
    cluster_id: ClusterId,
    local: MemberId,
) -> Result<Wal, StartError> {
    let metadata = Metadata { node_id: Some(local.0), cluster_id: Some(cluster_id.0) };
    let dir = config.wal_path();
    let wal = Wal::create(Arc::clone(disk), &dir, metadata.encode_to_vec(), wal_config(config));
    wal.map_err(in_log(config))
}

fn wal_config(config: &ServerConfig) -> wal::Config {
    wal::Config { segment_bytes: config.segment_bytes, unsafe_no_fsync: config.unsafe_no_fsync }
}

/// Returns the log as raft storage, with the voters at the applied index.
pub(super) fn storage(
    start: &Snapshot,
    log: &Log,
    voters: &Voters,
    applied: Index,
) -> Result<MemoryStorage, StartError> {
    let members = |ids: Vec<u64>| ids.into_iter().map(MemberId).collect();
    let conf = voters.conf_state();
    let conf_state = ConfState {
        voters: members(conf.voters),
        learners: members(conf.learners),
        ..ConfState::default()
    };
    let (index, term) = (Index(start.index()), Term(start.term()));
    let metadata = SnapshotMetadata { conf_state, index, term };
    let mut storage = MemoryStorage::new();
    let failed = |error: raft::MemoryStorageError| StartError::Entry(error.to_string());
    storage
        .apply_snapshot(raft::Snapshot { metadata, ..raft::Snapshot::default() })
        .map_err(failed)?;
    storage.append(&log.entries).map_err(failed)?;
    let mut state = raft::HardState::from(log.state);
    // The commit index is not synced on its own, so the database may have applied more.
    state.commit = state.commit.max(applied);
    storage.set_hard_state(state);
    Ok(storage)
}
