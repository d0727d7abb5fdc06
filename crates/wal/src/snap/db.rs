//! Database images that come from the leader.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use env::{Create, Open};

use super::{DB_SUFFIX, SnapError, Snapshotter};
use crate::error::Failure;
use crate::segment::hex16;

/// How much of an image is held in memory.
const COPY_BYTES: usize = 1 << 20;

impl Snapshotter {
    /// Saves a database image, durably, and tells its length. If there is one with this index already, it stays, and is
    /// durable afterwards too.
    pub fn save_db(&self, image: &mut dyn Read, index: u64) -> Result<u64, SnapError> {
        let tmp = self.tmp_path();
        let len = self.receive(image, &tmp).inspect_err(|_| self.try_remove(&tmp))?;
        let path = self.db_path(index);
        let failed = |e| {
            self.try_remove(&tmp);
            SnapError::Disk(Failure::new("rename to", &path, e))
        };
        if self.disk.kind(&path).map_err(failed)?.is_some() {
            self.try_remove(&tmp);
        } else {
            self.disk.rename(&tmp, &path).map_err(failed)?;
        }
        // An image that was there was synced before it had its name; whoever gave it the name may have failed, or been
        // killed, before this.
        self.disk.sync_dir(&self.dir).map_err(|e| Failure::new("sync", &self.dir, e))?;
        tracing::info!(file = %path.display(), bytes = len, "saved a database snapshot");
        Ok(len)
    }

    /// The database image with this index.
    pub fn find_db(&self, index: u64) -> Result<PathBuf, SnapError> {
        let path = self.db_path(index);
        match self.disk.kind(&path).map_err(|e| Failure::new("look for", &path, e))? {
            Some(_) => Ok(path),
            None => Err(SnapError::NoDatabase { file: path }),
        }
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

    /// Copies what comes into a file, and makes it durable.
    fn receive(&self, image: &mut dyn Read, path: &Path) -> Result<u64, SnapError> {
        let failed = |what| move |e| SnapError::Disk(Failure::new(what, path, e));
        let how = Open::create(Create::Truncate);
        let file = self.disk.open(path, how).map_err(failed("create"))?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut len = 0;
        loop {
            let n = match image.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(SnapError::Source { file: path.to_owned(), source }),
            };
            file.write_at(&buffer[..n], len).map_err(failed("write"))?;
            len += n as u64;
        }
        file.sync_data().map_err(failed("sync"))?;
        Ok(len)
    }
}
