//! Snapshot files, from which a member starts instead of replaying the whole log.
//!
//! In the directory `snap` beside the log, as of etcd 3.7:
//!
//! ```text
//! 0000000000000003-00000000000012c0.snap      term 3, index 4800: snappb.Snapshot { crc, data }
//! 00000000000012c0.snap.db                    index 4800: a snapshot database from the leader
//! tmp…                                        temporary files; removed at the next start
//! 0000000000000002-0000000000000bb8.snap.broken     an unreadable snapshot
//! ```
//!
//! Both kinds are written under a temporary name, synced and renamed, and the directory is synced:
//! they exist completely or not at all. etcd writes `.snap` files in place; an incomplete one is
//! renamed on loading, by etcd and by Bowline.

mod db;
mod file;
mod temp_file;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use env::Disk;
use proto::raftpb;
use proto::walpb;
use thiserror::Error;

pub use db::{ReceivedDb, UnsyncedDb};
pub use file::read;

use crate::error::DiskError;
use crate::purge::surplus;
use crate::segment::{BROKEN_SUFFIX, suffixed};

const SNAP_SUFFIX: &str = ".snap";
const DB_SUFFIX: &str = ".snap.db";

/// Prefix of temporary files. Both etcd and Bowline remove such files at start.
const TMP_PREFIX: &str = "tmp";

/// Prefix of the target file of a defragmentation.
const DEFRAG_PREFIX: &str = "db.tmp";

/// Maximum size of a `.snap` file that is read, in bytes. They hold the members and little else.
pub const SNAP_BYTES_MAX: u64 = 512 << 20;

/// Reason why a snapshot could not be saved or loaded.
#[derive(Debug, Error)]
pub enum SnapError {
    /// No snapshot exists, or none matches.
    #[error("snap: no available snapshot")]
    NoSnapshot,
    /// The file is empty.
    #[error("snap: empty snapshot: {}", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The content does not match its checksum.
    #[error("snap: crc mismatch: {}: expected: {expected:x} computed: {computed:x}", file.display())]
    Crc {
        /// The file.
        file: PathBuf,
        /// The stored checksum.
        expected: u32,
        /// The checksum of the content.
        computed: u32,
    },
    /// The file is not a valid snapshot.
    #[error("snap: corrupt: {}: {reason}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// The inconsistency.
        reason: &'static str,
    },
    /// No snapshot database has this index.
    #[error("snap: snapshot file doesn't exist: {}", file.display())]
    NoDatabase {
        /// Path of the file.
        file: PathBuf,
    },
    /// The sender of the snapshot database failed.
    #[error("snap: receive {}: {source}", file.display())]
    Source {
        /// Path of the file being received.
        file: PathBuf,
        /// The error of the sender.
        source: io::Error,
    },
    /// A disk operation failed.
    #[error("snap: {0}")]
    Disk(#[from] DiskError),
}

/// The directory of snapshot files.
#[derive(Debug)]
pub struct Snapshotter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Makes the names of temporary files unique.
    counter: AtomicU64,
}

/// An encoded snapshot: the first half of [`Snapshotter::save`], for callers that time each half.
#[derive(Debug)]
pub struct EncodedSnapshot {
    name: String,
    bytes: Vec<u8>,
}

impl EncodedSnapshot {
    /// Encodes a snapshot. Returns `None` for a snapshot without an index.
    pub fn new(snapshot: &raftpb::Snapshot) -> Option<EncodedSnapshot> {
        let metadata = snapshot.metadata.as_ref().filter(|metadata| metadata.index() != 0)?;
        let name = format!("{:016x}-{:016x}{SNAP_SUFFIX}", metadata.term(), metadata.index());
        Some(EncodedSnapshot { name, bytes: file::encode(snapshot) })
    }
}

impl Snapshotter {
    /// Manages the snapshot files in a directory, which must exist.
    pub fn new(disk: Arc<dyn Disk>, dir: impl Into<PathBuf>) -> Snapshotter {
        Snapshotter { disk, dir: dir.into(), counter: AtomicU64::new(0) }
    }

