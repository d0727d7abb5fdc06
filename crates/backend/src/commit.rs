//! Committing batches to the file.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::backend::{BackendShared, CommitProgress};
use crate::batch::{Batch, BatchSize, Sequence};
use crate::error::CommitError;
use crate::layers::Layers;
use crate::schema::Bucket;
use bolt::CommitPhases;
use failpoint::failpoint;
use parking_lot::{MutexGuard, RwLock};

/// Commits pending writes. May be used by several threads; turns are serialized.
#[derive(Clone, Debug)]
pub struct Committer {
    shared: Arc<BackendShared>,
}

/// Callback that runs after every commit, on the thread that made it, so it must be fast.
pub type CommitObserver = Box<dyn Fn(&CommitReport) + Send + Sync>;

/// A commit to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitReport {
    /// The last transaction in it.
    pub sequence: Sequence,
    /// Size of the batch.
    pub load: BatchSize,
    /// Duration of the commit.
    pub took: Duration,
    /// Durations of its phases within the file.
    pub phases: CommitPhases,
}

impl Committer {
    pub(crate) fn new(shared: Arc<BackendShared>) -> Committer {
        Committer { shared }
    }

    /// Reports whether a turn is due.
    #[must_use]
    pub fn due(&self, now: Duration) -> bool {
        self.due_at().is_some_and(|at| at <= now)
    }

    /// The time at which a turn is due; `None` while nothing is pending.
    #[must_use]
    pub fn due_at(&self) -> Option<Duration> {
        self.shared.due_at(&self.shared.progress())
    }

    /// Commits everything that is pending. Returns `None` if nothing is.
    ///
    /// After an error it is unknown whether the batch is in the file. The batch stays visible to
    /// readers, and no more writes are accepted.
    pub fn turn(&self) -> Result<Option<CommitReport>, CommitError> {
        let turn = begin_turn(&self.shared);
        commit(&self.shared, &turn)
    }

    /// Takes turns until `enough` holds, or nothing is pending.
    pub(crate) fn commit_until(
        &self,
        enough: impl Fn(&CommitProgress) -> bool,
    ) -> Result<(), CommitError> {
        commit_until(&self.shared, enough)
    }
}

/// Waits for the running turn, and takes turns until `enough` holds, or nothing is pending.
pub(crate) fn commit_until(
    shared: &BackendShared,
    enough: impl Fn(&CommitProgress) -> bool,
) -> Result<(), CommitError> {
    loop {
        let turn = begin_turn(shared);
        if enough(shared.progress().check()?) || commit(shared, &turn)?.is_none() {
            return Ok(());
        }
    }
}

/// Waits for the running turn to end.
fn begin_turn(shared: &BackendShared) -> MutexGuard<'_, ()> {
    // After a panic the frozen batch is left for the next turn, unless the file refuses writes.
    shared.committing.lock()
}

/// Freezes the active batch, writes it, and publishes the new state.
fn commit(
    shared: &BackendShared,
    _turn: &MutexGuard<'_, ()>,
) -> Result<Option<CommitReport>, CommitError> {
    shared.progress().check()?;
    failpoint!("commitBeforePreCommitHook");
    let Some(frozen) = freeze(shared) else { return Ok(None) };
    failpoint!("commitAfterPreCommitHook");
    let batch = frozen.read();
    let started = shared.clock.monotonic();
    let phases = write(&shared.db, &batch, &|| shared.clock.monotonic()).inspect_err(|error| {
        tracing::error!(%error, "commit failed; writes are refused until the member is restarted");
        shared.poison(error.to_string());
    })?;
    let took = shared.clock.monotonic().saturating_sub(started);
    let committed = CommitReport { sequence: batch.newest, load: batch.load, took, phases };
    drop(batch);
    publish(shared, committed);
    shared.observers.notify(&committed);
    // Views that pinned a replaced file may be gone by now.
    shared.db.reclaim_space();
    Ok(Some(committed))
}

/// Holds the commit observer, if one is registered.
#[derive(Default)]
pub(crate) struct ObserverSlot(OnceLock<CommitObserver>);

impl ObserverSlot {
    /// Registers the observer, unless there is one.
    pub(crate) fn set(&self, observer: CommitObserver) {
        // A database belongs to one member, which registers once.
        let _ = self.0.set(observer);
    }

    fn notify(&self, committed: &CommitReport) {
        if let Some(observer) = self.0.get() {
            observer(committed);
        }
    }
}

impl fmt::Debug for ObserverSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObserverSlot").field(&self.0.get().is_some()).finish()
    }
}

/// Replaces the active batch with an empty one, between two transactions.
fn freeze(shared: &BackendShared) -> Option<Arc<RwLock<Batch>>> {
    let mut layers = shared.layers.write();
    if let Some(frozen) = &layers.frozen {
        return Some(Arc::clone(frozen));
    }
    let active = layers.active();
    if active.is_empty() {
        return None;
    }
    let next = Batch::after(active.newest);
    drop(active);
    let frozen = Arc::clone(&layers.active);
    *layers = Arc::new(Layers {
        snapshot: layers.snapshot.clone(),
        frozen: Some(Arc::clone(&frozen)),
        active: Arc::new(RwLock::new(next)),
    });
    let mut progress = shared.progress();
    progress.frozen = std::mem::take(&mut progress.active);
    progress.since = None;
    Some(frozen)
}

/// Writes the batch as one transaction of the file, bucket by bucket, in key order.
fn write(
    db: &bolt::Db,
    batch: &Batch,
    now: &dyn Fn() -> Duration,
) -> Result<CommitPhases, CommitError> {
    failpoint!("beforeStartDBTxn");
    let mut tx = db.write()?;
    failpoint!("afterStartDBTxn");
    for bucket in Bucket::ALL.into_iter().filter(|bucket| batch.touches(*bucket)) {
        let failed = |source| CommitError::Bucket { bucket, source };
        let mut pairs = tx.create_bucket_if_missing(bucket.name().as_bytes()).map_err(failed)?;
        pairs.set_fill_percent(bucket.fill_percent());
        for (key, value) in batch.newest(bucket) {
            match value {
                Some(value) => pairs.put(key, value).map_err(failed)?,
                None => pairs.delete(key).map(|_| ()).map_err(failed)?,
            }
        }
    }
    failpoint!("beforeCommit");
    let (_, phases) = tx.commit_timed(now)?;
    failpoint!("afterCommit");
    Ok(phases)
}

/// Switches readers to the file that replaced the old one, with the same content.
pub(crate) fn refresh(shared: &BackendShared) {
    let _turn = begin_turn(shared);
    let mut layers = shared.layers.write();
    *layers = Arc::new(Layers { snapshot: shared.db.snapshot(), ..Layers::clone(&layers) });
}

/// Switches readers to the committed file and drops the frozen batch.
fn publish(shared: &BackendShared, committed: CommitReport) {
    let mut layers = shared.layers.write();
    let active = Arc::clone(&layers.active);
    *layers = Arc::new(Layers { snapshot: shared.db.snapshot(), frozen: None, active });
    drop(layers);
    let mut progress = shared.progress();
    progress.durable = committed.sequence;
    progress.frozen = BatchSize::default();
    progress.commits += 1;
    progress.commit_time += committed.took;
    progress.last = Some(committed);
    shared.commit_done.notify_all();
}
