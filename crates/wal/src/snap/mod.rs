//! Snapshot files: what a member can start from instead of the whole log.
//!
//! In the folder `snap` beside the log, as of etcd 3.7:
//!
//! ```text
//! 0000000000000003-00000000000012c0.snap      term 3, index 4800: snappb.snapshot { crc, data: raftpb.Snapshot }
//! 00000000000012c0.snap.db                    index 4800: a database image from the leader, until it becomes `db`
//! tmp…                                        either of them on its way; removed at the next start
//! 0000000000000002-0000000000000bb8.snap.broken     a snapshot that could not be read
//! ```
//!
//! Both kinds are written under another name, synced and renamed, and the folder is synced: they are there whole or not
//! at all. etcd writes `.snap` files in place; a half one that it leaves behind is set aside on loading, by it and by
//! us.

mod db;
mod file;
mod unnamed;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use env::Disk;
use proto::raftpb;
use proto::walpb;
use thiserror::Error;

pub use db::{Copied, Received};
pub use file::read;

use crate::error::Failure;
use crate::purge::surplus;
use crate::segment::{BROKEN_SUFFIX, suffixed};

const SNAP_SUFFIX: &str = ".snap";
const DB_SUFFIX: &str = ".snap.db";

/// What files on their way are called. Both etcd and we remove such files at start.
const TMP_PREFIX: &str = "tmp";

/// What the target of a defragmentation is called.
const DEFRAG_PREFIX: &str = "db.tmp";

/// The largest `.snap` file that is read. They hold the members and little else.
pub const SNAP_BYTES_MAX: u64 = 512 << 20;

/// Why a snapshot could not be saved or loaded.
#[derive(Debug, Error)]
pub enum SnapError {
    /// There is none, or none that fits.
    #[error("snap: no available snapshot")]
    NoSnapshot,
    /// The file has nothing in it.
    #[error("snap: empty snapshot: {}", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file is not what was written.
    #[error("snap: crc mismatch: {}: expected: {expected:x} computed: {computed:x}", file.display())]
    Crc {
        /// The file.
        file: PathBuf,
        /// The checksum it carries.
        expected: u32,
        /// The checksum of what it holds.
        computed: u32,
    },
    /// The file is not a snapshot.
    #[error("snap: damaged: {}: {why}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no database image with this index.
    #[error("snap: snapshot file doesn't exist: {}", file.display())]
    NoDatabase {
        /// The file looked for.
        file: PathBuf,
    },
    /// Whoever sends the database image failed.
    #[error("snap: receive {}: {source}", file.display())]
    Source {
        /// The file to be.
        file: PathBuf,
        /// What the sender's side answered.
        source: io::Error,
    },
    /// The disk failed.
    #[error("snap: {0}")]
    Disk(#[from] Failure),
}

/// The folder of snapshot files.
#[derive(Debug)]
pub struct Snapshotter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Makes names of files on their way differ, also from those that have got their name since.
    counter: AtomicU64,
}

/// A snapshot as it is written: the first half of [`Snapshotter::save`], for whoever wants to know how long each takes.
#[derive(Debug)]
pub struct Encoded {
    name: String,
    bytes: Vec<u8>,
}

impl Encoded {
    /// Encodes a snapshot. One without an index is none.
    pub fn new(snapshot: &raftpb::Snapshot) -> Option<Encoded> {
        let metadata = snapshot.metadata.as_ref().filter(|metadata| metadata.index() != 0)?;
        let name = format!("{:016x}-{:016x}{SNAP_SUFFIX}", metadata.term(), metadata.index());
        Some(Encoded { name, bytes: file::encode(snapshot) })
    }
}

impl Snapshotter {
    /// Looks after the snapshot files in a folder, which must exist.
    pub fn new(disk: Arc<dyn Disk>, dir: impl Into<PathBuf>) -> Snapshotter {
        Snapshotter { disk, dir: dir.into(), counter: AtomicU64::new(0) }
    }

    /// Saves a snapshot, durably. One without an index is none, and is not saved.
    pub fn save(&self, snapshot: &raftpb::Snapshot) -> Result<(), SnapError> {
        Encoded::new(snapshot).map_or(Ok(()), |encoded| self.write(&encoded))
    }

    /// The second half of [`save`](Snapshotter::save): writes a snapshot, durably.
    pub fn write(&self, encoded: &Encoded) -> Result<(), SnapError> {
        file::write(self, &self.dir.join(&encoded.name), &encoded.bytes)
    }

    /// The newest snapshot. One that cannot be read is set aside, and the next one taken.
    pub fn load(&self) -> Result<raftpb::Snapshot, SnapError> {
        self.load_matching(|_| true)
    }

    /// The newest snapshot of those that the log has. One that cannot be read is set aside, and the next one taken.
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
                // A disk that fails now may be well later: the file stays as it is.
                Err(error @ SnapError::Disk(_)) => return Err(error),
                Err(error) => self.set_aside(&path, &error)?,
            }
        }
        Err(SnapError::NoSnapshot)
    }

    fn set_aside(&self, path: &Path, why: &SnapError) -> Result<(), Failure> {
        let broken = suffixed(path, BROKEN_SUFFIX);
        tracing::warn!(%why, "set a broken snapshot file aside");
        self.disk.rename(path, &broken).map_err(|e| Failure::new("rename", path, e))
    }

    /// Removes what was on its way when an earlier process ended. Called once at start, before anything else.
    pub fn clean(&self) -> Result<(), SnapError> {
        for name in self.list()? {
            if name.starts_with(TMP_PREFIX) || name.starts_with(DEFRAG_PREFIX) {
                tracing::info!(file = name, "removed an unfinished file");
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes the oldest `.snap` files, and the oldest database images, until at most `keep` of each are left. Zero sets no
    /// limit, as in etcd's flags, and removes nothing.
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

    fn list(&self) -> Result<Vec<String>, Failure> {
        self.disk.read_dir(&self.dir).map_err(|e| Failure::new("list", &self.dir, e))
    }

    /// The files of a kind, oldest first.
    fn names(&self, suffix: &str) -> Result<Vec<String>, Failure> {
        let mut names = self.list()?;
        names.retain(|name| name.ends_with(suffix) && !name.starts_with(TMP_PREFIX));
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), Failure> {
        let path = self.dir.join(name);
        match self.disk.remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(|e| Failure::new("remove", &path, e)),
        }
    }

    fn try_remove(&self, path: &Path) {
        match self.disk.remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "could not remove a file that nobody needs");
            }
        }
    }
}