    /// Saves a snapshot durably. Ignores a snapshot without an index.
    pub fn save(&self, snapshot: &raftpb::Snapshot) -> Result<(), SnapError> {
        EncodedSnapshot::new(snapshot).map_or(Ok(()), |encoded| self.write(&encoded))
    }

    /// Writes an encoded snapshot durably: the second half of [`save`](Snapshotter::save).
    pub fn write(&self, encoded: &EncodedSnapshot) -> Result<(), SnapError> {
        file::write(self, &self.dir.join(&encoded.name), &encoded.bytes)
    }

    /// Loads the newest snapshot. Renames an unreadable one to `.broken` and tries the next.
    pub fn load(&self) -> Result<raftpb::Snapshot, SnapError> {
        self.load_matching(|_| true)
    }

    /// Loads the newest snapshot that the log has. Renames an unreadable one to `.broken` and tries
    /// the next.
    pub fn load_newest_available(
        &self,
        available: &[walpb::Snapshot],
    ) -> Result<raftpb::Snapshot, SnapError> {
        self.load_matching(|snapshot| {
            let metadata = snapshot.metadata.clone().unwrap_or_default();
            let (index, term) = (metadata.index(), metadata.term());
            available.iter().any(|one| one.index() == index && one.term() == term)
        })
    }

    fn load_matching(
        &self,
        matches: impl Fn(&raftpb::Snapshot) -> bool,
    ) -> Result<raftpb::Snapshot, SnapError> {
        for name in self.names(SNAP_SUFFIX)?.iter().rev() {
            let path = self.dir.join(name);
            match file::read(&*self.disk, &path) {
                Ok(snapshot) if matches(&snapshot) => return Ok(snapshot),
                Ok(_) => {}
                // A disk error may be transient: the file stays as it is.
                Err(error @ SnapError::Disk(_)) => return Err(error),
                Err(error) => self.rename_broken(&path, &error)?,
            }
        }
        Err(SnapError::NoSnapshot)
    }

    fn rename_broken(&self, path: &Path, reason: &SnapError) -> Result<(), DiskError> {
        let broken = suffixed(path, BROKEN_SUFFIX);
        tracing::warn!(%reason, "renamed a broken snapshot file");
        self.disk.rename(path, &broken).map_err(|e| DiskError::new("rename", path, e))
    }

    /// Removes temporary files of an earlier process. Call once at start, before anything else.
    pub fn clean(&self) -> Result<(), SnapError> {
        for name in self.list()? {
            if name.starts_with(TMP_PREFIX) || name.starts_with(DEFRAG_PREFIX) {
                tracing::info!(file = name, "removed a temporary file");
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes the oldest `.snap` files, and the oldest snapshot databases, until at most `keep` of
    /// each are left. Compat: as in etcd's flags, 0 means no limit and removes nothing.
    pub fn purge(&self, keep: usize) -> Result<Vec<String>, SnapError> {
        let mut removed = Vec::new();
        for suffix in [SNAP_SUFFIX, DB_SUFFIX] {
            for name in surplus(self.names(suffix)?, keep) {
                self.remove(&name)?;
                tracing::info!(file = name, "purged");
                removed.push(name);
            }
        }
        Ok(removed)
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.disk.read_dir(&self.dir).map_err(|e| DiskError::new("list", &self.dir, e))
    }

    /// The files with a suffix, oldest first.
    fn names(&self, suffix: &str) -> Result<Vec<String>, DiskError> {
        let mut names = self.list()?;
        names.retain(|name| name.ends_with(suffix) && !name.starts_with(TMP_PREFIX));
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.dir.join(name);
        match self.disk.remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(|e| DiskError::new("remove", &path, e)),
        }
    }

    fn try_remove(&self, path: &Path) {
        match self.disk.remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "failed to remove an unneeded file");
            }
        }
    }
}
