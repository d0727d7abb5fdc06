//! Database images that come from the leader.
//!
//! ```text
//!   receive_db   tmp0000000000000008       what has come       Copied
//!   sync                                   on the disk         Received   looked at by whoever knows databases
//!   keep         00000000000012c0.snap.db  and of that name
//! ```
//!
//! Whatever fails on the way, or is dropped, is gone: only an image that somebody vouched for gets a name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::unnamed::Unnamed;
use super::{DB_SUFFIX, SnapError, Snapshotter};
use crate::error::Failure;
use crate::segment::hex16;

/// How much of an image is held in memory.
const COPY_BYTES: usize = 1 << 20;

/// As etcd creates them: for nobody else to read.
const MODE: u32 = 0o600;

/// A database image that has come to its end, and may not be on the disk yet.
#[derive(Debug)]
#[must_use = "it is removed when it is dropped"]
pub struct Copied<'a>(Received<'a>);

impl<'a> Copied<'a> {
    /// Has it on the disk.
    pub fn sync(self) -> Result<Received<'a>, SnapError> {
        let Unnamed { path, file, .. } = &self.0.unnamed;
        file.sync_data().map_err(|e| Failure::new("sync", path, e))?;
        Ok(self.0)
    }
}

/// A database image that is on the disk and has no name yet.
#[derive(Debug)]
#[must_use = "it is removed when it is dropped"]
pub struct Received<'a> {
    to: &'a Snapshotter,
    unnamed: Unnamed<'a>,
    bytes: u64,
}

impl Received<'_> {
    /// Where it is meanwhile.
    pub fn path(&self) -> &Path {
        &self.unnamed.path
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives it its name, durably. The caller has made sure that nothing has that: see [`Snapshotter::find_db`].
    pub fn keep(self, index: u64) -> Result<(), SnapError> {
        let Received { to, unnamed, bytes } = self;
        let path = to.db_path(index);
        unnamed.rename(&path).map_err(|e| Failure::new("rename to", &path, e))?;
        to.sync_names().inspect_err(|_| to.try_remove(&path))?;
        tracing::info!(file = %path.display(), bytes, "saved a database snapshot");
        Ok(())
    }
}

impl Snapshotter {
    /// Takes in a database image.
    pub fn receive_db(&self, image: &mut dyn Read) -> Result<Copied<'_>, SnapError> {
        let unnamed = self.create(MODE)?;
        let bytes = copy(image, &unnamed)?;
        Ok(Copied(Received { to: self, unnamed, bytes }))
    }

    /// The database image with this index, if there is one. It is durable then: it was synced before it had its name, and is found
    /// after a power cut from now on.
    pub fn find_durable_db(&self, index: u64) -> Result<Option<PathBuf>, SnapError> {
        match self.find_db(index) {
            // Whoever gave it the name may have been killed before the name was on the disk.
            Ok(path) => self.sync_names().map(|()| Some(path)),
            Err(SnapError::NoDatabase { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The database image with this index.
    pub fn find_db(&self, index: u64) -> Result<PathBuf, SnapError> {
        let path = self.db_path(index);
        match self.disk.kind(&path).map_err(|e| Failure::new("look for", &path, e))? {
            Some(_) => Ok(path),
            None => Err(SnapError::NoDatabase { file: path }),
        }
    }

    /// Removes the database image with this index, for whoever has kept it and does not need it.
    pub fn remove_db(&self, index: u64) {
        self.try_remove(&self.db_path(index));
    }

    /// Removes the database images before an index: what a snapshot there made superfluous.
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

    fn sync_names(&self) -> Result<(), SnapError> {
        Ok(self.disk.sync_dir(&self.dir).map_err(|e| Failure::new("sync", &self.dir, e))?)
    }
}

/// Copies what comes into a file. Returns how many bytes that were.
fn copy(image: &mut dyn Read, to: &Unnamed<'_>) -> Result<u64, SnapError> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut bytes = 0;
    loop {
        let n = match image.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(SnapError::Source { file: to.path.clone(), source }),
        };
        to.file.write_at(&buffer[..n], bytes).map_err(|e| Failure::new("write", &to.path, e))?;
        bytes += n as u64;
    }
}
