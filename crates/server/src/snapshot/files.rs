//! The snapshot directory, `member/snap`, as the stages share it.

use std::path::PathBuf;
use std::sync::Arc;

use env::Disk;
use parking_lot::Mutex;
use types::Index;
use wal::snap::Snapshotter;

/// The snapshot directory of a member.
#[derive(Debug)]
pub(crate) struct SnapshotFiles {
    pub(crate) snapshotter: Snapshotter,
    /// Held while a received database gets its name and consensus gets its message. If consensus
    /// refuses the message the file is removed again; no other transfer may rely on it until then.
    pub(crate) naming: Mutex<()>,
}

impl SnapshotFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> SnapshotFiles {
        SnapshotFiles { snapshotter: Snapshotter::new(disk, path), naming: Mutex::default() }
    }

    /// Removes received databases up to `index`: consensus had no use for them, and the local
    /// database has their content. A file that cannot be removed only takes space. Where etcd would
    /// exit, this member logs the error and retries with the next snapshot.
    pub(crate) fn remove_received_up_to(&self, index: Index) {
        if let Err(error) = self.snapshotter.release_dbs(index.0) {
            tracing::error!(%error, "failed to remove unused database snapshots");
        }
    }
}
