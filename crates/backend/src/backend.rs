//! The database: the file, its layers, and who waits for whom.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use env::{Clock, Disk};
use types::{Index, Term};

use crate::batch::{Changes, Load, Sequence};
use crate::commit::{Committed, Committer, Observer, Observers};
use crate::config::Config;
use crate::error::{CloseError, CommitError, DefragmentError, OpenError, SnapshotError};
use crate::layers::{Layers, View};
use crate::schema::{Bucket, meta};
use crate::tx::Tx;

/// An open database. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Backend {
    pub(crate) shared: Arc<Shared>,
}

/// What all handles share. Locks are taken in this order: `writer`, `committing`, `layers`, a batch, `progress`.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) db: bolt::Db,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    /// Held by the one transaction that is open; and the applied index as the last one left it.
    writer: Mutex<Applied>,
    /// Held while a batch is frozen and written to the file.
    pub(crate) committing: Mutex<()>,
    /// Locked to read while a transaction is merged, and to write while the layers are replaced: a batch is never
    /// frozen in the midst of a transaction. Otherwise only for as long as it takes to clone a pointer.
    pub(crate) layers: RwLock<Arc<Layers>>,
    pub(crate) progress: Mutex<Progress>,
    /// Wakes the thread that commits.
    pub(crate) wake: Condvar,
    /// Wakes those who wait for a commit, or for its failure.
    pub(crate) moved: Condvar,
    pub(crate) observers: Observers,
}

/// The last entry of the log that was applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied {
    pub(crate) index: Index,
    pub(crate) term: Term,
}

/// How far writing and committing are.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The last transaction.
    pub(crate) newest: Sequence,
    /// The last transaction that is in the file.
    pub(crate) durable: Sequence,
    pub(crate) active: Load,
    /// When the first transaction came into the active batch; none if it is empty.
    pub(crate) since: Option<Duration>,
    pub(crate) frozen: Load,
    /// Why nothing is accepted any more.
    pub(crate) poisoned: Option<Arc<str>>,
    pub(crate) commits: u64,
    pub(crate) commit_time: Duration,
    pub(crate) last: Option<Committed>,
    pub(crate) scrubs: u64,
    pub(crate) corrupt_pages: usize,
}

/// How a database is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Commits to the file since it was opened.
    pub commits: u64,
    /// How long they took, all together.
    pub commit_time: Duration,
    /// The last of them.
    pub last: Option<Committed>,
    /// What is not in the file yet.
    pub pending: Load,
    /// How often the background scrub went through the whole file.
    pub scrubs: u64,
    /// Pages that the last of them found to be other than they were written.
    pub corrupt_pages: usize,
}

impl Backend {
    /// Opens a file, or makes it, with the bucket [`Bucket::Meta`], which every file has. The folder it is in must be there, durably
    /// ([`create_dir_all_durably`](trait@env::Disk)).
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
        let (index, term) = meta::applied(&View::of_file(snapshot.clone()))?;
        let shared = Shared {
            db,
            clock,
            config,
            writer: Mutex::new(Applied { index, term }),
            committing: Mutex::new(()),
            layers: RwLock::new(Arc::new(Layers::new(snapshot))),
            progress: Mutex::default(),
            wake: Condvar::new(),
            moved: Condvar::new(),
            observers: Observers::default(),
        };
        Ok(Backend { shared: Arc::new(shared) })
    }

    /// The database as it is now, to read for as long as one likes.
    #[must_use]
    pub fn view(&self) -> View {
        View::new(self.shared.layers())
    }

    /// Begins a transaction, once the one that is open has ended.
    #[must_use]
    pub fn begin(&self) -> Tx<'_> {
        // A transaction that panicked has changed nothing.
        let writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Tx::new(&self.shared, writer)
    }

    /// Makes buckets that are missing, in a transaction of its own.
    pub fn create_buckets(&self, buckets: &[Bucket]) -> Result<Sequence, CommitError> {
        let mut tx = self.begin();
        for bucket in buckets {
            tx.create_bucket(*bucket);
        }
        tx.commit()
    }

    /// Makes everything durable that was committed so far.
    pub fn force_commit(&self) -> Result<(), CommitError> {
        let newest = self.shared.progress().newest;
        self.committer().commit_until(|progress| progress.durable >= newest)
    }

    /// The last transaction that a power cut cannot take back.
    #[must_use]
    pub fn durable(&self) -> Sequence {
        self.shared.progress().durable
    }

    /// Waits until a transaction is in the file. Somebody has to commit it: a [`CommitThread`](crate::CommitThread), within the batch
    /// interval. An error: nothing will be committed any more. This is also how to learn of a failure in the background.
    pub fn wait_durable(&self, sequence: Sequence) -> Result<(), CommitError> {
        let mut progress = self.shared.progress();
        while progress.check()?.durable < sequence {
            progress = self.shared.moved.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Why nothing is accepted any more, if that is so.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.progress().poisoned.clone()
    }

    /// The one who commits to the file. Somebody has to let it: a [`CommitThread`](crate::CommitThread), or whoever schedules.
    #[must_use]
    pub fn committer(&self) -> Committer {
        Committer::new(Arc::clone(&self.shared))
    }

    /// Has every commit from now on told of, whoever makes it: the thread that commits, or somebody who could not wait for it. The first who
    /// asks for it counts.
    pub fn observe_commits(&self, observer: Observer) {
        self.shared.observers.set(observer);
    }

    /// Commits what is pending, saves the checksums of the pages, and lets go of the file. Threads must have been stopped before, and
    /// other handles dropped.
    pub fn close(self) -> Result<(), CloseError> {
        self.force_commit()?;
        match Arc::try_unwrap(self.shared) {
            Ok(Shared { db, .. }) => Ok(db.close()?),
            Err(_others) => Err(CloseError::InUse),
        }
    }

    /// How it is doing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let progress = self.shared.progress();
        let Progress { commits, commit_time, last, scrubs, corrupt_pages, .. } = *progress;
        Stats { commits, commit_time, last, pending: progress.pending(), scrubs, corrupt_pages }
    }

    /// Bytes of all pages of the file that were ever used: the size that etcd reports, and holds against its quota.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shared.db.snapshot().size()
    }

    /// Of these, bytes of pages that hold something.
    #[must_use]
    pub fn size_in_use(&self) -> u64 {
        self.shared.db.snapshot().size_in_use()
    }

    /// The file, with everything in it that was committed so far: to be copied, or looked through.
    pub fn snapshot(&self) -> Result<bolt::Snapshot, CommitError> {
        self.force_commit()?;
        Ok(self.shared.db.snapshot())
    }

    /// Writes the file, with everything that was committed so far, as a file of its own. Returns its size. Nobody waits meanwhile.
    pub fn snapshot_to(&self, to: &mut dyn Write) -> Result<u64, SnapshotError> {
        Ok(self.snapshot()?.write_to(to)?)
    }

    /// Rewrites the file without its free pages, with everything in it that was committed so far. Transactions, commits and
    /// readers go on meanwhile.
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
        tracing::info!(before = report.size_before, after = report.size_after, "defragmented");
        Ok(report)
    }

    /// Another file is about to take this one's place. A defragmentation that is under way is given up, and none begins: it would put this one back.
    pub fn mark_replaced(&self) {
        self.shared.db.mark_replaced();
    }

    /// Begins to compare the pages of the file with their checksums, in steps. None if it keeps none.
    #[must_use]
    pub fn scrub(&self) -> Option<bolt::Scrub<'_>> {
        self.shared.db.scrub()
    }
}

