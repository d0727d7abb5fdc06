//! How far the log has been applied here, and who waits for it to be further.
//!
//! ```text
//!   applied 118    waiting  120: r1 r2    131: r3
//!   advance(120) ─► r1 and r2 are told    close ─► r3 is told, and whoever comes later at once
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use types::Index;

use crate::error::Error;
use crate::sync::oneshot::Promise;

/// How far the log has been applied, and who waits for it to be further.
#[derive(Debug, Default)]
pub(crate) struct AppliedIndex {
    index: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Those who wait, by the index that they wait for.
    by_index: BTreeMap<u64, Vec<Promise<Result<(), Error>>>>,
    /// Why it will come no further.
    closed: Option<Error>,
}

impl AppliedIndex {
    pub(crate) fn get(&self) -> Index {
        Index(self.index.load(Ordering::Acquire))
    }

    /// It has come this far.
    pub(crate) fn advance(&self, index: Index) {
        // Under the lock, or somebody might look before and begin to wait after.
        let mut waiting = self.lock();
        self.index.store(index.0, Ordering::Release);
        let later = waiting.by_index.split_off(&(index.0 + 1));
        let reached = std::mem::replace(&mut waiting.by_index, later);
        drop(waiting);
        reached.into_values().flatten().for_each(|promise| promise.keep(Ok(())));
    }

    /// Tells when it has come this far; at once if it has, or never will.
    pub(crate) fn when(&self, index: Index, promise: Promise<Result<(), Error>>) {
        let mut waiting = self.lock();
        let known =
            if self.get() >= index { Some(Ok(())) } else { waiting.closed.clone().map(Err) };
        match known {
            None => waiting.by_index.entry(index.0).or_default().push(promise),
            Some(known) => {
                drop(waiting);
                promise.keep(known);
            }
        }
    }

    /// Forgets those who gave up: the index they wait for may never come.
    pub(crate) fn forget_unwanted(&self) {
        self.lock().by_index.retain(|_, waiting| {
            waiting.retain(Promise::is_wanted);
            !waiting.is_empty()
        });
    }

    /// It will come no further.
    pub(crate) fn fail_all(&self, error: &Error) {
        let mut waiting = self.lock();
        waiting.closed = Some(error.clone());
        let all = std::mem::take(&mut waiting.by_index);
        drop(waiting);
        all.into_values().flatten().for_each(|promise| promise.keep(Err(error.clone())));
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::oneshot::{self, promise};

    fn wait(applied: &AppliedIndex, index: u64) -> oneshot::Waiting<Result<(), Error>> {
        let (promise, waiting) = promise();
        applied.when(Index(index), promise);
        waiting
    }

    #[test]
    fn an_index_is_waited_for_until_it_is_applied() {
        let applied = AppliedIndex::default();
        let (two, three) = (wait(&applied, 2), wait(&applied, 3));
        applied.advance(Index(2));
        assert_eq!(two.try_take(), Some(Ok(())));
        assert_eq!(three.try_take(), None);
        assert_eq!(wait(&applied, 1).try_take(), Some(Ok(())), "it has been for long");
        drop(wait(&applied, 4));
        applied.forget_unwanted();
        assert_eq!(applied.lock().by_index.len(), 1);
        applied.fail_all(&Error::Stopped);
        assert_eq!(three.try_take(), Some(Err(Error::Stopped)));
    }

    #[test]
    fn nobody_begins_to_wait_for_what_never_comes() {
        let applied = AppliedIndex::default();
        applied.advance(Index(2));
        applied.fail_all(&Error::Stopped);
        assert_eq!(wait(&applied, 3).try_take(), Some(Err(Error::Stopped)));
        assert_eq!(wait(&applied, 2).try_take(), Some(Ok(())), "that has come");
    }
}
