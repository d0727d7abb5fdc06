//! The applied index, and the waiters for a later one.
//!
//! ```text
//!   applied 118    waiters   120: r1 r2    131: r3
//!   advance(120) ─► completes r1 and r2
//!   fail_all     ─► fails r3, and every later waiter at once
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sync::oneshot;
use types::Index;

use crate::error::Error;

/// The index up to which the local member has applied the log.
#[derive(Debug, Default)]
pub(crate) struct AppliedIndex {
    index: AtomicU64,
    waiters: Mutex<IndexWaiters>,
}

#[derive(Debug, Default)]
struct IndexWaiters {
    by_index: BTreeMap<u64, Vec<oneshot::Sender<Result<(), Error>>>>,
    /// The reason why the index will not advance any more.
    closed: Option<Error>,
}

impl AppliedIndex {
    pub(crate) fn get(&self) -> Index {
        Index(self.index.load(Ordering::Acquire))
    }

    /// Advances to `index` and completes the waiters up to it.
    pub(crate) fn advance(&self, index: Index) {
        // The lock covers the store: otherwise a waiter could read the old index before it and
        // register after it, and miss the wake-up.
        let mut waiters = self.waiters.lock();
        self.index.store(index.0, Ordering::Release);
        let later = waiters.by_index.split_off(&(index.0 + 1));
        let reached = std::mem::replace(&mut waiters.by_index, later);
        drop(waiters);
        reached.into_values().flatten().for_each(|waiter| drop(waiter.send(Ok(()))));
    }

    /// Completes `waiter` when `index` is applied, or fails it once that cannot happen any more.
    pub(crate) fn notify_at(&self, index: Index, waiter: oneshot::Sender<Result<(), Error>>) {
        let mut waiters = self.waiters.lock();
        let result =
            if self.get() >= index { Some(Ok(())) } else { waiters.closed.clone().map(Err) };
        match result {
            None => waiters.by_index.entry(index.0).or_default().push(waiter),
            Some(result) => {
                drop(waiters);
                // A failed send means that the waiter was dropped.
                let _ = waiter.send(result);
            }
        }
    }

    /// Removes waiters that were dropped: their index may never be reached.
    pub(crate) fn remove_dropped(&self) {
        self.waiters.lock().by_index.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.is_canceled());
            !waiters.is_empty()
        });
    }

    /// Fails all waiters, and later ones at once, because the index will not advance any more.
    pub(crate) fn fail_all(&self, error: &Error) {
        let mut waiters = self.waiters.lock();
        waiters.closed = Some(error.clone());
        let all = std::mem::take(&mut waiters.by_index);
        drop(waiters);
        all.into_values().flatten().for_each(|waiter| drop(waiter.send(Err(error.clone()))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(applied: &AppliedIndex, index: u64) -> oneshot::Receiver<Result<(), Error>> {
        let (sender, receiver) = oneshot::channel();
        applied.notify_at(Index(index), sender);
        receiver
    }

    #[test]
    fn a_waiter_completes_when_its_index_is_applied() {
        let applied = AppliedIndex::default();
        let (mut two, mut three) = (wait(&applied, 2), wait(&applied, 3));
        applied.advance(Index(2));
        assert_eq!(two.try_recv(), Ok(Some(Ok(()))));
        assert_eq!(three.try_recv(), Ok(None));
        assert_eq!(wait(&applied, 1).try_recv(), Ok(Some(Ok(()))), "applied before");
        drop(wait(&applied, 4));
        applied.remove_dropped();
        assert_eq!(applied.waiters.lock().by_index.len(), 1);
        applied.fail_all(&Error::Stopped);
        assert_eq!(three.try_recv(), Ok(Some(Err(Error::Stopped))));
    }

    #[test]
    fn a_wait_after_the_end_fails_at_once_unless_the_index_is_applied() {
        let applied = AppliedIndex::default();
        applied.advance(Index(2));
        applied.fail_all(&Error::Stopped);
        assert_eq!(wait(&applied, 3).try_recv(), Ok(Some(Err(Error::Stopped))));
        assert_eq!(wait(&applied, 2).try_recv(), Ok(Some(Ok(()))));
    }
}
