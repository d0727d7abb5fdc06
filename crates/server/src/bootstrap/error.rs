//! Why a member does not start. Where etcd has the text, it is etcd's; all say what to look at.

use std::io;
use std::path::PathBuf;

use backend::schema::version::MigrateError;
use types::{Index, MemberId};

use crate::apply::Fault;

/// Why a member does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A folder is missing and cannot be made.
    #[error("cannot access data directory: {}: {source}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error("failed to open WAL in {}: {source}", folder.display())]
    OpenLog {
        /// Its folder.
        folder: PathBuf,
        /// Why.
        source: wal::OpenError,
    },
    /// The log cannot be read.
    #[error("failed to read WAL, cannot be repaired: {0}")]
    ReadLog(#[from] wal::ReadError),
    /// Its torn end cannot be cut.
    #[error("failed to repair WAL: {0}")]
    RepairLog(#[from] wal::RepairError),
    /// A new one cannot be written.
    #[error("failed to create WAL: {0}")]
    CreateLog(#[from] wal::SaveError),
    /// It does not say whose it is.
    #[error("the log does not say which member it is of: {0}")]
    Metadata(prost::DecodeError),
    /// An entry in it is none.
    #[error("the log has an entry that cannot be read: {0}")]
    Entry(String),
    /// It has no place to start from.
    #[error("the log has no snapshot to start from")]
    NoStart,
    /// Folder of snapshots.
    #[error(transparent)]
    Snapshots(#[from] wal::snap::SnapError),
    /// The database cannot be opened.
    #[error("failed to open database: {0}")]
    OpenDatabase(#[from] backend::OpenError),
    /// It cannot be written.
    #[error("failed to write database: {0}")]
    CommitDatabase(#[from] backend::CommitError),
    /// It could not be closed, to be replaced.
    #[error("failed to close database: {0}")]
    CloseDatabase(#[from] backend::CloseError),
    /// It could not be made smaller.
    #[error("failed to defragment database: {0}")]
    Defragment(#[from] backend::DefragmentError),
    /// It is of a release that this one does not know.
    #[error("failed to validate schema: {0}")]
    Schema(#[from] MigrateError),
    /// The log was cut behind a snapshot, and the database is not there.
    #[error("database file ({}) of the backend is missing", .0.display())]
    DatabaseMissing(PathBuf),
    /// The log was cut behind a snapshot that the database does not have.
    #[error("database file ({} index {applied}) does not match with snapshot (index {snapshot})", path.display())]
    DatabaseBehindSnapshot {
        /// The database.
        path: PathBuf,
        /// What it has.
        applied: Index,
        /// What it should have.
        snapshot: Index,
    },
    /// Entries that were applied are not in the log: it has lost what it had acknowledged.
    #[error(
        "the database has entry {applied} applied, but the log in {} ends at {last}: entries are missing, restore this member from a backup or another member",
        folder.display()
    )]
    LogBehindDatabase {
        /// The folder of the log.
        folder: PathBuf,
        /// What the database has.
        applied: Index,
        /// What the log has.
        last: Index,
    },
    /// The power went in the first start of the member, after its log was made and before that had anything in it.
    #[error(
        "the log in {} was never begun, because the first start of this member was cut short: nothing was stored, remove the data directory and start again",
        folder.display()
    )]
    NeverBegun {
        /// The folder of the log.
        folder: PathBuf,
    },
    /// It cannot go on alone as a member that it is not.
    #[error("member {0} was removed from the cluster, and cannot go on alone")]
    Removed(MemberId),
    /// There are others with a vote, and this member was started without a way to them ([`NoPeers`](crate::NoPeers)).
    #[error(
        "the data directory is of a member of a cluster with {voters} voting members, and this one was started without a way to the others"
    )]
    NoPeers {
        /// How many have a vote.
        voters: usize,
    },
    /// What is in the database cannot be taken up.
    #[error(transparent)]
    State(#[from] Fault),
    /// The members make no cluster.
    #[error(transparent)]
    Members(#[from] membership::BootstrapError),
    /// They are more learners than the settings allow.
    #[error(transparent)]
    Learners(#[from] membership::ConfChangeRefusal),
    /// This member is not among them.
    #[error("couldn't find local name {0:?} in the initial cluster configuration")]
    NotInCluster(String),
    /// Consensus would not start.
    #[error("failed to start raft: {0}")]
    Raft(#[from] raft::StartError),
    /// It would not begin a log.
    #[error("failed to start raft: {0}")]
    BeginRaft(#[from] raft::BootstrapError),
    /// `--auth-token` makes no sense.
    #[error(transparent)]
    AuthToken(#[from] auth::OptionsError),
    /// The machine has no randomness.
    #[error("random seed: {0}")]
    Random(io::Error),
    /// A thread cannot be started.
    #[error("failed to start a thread: {0}")]
    Thread(io::Error),
    /// A metric has a name that is taken.
    #[error("failed to register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}
