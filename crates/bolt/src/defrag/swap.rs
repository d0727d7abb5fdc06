//! Replacing the old file with the copy, and keeping the old file until its readers are dropped.

use std::io;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use env::{File, parent};
use failpoint::failpoint;

use crate::db::{Db, WriterState};
use crate::defrag::DefragError;
use crate::defrag::copy::CopyTarget;
use crate::state::CommittedState;

/// Maximum number of replaced files whose lock is kept. A process still waiting for the lock of an
/// older one gets a file without a name.
const REPLACED_MAX: usize = 64;

impl Db {
    /// Renames the copy to the database path and switches readers and the writer to it.
    pub(super) fn swap(
        &self,
        writer: &mut WriterState,
        copy: &CopyTarget,
        new: CommittedState,
        swapped: &mut bool,
    ) -> Result<(), DefragError> {
        failpoint!("defragBeforeRename");
        if let Err(error) = self.disk.rename(&copy.db.path, &self.path) {
            // The rename may have happened despite the error.
            match new.file.is_at(&self.path) {
                Ok(false) => return Err(copy.error("rename", error)),
                Ok(true) => {}
                Err(_) => return Err(self.rename_not_durable(writer, error)),
            }
        }
        // From here on the path denotes the new file, so everything must switch to it.
        *swapped = true;
        let (freelist, file_len) = copy.take_writer_state();
        let old_file = std::mem::replace(&mut writer.file, Arc::clone(&new.file));
        writer.file_len = file_len;
        writer.freelist = freelist;
        let mut readers: Vec<Weak<CommittedState>> =
            writer.replaced.drain(..).map(|(_, state)| state).collect();
        readers.push(Arc::downgrade(&self.state()));
        writer.keep_replaced(ReplacedFile { file: old_file, readers });
        if let (Some(ours), Some(theirs)) = (&self.checksums, &copy.db.checksums) {
            ours.take_over(theirs);
        }
        self.replace(new);
        let synced = self.disk.sync_dir(parent(&self.path));
        synced.map_err(|error| self.rename_not_durable(writer, error))
    }

    /// Refuses all further writes: commits to either file could be lost in a power cut.
    fn rename_not_durable(&self, writer: &mut WriterState, error: io::Error) -> DefragError {
        let copy = io::Error::new(error.kind(), error.to_string());
        writer.poison(&self.commit_error("defragment", copy));
        DefragError::RenameNotDurable { path: self.path.to_path_buf(), error }
    }
}

/// A file that was replaced. Its lock is kept, so that a process waiting for it cannot acquire it
/// while this one runs.
#[derive(Debug)]
pub(crate) struct ReplacedFile {
    file: Arc<dyn File>,
    /// States that may still have readers. Empty once the space was reclaimed.
    readers: Vec<Weak<CommittedState>>,
}

impl WriterState {
    fn keep_replaced(&mut self, file: ReplacedFile) {
        self.replaced_files.push(file);
        if self.replaced_files.len() > REPLACED_MAX {
            self.replaced_files.remove(0);
        }
    }

    /// Returns the replaced files that have no readers left, each only once.
    pub(super) fn take_unread(&mut self) -> Vec<Arc<dyn File>> {
        let unread = |replaced: &&mut ReplacedFile| {
            !replaced.readers.is_empty()
                && replaced.readers.iter().all(|state| state.strong_count() == 0)
        };
        let files = self.replaced_files.iter_mut().filter(unread).map(|replaced| {
            replaced.readers.clear();
            Arc::clone(&replaced.file)
        });
        let files = files.collect();
        // Pairs with the release on drop: all reads of a dropped state happened before.
        fence(Ordering::Acquire);
        files
    }
}
