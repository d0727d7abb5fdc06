//! The database: an open file, its newest committed state, and the writer.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Duration;

use env::{Clock, Disk, File, Map};
use parking_lot::{Mutex, RwLock};

use crate::checksums::Checksums;
use crate::defrag::ReplacedFile;
use crate::error::{CommitError, OpenError};
use crate::freelist::Freelist;
use crate::meta::Meta;
use crate::node::Arena;
use crate::snapshot::Snapshot;
use crate::state::CommittedState;
use crate::write::WriteTx;

/// Default of [`Options::grow_bytes`]: 16 MiB.
pub const GROW_BYTES_DEFAULT: u64 = 16 << 20;

/// Options of [`Db::open`]. The defaults are etcd's on Linux.
#[derive(Clone, Debug)]
pub struct Options {
    /// Opens the file for reading under a shared lock.
    pub read_only: bool,
    /// Maximum time to wait for the file lock. `None` waits forever, as in bbolt.
    pub lock_timeout: Option<Duration>,
    /// Page size of a new file, in bytes. An existing file keeps its own.
    pub page_size: usize,
    /// Saves the freelist with each commit.
    pub sync_freelist: bool,
    /// Bytes by which the file grows beyond the needed size.
    pub grow_bytes: u64,
    /// Keeps a checksum per page in a sidecar file, for [`Db::scrub`].
    pub checksums: bool,
    /// Syncs each commit. Without it, a power cut may leave a file that cannot be opened.
    pub sync: bool,
    /// Locks the file in physical memory, so that reading it never waits for the disk.
    pub mlock: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            read_only: false,
            lock_timeout: None,
            page_size: 4096,
            sync_freelist: false,
            grow_bytes: GROW_BYTES_DEFAULT,
            checksums: false,
            sync: true,
            mlock: false,
        }
    }
}

/// An open database. Share it by reference or `Arc`. Readers never block; writers take turns.
#[derive(Debug)]
pub struct Db {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: Arc<Path>,
    options: Options,
    /// The newest committed state. Locked only while the `Arc` is cloned or replaced.
    current: RwLock<Arc<CommittedState>>,
    // A std mutex: poisoning records that a transaction panicked (see `lock_writer`).
    pub(crate) writer: std::sync::Mutex<WriterState>,
    /// Held during a defragmentation.
    pub(crate) defrag: Mutex<()>,
    pub(crate) checksums: Option<Checksums>,
    /// The error of the meta page that was unusable when the file was opened.
    fell_back: Option<&'static str>,
}

/// The parts of a [`Db`], collected while its file is opened.
pub(crate) struct DbParts {
    pub(crate) state: CommittedState,
    pub(crate) freelist: Freelist,
    pub(crate) file_len: u64,
    pub(crate) checksums: Option<Checksums>,
    pub(crate) fell_back: Option<&'static str>,
    /// Skips all syncs, for a temporary file that is discarded unless completed.
    pub(crate) unsynced: bool,
}

/// State of the single writer, protected by [`Db::writer`].
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) file: Arc<dyn File>,
    pub(crate) file_len: u64,
    pub(crate) freelist: Freelist,
    /// Replaced states that may still have readers, oldest first, with their txids.
    pub(crate) replaced: VecDeque<(u64, Weak<CommittedState>)>,
    /// Write buffer, reused by the next commit.
    pub(crate) buffer: Vec<u8>,
    /// Memory for keys and values, reused by the next transaction.
    pub(crate) arena: Arena,
    pub(crate) unsynced: bool,
    /// The error after which the file accepts no more writes.
    poisoned: Option<Arc<str>>,
    /// Files that were replaced by defragmentation.
    pub(crate) replaced_files: Vec<ReplacedFile>,
    /// The file at this path is, or is about to be, another one.
    pub(crate) is_replaced: bool,
}

