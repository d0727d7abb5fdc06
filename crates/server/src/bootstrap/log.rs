//! The log of a member that was there before, or of a new one.

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

/// What a log says.
pub(super) struct Log {
    pub(super) wal: Wal,
    /// Whose it is.
    pub(super) metadata: Metadata,
    pub(super) state: HardState,
    pub(super) entries: Vec<Entry>,
}

impl Log {
    /// Whether its member has said nothing to anybody: the state is durable first, and has a term. It was killed while it started for the first time, and some
    /// of the first entries may be there.
    pub(super) fn is_blank(&self) -> bool {
        self.state.term() == 0
    }
}

/// The newest place to start from, and the last entry.
pub(super) fn survey(
    config: &ServerConfig,
    disk: &dyn Disk,
) -> Result<(Snapshot, Index), StartError> {
    let folder = config.wal_path();
    let LogSurvey { snapshots, last_index } = wal::survey(disk, &folder)?;
    let start = snapshots.into_iter().next_back().ok_or(StartError::NoStart)?;
    tracing::info!(snapshot_index = start.index(), "found the place in the log to start from");
    Ok((start, Index(last_index)))
}

/// Takes the log for this member. Nothing of it is changed yet.
pub(super) fn lock(
    config: &ServerConfig,
    disk: &Arc<dyn Disk>,
    start: &Snapshot,
) -> Result<UnreadWal, StartError> {
    let opening = Wal::open(Arc::clone(disk), &config.wal_path(), start, wal_config(config));
    opening.map_err(in_log(config))
}

/// Reads the log from its start on, and goes on with it. A torn end is cut, once.
pub(super) fn read(
    config: &ServerConfig,
    disk: &Arc<dyn Disk>,
    start: &Snapshot,
    opening: UnreadWal,
) -> Result<Log, StartError> {
    let (wal, contents) = match opening.read_all() {
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

fn repair(disk: &dyn Disk, folder: &Path) -> Result<(), StartError> {
    let repair = wal::repair(disk, folder)?;
    tracing::warn!(?repair, path = %folder.display(), "repaired WAL");
    Ok(())
}

/// The log of a member that begins.
pub(super) fn create(
    config: &ServerConfig,
    disk: &Arc<dyn Disk>,
    cluster_id: ClusterId,
    local: MemberId,
) -> Result<Wal, StartError> {
    let metadata = Metadata { node_id: Some(local.0), cluster_id: Some(cluster_id.0) };
    let folder = config.wal_path();
    let wal = Wal::create(Arc::clone(disk), &folder, metadata.encode_to_vec(), wal_config(config));
    wal.map_err(in_log(config))
}

fn wal_config(config: &ServerConfig) -> wal::Config {
    wal::Config { segment_bytes: config.segment_bytes, unsafe_no_fsync: config.unsafe_no_fsync }
}

/// The log as consensus reads it, with the voters as of what is applied.
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
    // A commit index alone is not made durable at once, so the database may know of more.
    state.commit = state.commit.max(applied);
    storage.set_hard_state(state);
    Ok(storage)
}
