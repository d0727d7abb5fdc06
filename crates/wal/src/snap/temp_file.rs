//! Temporary files with unique names.
//!
//! ```text
//! tmp0000000000000007   a `.snap` being written             only its creator renames
//! tmp0000000000000008   a snapshot database being received  or removes it
//! ```
//!
//! Several may exist at once, of one [`Snapshotter`] or of more. A file is created only under an
//! unused name, so no two writers share a file, and a file left by an earlier process is skipped.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use env::{Create, File, Open};

use super::{Snapshotter, TMP_PREFIX};
use crate::error::DiskError;

/// A temporary file. Dropping it removes it, unless it was renamed.
#[derive(Debug)]
pub(super) struct TempFile<'a> {
    snapshotter: &'a Snapshotter,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    is_named: bool,
}

impl Snapshotter {
    /// Creates a temporary file with a unique name.
    pub(super) fn create(&self, mode: u32) -> Result<TempFile<'_>, DiskError> {
        let how = Open { mode, ..Open::create(Create::New) };
        loop {
            let number = self.counter.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("{TMP_PREFIX}{number:016x}"));
            match self.disk.open(&path, how) {
                Ok(file) => {
                    return Ok(TempFile { snapshotter: self, path, file, is_named: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(DiskError::new("create", &path, error)),
            }
        }
    }
}

impl TempFile<'_> {
    /// Renames the file, replacing an existing one.
    pub(super) fn rename(mut self, to: &Path) -> io::Result<()> {
        self.snapshotter.disk.rename(&self.path, to)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            self.snapshotter.try_remove(&self.path);
        }
    }
}
