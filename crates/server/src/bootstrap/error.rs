//! The errors of a start. Texts are etcd's where etcd has one, and name the file to look at.

use std::io;
use std::path::PathBuf;

use backend::schema::version::MigrateError;
use types::{Index, MemberId};

use crate::apply::Fault;

/// The reason why a member does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A directory is missing and cannot be created.
    #[error("cannot access data directory: {}: {source}", dir.display())]
    DataDir {
        /// The path of the directory.
        dir: PathBuf,
        /// The error of the disk.
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error("failed to open WAL in {}: {source}", dir.display())]
    OpenLog {
        /// The directory of the log.
        dir: PathBuf,
        /// The cause.
        source: wal::OpenError,
    },
    /// The log cannot be read.
    #[error("failed to read WAL, cannot be repaired: {0}")]
    ReadLog(#[from] wal::ReadError),
    /// A torn tail of the log cannot be truncated.
    #[error("failed to repair WAL: {0}")]
    RepairLog(#[from] wal::RepairError),
    /// A new log cannot be written.
    #[error("failed to create WAL: {0}")]
    CreateLog(#[from] wal::SaveError),
    /// The metadata of the log, which names its member and cluster, cannot be decoded.
    #[error("failed to decode the metadata of the WAL: {0}")]
    Metadata(prost::DecodeError),
    /// The log contains an entry that cannot be decoded.
    #[error("failed to decode an entry of the WAL: {0}")]
    Entry(String),
    /// The log contains no snapshot record.
    #[error("the log has no snapshot to start from")]
    NoStart,
    /// The directory of snapshots cannot be read or cleaned.
    #[error(transparent)]
    Snapshots(#[from] wal::snap::SnapError),
    /// The database cannot be opened.
    #[error("failed to open database: {0}")]
    OpenDatabase(#[from] backend::OpenError),
    /// The database cannot be written.
    #[error("failed to write database: {0}")]
    CommitDatabase(#[from] backend::CommitError),
    /// The database cannot be closed before it is replaced.
    #[error("failed to close database: {0}")]
    CloseDatabase(#[from] backend::CloseError),
    /// The database cannot be defragmented.
    #[error("failed to defragment database: {0}")]
    Defragment(#[from] backend::DefragmentError),
    /// The database has a storage version that this release does not know.
    #[error("failed to validate schema: {0}")]
    Schema(#[from] MigrateError),
    /// The log was truncated before a snapshot that the database does not contain, and no leader
    /// has sent a database with it. A log line has both indexes and the files.
    #[error("failed to find database snapshot file (snap: snapshot file doesn't exist)")]
    SnapshotDatabaseMissing,
    /// The log lacks entries that the database has applied, so it has lost acknowledged data.
    #[error(
        "the database has entry {applied} applied, but the log in {} ends at {last}: entries are missing, restore this member from a backup or another member",
        dir.display()
    )]
    LogBehindDatabase {
        /// The directory of the log.
        dir: PathBuf,
        /// The applied index of the database.
        applied: Index,
        /// The last index of the log.
        last: Index,
    },
    /// Power was cut during the first start of the member, after the log was created and before it
    /// had entries.
    #[error(
        "the log in {} is empty, because the first start of this member was interrupted: nothing was stored, remove the data directory and start again",
        dir.display()
    )]
    InterruptedFirstStart {
        /// The directory of the log.
        dir: PathBuf,
    },
    /// A removed member cannot be forced into a new cluster.
    #[error("member {0} was removed from the cluster, and cannot be forced into a new one")]
    Removed(MemberId),
    /// The cluster has other voters, and this member was started without a transport
    /// ([`NoPeers`](crate::NoPeers)).
    #[error(
        "the data directory belongs to a cluster with {voters} voting members, but this member was started without a peer transport"
    )]
    NoPeers {
        /// The number of voters.
        voters: usize,
    },
    /// The state in the database cannot be opened.
    #[error(transparent)]
    State(#[from] Fault),
    /// The configured members do not form a cluster.
    #[error(transparent)]
    Members(#[from] membership::BootstrapError),
    /// The membership has more learners than the configuration allows.
    #[error(transparent)]
    Learners(#[from] membership::ConfChangeRefusal),
    /// The configured cluster does not contain this member.
    #[error("couldn't find local name {0:?} in the initial cluster configuration")]
    NotInCluster(String),
    /// The consensus core refuses to start.
    #[error("failed to start raft: {0}")]
    Raft(#[from] raft::StartError),
    /// The consensus core refuses to bootstrap the log.
    #[error("failed to start raft: {0}")]
    BeginRaft(#[from] raft::BootstrapError),
    /// `--auth-token` cannot be parsed.
    #[error(transparent)]
    AuthToken(#[from] auth::OptionsError),
    /// The system provides no randomness.
    #[error("random seed: {0}")]
    Random(io::Error),
    /// A thread cannot be started.
    #[error("failed to start a thread: {0}")]
    Thread(io::Error),
    /// A metric name is registered twice.
    #[error("failed to register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}
