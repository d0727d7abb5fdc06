//! Who waits for what: for the outcome of a proposal, by its id; or for an index to be applied.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use types::Index;

use crate::apply::{Refusal, Reply};
use crate::error::Error;
use crate::promise::{Promise, Waiting, promise};

/// What became of a proposal, once it was applied here.
#[derive(Debug)]
pub enum Settled {
    /// A request: its answer, and the revision for the header.
    Request {
        /// The revision of the store when it had been applied.
        revision: i64,
        /// The answer.
        result: Result<Reply, Refusal>,
    },
    /// A change of members.
    ConfChange(Result<(), membership::Refused>),
}

type Answer = Result<Settled, Error>;

/// The proposals that somebody waits for, by id. Ids grow with time, and all wait equally long: so the first is the first whose time is up.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<BTreeMap<u64, Waiter>>);

#[derive(Debug)]
struct Waiter {
    since: Duration,
    answer: Promise<Answer>,
}

impl Waits {
    /// Begins to wait. The id is new.
    pub(crate) fn register(self: &Arc<Waits>, id: u64, now: Duration) -> Proposal {
        let (answer, waiting) = promise();
        self.lock().insert(id, Waiter { since: now, answer });
        Proposal { id, waits: Arc::clone(self), waiting }
    }

    /// Whether somebody waits for this.
    pub(crate) fn contains(&self, id: u64) -> bool {
        self.lock().contains_key(&id)
    }

    /// Tells whoever waits for this.
    pub(crate) fn settle(&self, id: u64, answer: Answer) {
        // In a statement of its own: whoever is woken must not find the lock taken.
        let waiter = self.lock().remove(&id);
        if let Some(waiter) = waiter {
            waiter.answer.keep(answer);
        }
    }

    /// Tells those who began to wait at `until` or before that their time is up.
    pub(crate) fn expire(&self, until: Duration, error: impl Fn(Duration) -> Error) -> usize {
        let mut expired = Vec::new();
        let mut waits = self.lock();
        while let Some(first) = waits.first_entry().filter(|first| first.get().since <= until) {
            expired.push(first.remove());
        }
        drop(waits);
        let count = expired.len();
        expired.into_iter().for_each(|waiter| waiter.answer.keep(Err(error(waiter.since))));
        count
    }

    /// Nobody will be answered any more.
    pub(crate) fn fail_all(&self, error: &Error) {
        let all = std::mem::take(&mut *self.lock());
        all.into_values().for_each(|waiter| waiter.answer.keep(Err(error.clone())));
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Waiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proposal that is under way: a future of what becomes of it. If it is dropped, nobody waits any more; it may be carried out all the same.
#[derive(Debug)]
#[must_use = "nothing is waited for unless it is polled"]
pub struct Proposal {
    id: u64,
    waits: Arc<Waits>,
    waiting: Waiting<Answer>,
}

impl Proposal {
    /// The id of the request.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Future for Proposal {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let waiting = Pin::new(&mut self.waiting);
        waiting.poll(context).map(|answer| answer.unwrap_or(Err(Error::Stopped)))
    }
}

impl Drop for Proposal {
    fn drop(&mut self) {
        drop(self.waits.lock().remove(&self.id));
    }
}

/// How far the log has been applied, and who waits for it to be further.
#[derive(Debug, Default)]
pub(crate) struct AppliedIndex {
    index: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Vec<Promise<Result<(), Error>>>>>,
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
        let later = waiting.split_off(&(index.0 + 1));
        let reached = std::mem::replace(&mut *waiting, later);
        drop(waiting);
        reached.into_values().flatten().for_each(|promise| promise.keep(Ok(())));
    }

    /// Tells when it has come this far; at once if it has.
    pub(crate) fn when(&self, index: Index, promise: Promise<Result<(), Error>>) {
        let mut waiting = self.lock();
        if self.get() >= index {
            drop(waiting);
            promise.keep(Ok(()));
        } else {
            waiting.entry(index.0).or_default().push(promise);
        }
    }

    /// Forgets those who gave up: the index they wait for may never come.
    pub(crate) fn forget_unwanted(&self) {
        self.lock().retain(|_, waiting| {
            waiting.retain(Promise::is_wanted);
            !waiting.is_empty()
        });
    }

    /// It will come no further.
    pub(crate) fn fail_all(&self, error: &Error) {
        let all = std::mem::take(&mut *self.lock());
        all.into_values().flatten().for_each(|promise| promise.keep(Err(error.clone())));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<Promise<Result<(), Error>>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn answer(proposal: &Proposal) -> Option<Answer> {
        proposal.waiting.try_take()
    }

    #[test]
    fn an_answer_reaches_its_own_waiter() {
        let waits = Arc::new(Waits::default());
        let (first, second) = (waits.register(1, SECOND), waits.register(2, SECOND));
        waits.settle(2, Ok(Settled::ConfChange(Ok(()))));
        assert!(answer(&first).is_none());
        assert!(matches!(answer(&second), Some(Ok(Settled::ConfChange(Ok(()))))));
        assert!(!waits.contains(2));
    }

    #[test]
    fn whoever_gives_up_is_forgotten() {
        let waits = Arc::new(Waits::default());
        drop(waits.register(1, SECOND));
        assert_eq!(waits.len(), 0);
    }

    #[test]
    fn time_runs_out_for_the_first_ones_first() {
        let waits = Arc::new(Waits::default());
        let (first, second) = (waits.register(1, SECOND), waits.register(2, 2 * SECOND));
        assert_eq!(waits.expire(SECOND, |_| Error::Timeout), 1);
        assert!(matches!(answer(&first), Some(Err(Error::Timeout))));
        assert!(answer(&second).is_none());
    }

    #[test]
    fn an_index_is_waited_for_until_it_is_applied() {
        let applied = AppliedIndex::default();
        let wait = |index| {
            let (promise, waiting) = promise();
            applied.when(Index(index), promise);
            waiting
        };
        let (two, three) = (wait(2), wait(3));
        applied.advance(Index(2));
        assert_eq!(two.try_take(), Some(Ok(())));
        assert_eq!(three.try_take(), None);
        assert_eq!(wait(1).try_take(), Some(Ok(())), "it has been for long");
        drop(wait(4));
        applied.forget_unwanted();
        assert_eq!(applied.lock().len(), 1);
        applied.fail_all(&Error::Stopped);
        assert_eq!(three.try_take(), Some(Err(Error::Stopped)));
    }
}