impl Shared {
    /// Nothing is accepted any more.
    pub(crate) fn poison(&self, cause: String) {
        self.progress().poisoned = Some(cause.into());
        self.moved.notify_all();
        self.wake.notify_all();
    }

    pub(crate) fn layers(&self) -> Arc<Layers> {
        Arc::clone(&self.layers.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a transaction to the active batch. The caller holds `writer`.
    pub(crate) fn merge(&self, changes: Changes) -> Result<Sequence, CommitError> {
        if self.config.bolt.read_only {
            return Err(bolt::CommitError::ReadOnly(self.db.path().to_path_buf()).into());
        }
        if changes.is_empty() {
            return self.progress().check().map(|progress| progress.newest);
        }
        self.make_room(changes.load.bytes)?;
        let now = self.clock.monotonic();
        // Held until the batch has it all, so that it is not frozen before.
        let layers = self.layers.read().unwrap_or_else(PoisonError::into_inner);
        let mut batch = layers.active.write().unwrap_or_else(PoisonError::into_inner);
        let sequence = Sequence(batch.newest.0 + 1);
        batch.merge(changes, sequence, now);
        self.note_merged(sequence, batch.load, now);
        Ok(sequence)
    }

    /// Waits until there is room for a transaction: for the commit that is under way and, if that is not enough, for one more,
    /// which it does itself. So the bound holds whether or not a thread commits.
    fn make_room(&self, bytes: usize) -> Result<(), CommitError> {
        let has_room = |progress: &Progress| {
            let pending = progress.pending().bytes;
            pending == 0 || pending + bytes <= self.config.pending_bytes_max
        };
        if has_room(self.progress().check()?) {
            return Ok(());
        }
        crate::commit::commit_until(self, has_room)
    }

    fn note_merged(&self, sequence: Sequence, load: Load, now: Duration) {
        let mut progress = self.progress();
        let (was_empty, was_full) = (progress.since.is_none(), self.is_full(progress.active));
        progress.newest = sequence;
        progress.active = load;
        progress.since.get_or_insert(now);
        // The thread sleeps until there is something, and then until its time has come.
        if was_empty || (self.is_full(load) && !was_full) {
            self.wake.notify_one();
        }
    }

    /// Whether a batch is to be committed at once.
    fn is_full(&self, load: Load) -> bool {
        load.ops >= self.config.batch_ops || load.bytes >= self.config.batch_bytes
    }

    /// When the active batch is to be committed; none while there is nothing to commit, or nothing more will be.
    pub(crate) fn due_at(&self, progress: &Progress) -> Option<Duration> {
        let since = progress.since.filter(|_| progress.poisoned.is_none())?;
        let wait =
            if self.is_full(progress.active) { Duration::ZERO } else { self.config.batch_interval };
        Some(since + wait)
    }
}

impl Progress {
    /// What is not in the file yet.
    pub(crate) fn pending(&self) -> Load {
        let mut pending = self.active;
        pending += self.frozen;
        pending
    }

    /// An error if nothing is accepted any more.
    pub(crate) fn check(&self) -> Result<&Progress, CommitError> {
        match &self.poisoned {
            Some(cause) => Err(CommitError::Poisoned(Arc::clone(cause))),
            None => Ok(self),
        }
    }
}

/// Makes the bucket that every file has, unless the file has it.
fn create_meta(db: &bolt::Db) -> Result<(), CommitError> {
    let name = Bucket::Meta.name().as_bytes();
    let failed = |source| CommitError::Bucket { bucket: Bucket::Meta, source };
    if db.snapshot().bucket(name).map_err(|damaged| failed(damaged.into()))?.is_some() {
        return Ok(());
    }
    let mut tx = db.write()?;
    tx.create_bucket_if_missing(name).map_err(failed)?;
    tx.commit()?;
    Ok(())
}
