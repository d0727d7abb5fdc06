//! From the batch to the file.

use std::fmt;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use crate::backend::{Progress, Shared};
use crate::batch::{Batch, Load, Sequence};
use crate::error::CommitError;
use crate::layers::Layers;
use crate::schema::Bucket;
use failpoint::failpoint;

/// Commits what is pending, when asked to. Turns may be asked for by anybody: they come one after the other.
#[derive(Clone, Debug)]
pub struct Committer {
    shared: Arc<Shared>,
}

/// Hears of every commit, on the thread that made it: it must not take long.
pub type Observer = Box<dyn Fn(&Committed) + Send + Sync>;

/// One commit to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The last transaction in it.
    pub sequence: Sequence,
    /// How much was committed.
    pub load: Load,
    /// How long it took.
    pub took: Duration,
}

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>) -> Committer {
        Committer { shared }
    }

    /// Whether it is time for a turn.
    #[must_use]
    pub fn due(&self, now: Duration) -> bool {
        self.due_at().is_some_and(|at| at <= now)
    }

    /// When it is time for a turn; none while nothing is pending.
    #[must_use]
    pub fn due_at(&self) -> Option<Duration> {
        self.shared.due_at(&self.shared.progress())
    }

    /// Commits everything that is pending. None if nothing was.
    ///
    /// After an error nobody knows whether the batch is in the file. It stays where it was, for readers, and nothing more is
    /// accepted.
    pub fn turn(&self) -> Result<Option<Committed>, CommitError> {
        let turn = begin_turn(&self.shared);
        commit(&self.shared, &turn)
    }

    /// Takes turns until enough is committed, or nothing is pending.
    pub(crate) fn commit_until(
        &self,
        enough: impl Fn(&Progress) -> bool,
    ) -> Result<(), CommitError> {
        commit_until(&self.shared, enough)
    }
}

/// Waits for the turn that is under way, and takes others until enough is committed, or nothing is pending.
pub(crate) fn commit_until(
    shared: &Shared,
    enough: impl Fn(&Progress) -> bool,
) -> Result<(), CommitError> {
    loop {
        let turn = begin_turn(shared);
        if enough(shared.progress().check()?) || commit(shared, &turn)?.is_none() {
            return Ok(());
        }
    }
}

/// Waits for whoever has the turn.
fn begin_turn(shared: &Shared) -> MutexGuard<'_, ()> {
    // One that panicked left a batch frozen, which the next turn takes up; or the file refuses.
    shared.committing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Freeze, write, publish.
fn commit(shared: &Shared, _turn: &MutexGuard<'_, ()>) -> Result<Option<Committed>, CommitError> {
    shared.progress().check()?;
    let Some(frozen) = freeze(shared) else { return Ok(None) };
    let batch = frozen.read().unwrap_or_else(PoisonError::into_inner);
    let started = shared.clock.monotonic();
    if let Err(error) = write(&shared.db, &batch) {
        tracing::error!(%error, "commit failed; nothing is accepted until the database is opened again");
        shared.poison(error.to_string());
        return Err(error);
    }
    let took = shared.clock.monotonic().saturating_sub(started);
    let committed = Committed { sequence: batch.newest, load: batch.load, took };
    drop(batch);
    publish(shared, committed);
    shared.observers.tell(&committed);
    // Views that kept a file which was replaced may be gone by now.
    shared.db.reclaim_space();
    Ok(Some(committed))
}

/// Who hears of commits, if anybody does.
#[derive(Default)]
pub(crate) struct Observers(OnceLock<Observer>);

impl Observers {
    /// The first to ask is told.
    pub(crate) fn set(&self, observer: Observer) {
        // There is one member to a database, and it asks once.
        let _ = self.0.set(observer);
    }

    fn tell(&self, committed: &Committed) {
        if let Some(observer) = self.0.get() {
            observer(committed);
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observers").field(&self.0.get().is_some()).finish()
    }
}

/// Puts an empty batch in the place of the active one, between two transactions.
fn freeze(shared: &Shared) -> Option<Arc<RwLock<Batch>>> {
    let mut layers = shared.layers.write().unwrap_or_else(PoisonError::into_inner);
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

/// The batch as one transaction of the file, bucket by bucket, in key order.
fn write(db: &bolt::Db, batch: &Batch) -> Result<(), CommitError> {
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
    tx.commit()?;
    failpoint!("afterCommit");
    Ok(())
}

/// Lets readers see the file that has taken the other's place, with the same in it.
pub(crate) fn refresh(shared: &Shared) {
    let _turn = begin_turn(shared);
    let mut layers = shared.layers.write().unwrap_or_else(PoisonError::into_inner);
    *layers = Arc::new(Layers { snapshot: shared.db.snapshot(), ..Layers::clone(&layers) });
}

/// Lets readers see the file as it is now, and the batch no more.
fn publish(shared: &Shared, committed: Committed) {
    let mut layers = shared.layers.write().unwrap_or_else(PoisonError::into_inner);
    let active = Arc::clone(&layers.active);
    *layers = Arc::new(Layers { snapshot: shared.db.snapshot(), frozen: None, active });
    drop(layers);
    let mut progress = shared.progress();
    progress.durable = committed.sequence;
    progress.frozen = Load::default();
    progress.commits += 1;
    progress.commit_time += committed.took;
    progress.last = Some(committed);
    shared.moved.notify_all();
}
