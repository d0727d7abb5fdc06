//! The database: the file that is open, its newest state, and the one who may change it.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use env::{Clock, Disk, File};

use crate::checksums::Checksums;
use crate::defrag::Retired;
use crate::error::{CommitError, OpenError};
use crate::freelist::Freelist;
use crate::meta::Meta;
use crate::node::Arena;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::write::WriteTx;

/// The file grows by so much more than it needs.
pub const GROW_BYTES_DEFAULT: u64 = 16 << 20;

/// How a database is opened. The default is what etcd does on Linux.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only to read, along with others who do.
    pub read_only: bool,
    /// How long to wait for whoever has the file open; forever if not said, as in bbolt.
    pub lock_timeout: Option<Duration>,
    /// The page size of a file that has to be made. One that exists has its own.
    pub page_size: usize,
    /// Whether the list of free pages is saved with each commit.
    pub sync_freelist: bool,
    /// How much more than needed the file grows by.
    pub grow_bytes: u64,
    /// Whether a checksum of each page is kept beside the file, for [`Db::scrub`].
    pub checksums: bool,
    /// Whether commits wait for the disk. If not, a power cut may leave a file that is no database any more.
    pub sync: bool,
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
        }
    }
}

/// An open database. Share it by reference or `Arc`: reading needs no more, and writers take turns.
#[derive(Debug)]
pub struct Db {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: Arc<Path>,
    options: Options,
    /// What readers get. Locked for as long as it takes to clone a pointer.
    current: RwLock<Arc<State>>,
    pub(crate) writer: Mutex<Writer>,
    /// Held by whoever defragments.
    pub(crate) defrag: Mutex<()>,
    pub(crate) checksums: Option<Checksums>,
    /// What was wrong with a meta page, if the other one had to do.
    fell_back: Option<&'static str>,
}

/// What was found when a file was opened.
pub(crate) struct Parts {
    pub(crate) state: State,
    pub(crate) freelist: Freelist,
    pub(crate) file_len: u64,
    pub(crate) checksums: Option<Checksums>,
    pub(crate) fell_back: Option<&'static str>,
    /// Nothing is synced: for a file that is thrown away if it does not get finished.
    pub(crate) unsynced: bool,
}

/// What only the one who writes may touch.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) file: Arc<dyn File>,
    pub(crate) file_len: u64,
    pub(crate) freelist: Freelist,
    /// States that were replaced, oldest first, for as long as somebody reads them.
    pub(crate) replaced: VecDeque<(u64, Weak<State>)>,
    /// Reused from commit to commit.
    pub(crate) buffer: Vec<u8>,
    /// Likewise.
    pub(crate) arena: Arena,
    pub(crate) unsynced: bool,
    /// Why nothing is written any more.
    poisoned: Option<Arc<str>>,
    /// Files that defragmentation replaced.
    pub(crate) retired: Vec<Retired>,
    /// Whether another file is to have the name, or has it.
    pub(crate) is_replaced: bool,
}

impl Db {
    /// Opens a file, or makes it.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: &dyn Clock,
        path: &Path,
        options: Options,
    ) -> Result<Db, OpenError> {
        crate::open::open(disk, clock, path, options)
    }

    pub(crate) fn assemble(disk: Arc<dyn Disk>, options: Options, parts: Parts) -> Db {
        let Parts { state, freelist, file_len, checksums, fell_back, unsynced } = parts;
        let writer = Writer {
            file: Arc::clone(&state.file),
            file_len,
            freelist,
            replaced: VecDeque::new(),
            buffer: Vec::new(),
            arena: Arena::default(),
            unsynced,
            poisoned: None,
            retired: Vec::new(),
            is_replaced: false,
        };
        let path = Arc::clone(&state.path);
        let (current, writer) = (RwLock::new(Arc::new(state)), Mutex::new(writer));
        let defrag = Mutex::new(());
        Db { disk, path, options, current, writer, defrag, checksums, fell_back }
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it was opened.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// If one of the meta pages was unusable when the file was opened: what was wrong with it. If that was the newer one, the last
    /// commit is lost, and the one before was taken.
    pub fn fell_back(&self) -> Option<&'static str> {
        self.fell_back
    }

    /// The newest state, to read for as long as one likes. The pages it needs are not reused meanwhile.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.state())
    }

    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to write, once whoever is writing has finished.
    pub fn write(&self) -> Result<WriteTx<'_>, CommitError> {
        let writer = self.lock_writer()?;
        Ok(WriteTx::new(self, writer, self.state()))
    }

    pub(crate) fn lock_writer(&self) -> Result<std::sync::MutexGuard<'_, Writer>, CommitError> {
        if self.options.read_only {
            return Err(CommitError::ReadOnly(self.path.to_path_buf()));
        }
        // A transaction that panicked has changed nothing but its own memory, unless it was in `commit`.
        let writer =
            self.writer.lock().map_err(|_| self.poisoned("a transaction panicked".into()))?;
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

    /// Saves the checksums, if it keeps any, and lets go of the file, which stays locked for as long as a [`Snapshot`] of it lives.
    /// Without this they are learned anew next time; nothing else is lost, as every commit is durable by itself.
    pub fn close(self) -> io::Result<()> {
        let healthy = self.lock_writer().is_ok();
        match &self.checksums {
            Some(checksums) if healthy => checksums.save(&*self.disk, &self.state()),
            _ => Ok(()),
        }
    }

    /// Shows readers the state that was just made durable.
    pub(crate) fn publish(&self, writer: &mut Writer, meta: Meta) -> io::Result<()> {
        let old = self.state();
        // SAFETY: see `open::map`.
        #[expect(unsafe_code, reason = "reading a map needs a promise about writers")]
        let map = unsafe { writer.file.map(writer.file_len, Some(&old.map)) }?;
        let file = Arc::clone(&writer.file);
        let free_pages = writer.freelist.unused();
        let state = State { meta, map, file, path: Arc::clone(&self.path), free_pages };
        writer.replaced.push_back((old.meta.txid, Arc::downgrade(&old)));
        self.replace(state);
        Ok(())
    }

    /// Makes a state the one that readers get.
    pub(crate) fn replace(&self, state: State) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }
}

impl Writer {
    /// Frees what no state that is read, and neither meta page, still needs. `newest` is the last committed transaction.
    pub(crate) fn release_pages(&mut self, newest: u64) {
        self.replaced.retain(|(_, state)| state.strong_count() > 0);
        // Whoever dropped a state has read the last of it before that.
        fence(Ordering::Acquire);
        let readers: Vec<u64> = self.replaced.iter().map(|(txid, _)| *txid).collect();
        // The meta page before the newest leads to a state that needs what the newest transaction gave up.
        self.freelist.release(newest.saturating_sub(1), &readers);
    }

    pub(crate) fn poison(&mut self, cause: &CommitError) {
        tracing::error!(%cause, "commit failed; no more writes until the file is opened again");
        self.poisoned = Some(cause.to_string().into());
    }
}
