//! Snapshot databases received from the leader.
//!
//! ```text
//!   receive_db   tmp0000000000000008       all bytes written    UnsyncedDb
//!   sync                                   durable              ReceivedDb   the caller checks it
//!   keep         00000000000012c0.snap.db  renamed
//! ```
//!
//! A database that fails on the way, or is dropped, is removed: only one that the caller has
//! checked gets its final name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use failpoint::failpoint;

use super::temp_file::TempFile;
use super::{DB_SUFFIX, SnapError, Snapshotter};
use crate::error::DiskError;
use crate::segment::hex16;

/// Copy buffer size, in bytes.
const COPY_BYTES: usize = 1 << 20;

/// File mode, as in etcd: accessible to the owner only.
const MODE: u32 = 0o600;

/// A completely received snapshot database that is not synced yet.
#[derive(Debug)]
#[must_use = "dropping it removes the file"]
pub struct UnsyncedDb<'a>(ReceivedDb<'a>);

impl<'a> UnsyncedDb<'a> {
    /// Syncs the file.
    pub fn sync(self) -> Result<ReceivedDb<'a>, SnapError> {
        let TempFile { path, file, .. } = &self.0.temp_file;
        file.sync_data().map_err(|e| DiskError::new("sync", path, e))?;
        Ok(self.0)
    }
}

/// A durable snapshot database under a temporary name.
#[derive(Debug)]
#[must_use = "dropping it removes the file"]
pub struct ReceivedDb<'a> {
    to: &'a Snapshotter,
    temp_file: TempFile<'a>,
    bytes: u64,
}

impl ReceivedDb<'_> {
    /// Path of the temporary file.
    pub fn path(&self) -> &Path {
        &self.temp_file.path
    }

    /// Size of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Durably renames the file to its final name, which must be free: see
    /// [`Snapshotter::find_db`].
    pub fn keep(self, index: u64) -> Result<(), SnapError> {
        let ReceivedDb { to, temp_file, bytes } = self;
        let path = to.db_path(index);
        temp_file.rename(&path).map_err(|e| DiskError::new("rename to", &path, e))?;
        failpoint!("snapDBRenameBeforeDirSync");
        to.sync_dir().inspect_err(|_| to.try_remove(&path))?;
        tracing::info!(file = %path.display(), bytes, "saved a database snapshot");
        Ok(())
    }
}

impl Snapshotter {
    /// Receives a snapshot database into a temporary file.
    pub fn receive_db(&self, image: &mut dyn Read) -> Result<UnsyncedDb<'_>, SnapError> {
        let temp_file = self.create(MODE)?;
        let bytes = copy(image, &temp_file)?;
        Ok(UnsyncedDb(ReceivedDb { to: self, temp_file, bytes }))
    }

    /// Finds the snapshot database with this index, if there is one, and makes sure that its name
    /// survives a power cut. Its data was synced before it got the name.
    pub fn find_durable_db(&self, index: u64) -> Result<Option<PathBuf>, SnapError> {
        match self.find_db(index) {
            // The process that renamed the file may have been killed before it synced the
            // directory.
            Ok(path) => self.sync_dir().map(|()| Some(path)),
            Err(SnapError::NoDatabase { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds the snapshot database with this index.
    pub fn find_db(&self, index: u64) -> Result<PathBuf, SnapError> {
        let path = self.db_path(index);
        match self.disk.kind(&path).map_err(|e| DiskError::new("stat", &path, e))? {
            Some(_) => Ok(path),
            None => Err(SnapError::NoDatabase { file: path }),
        }
    }

    /// Removes the snapshot database with this index.
    pub fn remove_db(&self, index: u64) {
        self.try_remove(&self.db_path(index));
    }

    /// Removes the snapshot databases before an index, which a snapshot at that index superseded.
    pub fn release_dbs(&self, index: u64) -> Result<(), SnapError> {
        for name in self.names(DB_SUFFIX)? {
            let old = name.strip_suffix(DB_SUFFIX).and_then(hex16).is_some_and(|of| of < index);
            if old {
                tracing::info!(file = name, "removed an old database snapshot");
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    fn db_path(&self, index: u64) -> PathBuf {
        self.dir.join(format!("{index:016x}{DB_SUFFIX}"))
    }

    fn sync_dir(&self) -> Result<(), SnapError> {
        failpoint!("snapDBDirSyncError", |text| {
            let error = io::Error::other(text);
            return Err(DiskError::new("sync", &self.dir, error).into());
        });
        Ok(self.disk.sync_dir(&self.dir).map_err(|e| DiskError::new("sync", &self.dir, e))?)
    }
}

/// Copies a stream to a file. Returns the number of bytes.
fn copy(image: &mut dyn Read, to: &TempFile<'_>) -> Result<u64, SnapError> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut bytes = 0;
    loop {
        let n = match image.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(SnapError::Source { file: to.path.clone(), source }),
        };
        to.file.write_at(&buffer[..n], bytes).map_err(|e| DiskError::new("write", &to.path, e))?;
        bytes += n as u64;
    }
}
