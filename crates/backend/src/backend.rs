//! The backend: the bolt file, its layers, and the synchronization of writers and commits.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Disk};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use types::{Index, Term};

use crate::batch::{BatchSize, Sequence, TxChanges};
use crate::commit::{CommitObserver, CommitReport, Committer, ObserverSlot};
use crate::config::Config;
use crate::error::{CloseError, CommitError, DefragmentError, OpenError, SnapshotError};
use crate::layers::{BackendView, Layers};
use crate::schema::{Bucket, meta};
use crate::tx::Tx;

/// An open database. Clones are handles to the same database.
#[derive(Clone, Debug)]
pub struct Backend {
    pub(crate) shared: Arc<BackendShared>,
}

/// State shared by all handles. Lock order: `writer`, `committing`, `layers`, a batch, `progress`.
#[derive(Debug)]
pub(crate) struct BackendShared {
    pub(crate) db: bolt::Db,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    /// Held by the open transaction; the applied index and term of the last one.
    writer: Mutex<AppliedPosition>,
    /// Held while a batch is frozen and written to the file.
    pub(crate) committing: Mutex<()>,
    /// Read-locked while a transaction is merged, and write-locked while the layers are replaced,
    /// so that a batch is never frozen in the middle of a transaction. Otherwise locked only while
    /// the `Arc` is cloned.
    pub(crate) layers: RwLock<Arc<Layers>>,
    pub(crate) progress: Mutex<CommitProgress>,
    /// Wakes the commit thread.
    pub(crate) wake: Condvar,
    /// Wakes waiters for a commit or its failure.
    pub(crate) commit_done: Condvar,
    pub(crate) observers: ObserverSlot,
}

/// The last log entry that was applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppliedPosition {
    pub(crate) index: Index,
    pub(crate) term: Term,
}

/// Progress of writes and commits.
#[derive(Debug, Default)]
pub(crate) struct CommitProgress {
    /// The last transaction.
    pub(crate) newest: Sequence,
    /// The last durable transaction.
    pub(crate) durable: Sequence,
    pub(crate) active: BatchSize,
    /// Time of the first transaction in the active batch; `None` if it is empty.
    pub(crate) since: Option<Duration>,
    pub(crate) frozen: BatchSize,
    /// The failure after which no writes are accepted.
    pub(crate) poisoned: Option<Arc<str>>,
    pub(crate) commits: u64,
    pub(crate) commit_time: Duration,
    pub(crate) last: Option<CommitReport>,
    pub(crate) scrubs: u64,
    pub(crate) corrupt_pages: usize,
}

/// Statistics of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Commits since the database was opened.
    pub commits: u64,
    /// Total duration of the commits.
    pub commit_time: Duration,
    /// The last commit.
    pub last: Option<CommitReport>,
    /// Writes that are not in the file yet.
    pub pending: BatchSize,
    /// Completed passes of the background scrub.
    pub scrubs: u64,
    /// Corrupt pages found by the last pass.
    pub corrupt_pages: usize,
}