impl Db {
    /// Opens a database file, or creates it.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: &dyn Clock,
        path: &Path,
        options: Options,
    ) -> Result<Db, OpenError> {
        crate::open::open(disk, clock, path, options)
    }

    pub(crate) fn assemble(disk: Arc<dyn Disk>, options: Options, parts: DbParts) -> Db {
        let DbParts { state, freelist, file_len, checksums, fell_back, unsynced } = parts;
        let writer = WriterState {
            file: Arc::clone(&state.file),
            file_len,
            freelist,
            replaced: VecDeque::new(),
            buffer: Vec::new(),
            arena: Arena::default(),
            unsynced,
            poisoned: None,
            replaced_files: Vec::new(),
            is_replaced: false,
        };
        let path = Arc::clone(&state.path);
        let (current, writer) = (RwLock::new(Arc::new(state)), std::sync::Mutex::new(writer));
        let defrag = Mutex::new(());
        Db { disk, path, options, current, writer, defrag, checksums, fell_back }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The options given to [`Db::open`].
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The error of the meta page that was unusable when the file was opened, if any. If that was
    /// the newer one, the last commit is lost and the database is at the one before.
    pub fn fell_back(&self) -> Option<&'static str> {
        self.fell_back
    }

    /// Returns the newest committed state. Its pages are not reused while the snapshot lives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.state())
    }

    pub(crate) fn state(&self) -> Arc<CommittedState> {
        Arc::clone(&self.current.read())
    }

    /// Begins a write transaction. Blocks while another one is open.
    pub fn write(&self) -> Result<WriteTx<'_>, CommitError> {
        let writer = self.lock_writer()?;
        Ok(WriteTx::new(self, writer, self.state()))
    }

    pub(crate) fn lock_writer(
        &self,
    ) -> Result<std::sync::MutexGuard<'_, WriterState>, CommitError> {
        if self.options.read_only {
            return Err(CommitError::ReadOnly(self.path.to_path_buf()));
        }
        // A panic poisons the lock. The panicked transaction changed only its own memory, unless it
        // was in `commit`.
        let writer =
            self.writer.lock().map_err(|_| self.poisoned("a write transaction panicked".into()))?;
        match &writer.poisoned {
            Some(cause) => Err(self.poisoned(Arc::clone(cause))),
            None => Ok(writer),
        }
    }

    fn poisoned(&self, cause: Arc<str>) -> CommitError {
        CommitError::Poisoned { path: self.path.to_path_buf(), cause }
    }

    pub(crate) fn commit_error(&self, action: &'static str, error: io::Error) -> CommitError {
        CommitError::Io { path: self.path.to_path_buf(), action, error: Arc::new(error) }
    }

    /// Saves the page checksums, if enabled, and releases the file. The file stays locked while a
    /// [`Snapshot`] of it lives. Without `close`, the next scrub computes the checksums again;
    /// nothing else is lost, because every commit is durable.
    pub fn close(self) -> io::Result<()> {
        let healthy = self.lock_writer().is_ok();
        match &self.checksums {
            Some(checksums) if healthy => checksums.save(&*self.disk, &self.state()),
            _ => Ok(()),
        }
    }

    /// Makes the state that was just committed visible to readers.
    pub(crate) fn publish(&self, writer: &mut WriterState, meta: Meta) -> io::Result<()> {
        let old = self.state();
        // SAFETY: see `open::map`.
        #[expect(unsafe_code, reason = "reading a map needs a promise about writers")]
        let map = unsafe { writer.file.map(writer.file_len, Some(&old.map)) }?;
        let file = Arc::clone(&writer.file);
        let free_pages = writer.freelist.unused();
        let state = CommittedState { meta, map, file, path: Arc::clone(&self.path), free_pages };
        writer.replaced.push_back((old.meta.txid, Arc::downgrade(&old)));
        self.replace(state);
        Ok(())
    }

    /// Replaces the state that readers get.
    pub(crate) fn replace(&self, state: CommittedState) {
        if self.options.mlock {
            self.lock_in_memory(&state.map);
        }
        *self.current.write() = Arc::new(state);
    }
}

impl Db {
    /// Locks a map that replaces the current one. If the system refuses, the database stays usable
    /// without the lock: all members reach the same size at about the same time and would otherwise
    /// stop together.
    fn lock_in_memory(&self, map: &Map) {
        let old = &self.state().map;
        let locked = if map.same_memory(old) {
            map.lock(old.len())
        } else {
            old.unlock();
            map.lock(0)
        };
        if let Err(error) = locked {
            tracing::error!(
                path = %self.path.display(),
                file_size = map.len(),
                %error,
                "mlock failed; pages of the database may be swapped out or dropped from memory"
            );
        }
    }
}

impl WriterState {
    /// Releases pending pages that neither a reader nor a meta page needs. `newest` is the txid of
    /// the last commit.
    pub(crate) fn release_pages(&mut self, newest: u64) {
        self.replaced.retain(|(_, state)| state.strong_count() > 0);
        // Pairs with the release on drop: all reads of a dropped state happened before.
        fence(Ordering::Acquire);
        let readers: Vec<u64> = self.replaced.iter().map(|(txid, _)| *txid).collect();
        // The older meta page leads to the previous state, which needs the pages freed by the
        // newest transaction.
        self.freelist.release(newest.saturating_sub(1), &readers);
    }

    pub(crate) fn poison(&mut self, cause: &CommitError) {
        tracing::error!(%cause, "commit failed; the database refuses writes until it is reopened");
        self.poisoned = Some(cause.to_string().into());
    }
}
