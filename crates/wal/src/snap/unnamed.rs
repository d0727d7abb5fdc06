//! Files on their way, under names that nobody else uses.
//!
//! ```text
//! tmp0000000000000007   a `.snap` that is being written      whoever made it gives it its name,
//! tmp0000000000000008   an image that is being received      or removes it: nobody else does either
//! ```
//!
//! Several may be on their way at once, of one [`Snapshotter`] or of more. A name is taken only where nothing has it, so no two
//! ever write to the same file; and one that an earlier process left behind is passed over.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use env::{Create, File, Open};

use super::{Snapshotter, TMP_PREFIX};
use crate::error::Failure;

/// A file on its way. Dropped without a name, it is removed.
#[derive(Debug)]
pub(super) struct Unnamed<'a> {
    snapshotter: &'a Snapshotter,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    is_named: bool,
}

impl Snapshotter {
    /// Makes a file of its own.
    pub(super) fn create(&self, mode: u32) -> Result<Unnamed<'_>, Failure> {
        let how = Open { mode, ..Open::create(Create::New) };
        loop {
            let number = self.counter.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("{TMP_PREFIX}{number:016x}"));
            match self.disk.open(&path, how) {
                Ok(file) => {
                    return Ok(Unnamed { snapshotter: self, path, file, is_named: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::new("create", &path, error)),
            }
        }
    }
}

impl Unnamed<'_> {
    /// Gives it its name, in place of whatever has it.
    pub(super) fn rename(mut self, to: &Path) -> io::Result<()> {
        self.snapshotter.disk.rename(&self.path, to)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            self.snapshotter.try_remove(&self.path);
        }
    }
}