impl Backend {
    /// Opens a file, or creates it, with the bucket [`Bucket::Meta`], which every file has. The
    /// parent directory must exist durably ([`create_dir_all_durably`](trait@env::Disk)).
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        path: &Path,
        config: Config,
    ) -> Result<Backend, OpenError> {
        let db = bolt::Db::open(disk, &*clock, path, config.bolt.clone())?;
        if !config.bolt.read_only {
            create_meta(&db)?;
        }
        let snapshot = db.snapshot();
        let (index, term) = meta::applied(&BackendView::of_file(snapshot.clone()))?;
        let shared = BackendShared {
            db,
            clock,
            config,
            writer: Mutex::new(AppliedPosition { index, term }),
            committing: Mutex::new(()),
            layers: RwLock::new(Arc::new(Layers::new(snapshot))),
            progress: Mutex::default(),
            wake: Condvar::new(),
            commit_done: Condvar::new(),
            observers: ObserverSlot::default(),
        };
        Ok(Backend { shared: Arc::new(shared) })
    }

    /// Returns a view of the current state.
    #[must_use]
    pub fn view(&self) -> BackendView {
        BackendView::new(self.shared.layers())
    }

    /// Begins a transaction. Blocks while another one is open.
    #[must_use]
    pub fn begin(&self) -> Tx<'_> {
        let writer = self.shared.writer.lock();
        Tx::new(&self.shared, writer)
    }

    /// Creates missing buckets in one transaction.
    pub fn create_buckets(&self, buckets: &[Bucket]) -> Result<Sequence, CommitError> {
        let mut tx = self.begin();
        for bucket in buckets {
            tx.create_bucket(*bucket);
        }
        tx.commit()
    }

    /// Makes everything committed so far durable.
    pub fn force_commit(&self) -> Result<(), CommitError> {
        let newest = self.shared.progress().newest;
        self.committer().commit_until(|progress| progress.durable >= newest)
    }

    /// The last durable transaction.
    #[must_use]
    pub fn durable(&self) -> Sequence {
        self.shared.progress().durable
    }

    /// Waits until a transaction is durable. A commit must come from elsewhere: a
    /// [`CommitThread`](crate::CommitThread) commits within the batch interval. Returns an error if
    /// no commit will succeed any more, so this also reports failures of the background thread.
    pub fn wait_durable(&self, sequence: Sequence) -> Result<(), CommitError> {
        let mut progress = self.shared.progress();
        while progress.check()?.durable < sequence {
            self.shared.commit_done.wait(&mut progress);
        }
        Ok(())
    }

    /// The failure after which no writes are accepted, if any.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.progress().poisoned.clone()
    }

    /// Returns a committer, which writes batches to the file. It must be run by a
    /// [`CommitThread`](crate::CommitThread) or by a scheduler.
    #[must_use]
    pub fn committer(&self) -> Committer {
        Committer::new(Arc::clone(&self.shared))
    }

    /// Registers a callback that runs after each commit, of the commit thread or of a writer that
    /// could not wait. Only the first registration counts.
    pub fn observe_commits(&self, observer: CommitObserver) {
        self.shared.observers.set(observer);
    }

    /// Commits pending writes, saves the page checksums, and closes the file. Requires that threads
    /// are stopped and other handles dropped.
    pub fn close(self) -> Result<(), CloseError> {
        self.force_commit()?;
        match Arc::try_unwrap(self.shared) {
            Ok(BackendShared { db, .. }) => Ok(db.close()?),
            Err(_others) => Err(CloseError::InUse),
        }
    }

    /// Returns statistics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let progress = self.shared.progress();
        let CommitProgress { commits, commit_time, last, scrubs, corrupt_pages, .. } = *progress;
        Stats { commits, commit_time, last, pending: progress.pending(), scrubs, corrupt_pages }
    }

    /// Bytes of all pages below the file's high water mark: the size that etcd reports and compares
    /// with its quota.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shared.layers().snapshot.size()
    }

    /// Bytes of the pages in use.
    #[must_use]
    pub fn size_in_use(&self) -> u64 {
        self.shared.db.snapshot().size_in_use()
    }

    /// Commits pending writes and returns a snapshot of the file.
    pub fn snapshot(&self) -> Result<bolt::Snapshot, CommitError> {
        self.force_commit()?;
        Ok(self.shared.db.snapshot())
    }

    /// Commits pending writes and copies the file. Returns its size. Blocks neither readers nor
    /// writers.
    pub fn snapshot_to(&self, to: &mut dyn Write) -> Result<u64, SnapshotError> {
        Ok(self.snapshot()?.write_to(to)?)
    }

    /// Commits pending writes and rewrites the file without its free pages. Transactions, commits
    /// and reads continue meanwhile.
    pub fn defragment(&self) -> Result<bolt::DefragReport, DefragmentError> {
        self.force_commit()?;
        let shared = &*self.shared;
        let report = shared.db.defragment(&*shared.clock).inspect_err(|error| {
            if let bolt::DefragError::RenameNotDurable { .. } = error {
                shared.poison(error.to_string());
            }
        })?;
        crate::commit::refresh(shared);
        shared.db.reclaim_space();
        tracing::info!(
            before = report.size_before,
            after = report.size_after,
            "defragmented the database"
        );
        Ok(report)
    }

    /// Announces that another file is about to replace this one. Cancels a running defragmentation
    /// and refuses new ones, which would put this file back.
    pub fn mark_replaced(&self) {
        self.shared.db.mark_replaced();
    }

    /// Starts comparing the pages of the file with their checksums, in steps. Returns `None` if no
    /// checksums are kept.
    #[must_use]
    pub fn scrub(&self) -> Option<bolt::Scrub<'_>> {
        self.shared.db.scrub()
    }
}

impl BackendShared {
    /// Refuses all further writes.
    pub(crate) fn poison(&self, cause: String) {
        self.progress().poisoned = Some(cause.into());
        self.commit_done.notify_all();
        self.wake.notify_all();
    }

    pub(crate) fn layers(&self) -> Arc<Layers> {
        Arc::clone(&self.layers.read())
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, CommitProgress> {
        self.progress.lock()
    }

    /// Merges a transaction into the active batch. The caller holds `writer`.
    pub(crate) fn merge(&self, changes: TxChanges) -> Result<Sequence, CommitError> {
        if self.config.bolt.read_only {
            return Err(bolt::CommitError::ReadOnly(self.db.path().to_path_buf()).into());
        }
        if changes.is_empty() {
            return self.progress().check().map(|progress| progress.newest);
        }
        self.wait_for_room(changes.load.bytes)?;
        let now = self.clock.monotonic();
        // Held until the merge is complete, so that the batch is not frozen before.
        let layers = self.layers.read();
        let mut batch = layers.active.write();
        let sequence = Sequence(batch.newest.0 + 1);
        batch.merge(changes, sequence, now);
        self.note_merged(sequence, batch.load, now);
        Ok(sequence)
    }

    /// Waits until a transaction fits the limit of pending bytes: for the running commit and, if
    /// that is not enough, for another one, which it runs itself. So the limit holds with or
    /// without a commit thread.
    fn wait_for_room(&self, bytes: usize) -> Result<(), CommitError> {
        let has_room = |progress: &CommitProgress| {
            let pending = progress.pending().bytes;
            pending == 0 || pending + bytes <= self.config.pending_bytes_max
        };
        if has_room(self.progress().check()?) {
            return Ok(());
        }
        crate::commit::commit_until(self, has_room)
    }

    fn note_merged(&self, sequence: Sequence, load: BatchSize, now: Duration) {
        let mut progress = self.progress();
        let (was_empty, was_full) = (progress.since.is_none(), self.is_full(progress.active));
        progress.newest = sequence;
        progress.active = load;
        progress.since.get_or_insert(now);
        // The commit thread sleeps until a batch is non-empty, and then until it is due.
        if was_empty || (self.is_full(load) && !was_full) {
            self.wake.notify_one();
        }
    }

    /// Reports whether a batch should be committed at once.
    fn is_full(&self, load: BatchSize) -> bool {
        load.ops >= self.config.batch_ops || load.bytes >= self.config.batch_bytes
    }

    /// The time at which the active batch is due; `None` if it is empty or no commits are possible.
    pub(crate) fn due_at(&self, progress: &CommitProgress) -> Option<Duration> {
        let since = progress.since.filter(|_| progress.poisoned.is_none())?;
        let wait =
            if self.is_full(progress.active) { Duration::ZERO } else { self.config.batch_interval };
        Some(since + wait)
    }
}

impl CommitProgress {
    /// Writes that are not in the file yet.
    pub(crate) fn pending(&self) -> BatchSize {
        let mut pending = self.active;
        pending += self.frozen;
        pending
    }

    /// Fails if no writes are accepted any more.
    pub(crate) fn check(&self) -> Result<&CommitProgress, CommitError> {
        match &self.poisoned {
            Some(cause) => Err(CommitError::Poisoned(Arc::clone(cause))),
            None => Ok(self),
        }
    }
}

/// Creates the bucket `meta`, unless the file has it.
fn create_meta(db: &bolt::Db) -> Result<(), CommitError> {
    let name = Bucket::Meta.name().as_bytes();
    let failed = |source| CommitError::Bucket { bucket: Bucket::Meta, source };
    if db.snapshot().bucket(name).map_err(|corrupt| failed(corrupt.into()))?.is_some() {
        return Ok(());
    }
    let mut tx = db.write()?;
    tx.create_bucket_if_missing(name).map_err(failed)?;
    tx.commit()?;
    Ok(())
}
