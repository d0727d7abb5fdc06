//! What is proposed and not settled, by its id; and who waits for it.
//!
//! ```text
//!   id    asked at   bytes   who listens
//!   …41   12.0 s     70      somebody waits: a Proposal, which is a future
//!   …42   12.1 s     1.5 M   nobody any more: whoever asked has given up, and it may be carried out all the same
//!   …43   12.1 s     30      nobody waits: a function is called with what became of it
//!   …44   -          -       somebody, for a change of members: that may take as long as they like
//! ```
//!
//! What is always true: each is told once; none but changes of members is here for longer than a request may take; how many there are and how much they ask
//! for is bounded, also by those who have given up, since what they asked for is still on its way.
//!
//! It is also counted here what became of proposals, since here they all come to their end. Compat: as in etcd, only what was never proposed took its time in
//! vain; that nobody knows what became of it is as good an answer as a refusal.
//!
//! ```text
//!   settled, applied or refused               took 2 ms, a success
//!   refused by consensus, no leader in time   took 7 s, a failure; one more that failed
//!   timed out, or given up by whoever asked   took 7 s, a success; one more that failed
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use env::Clock;
use prometheus::IntCounter;

use crate::apply::{Refusal, Reply};
use crate::error::Error;
use crate::metrics::{Metrics, Op, PerOp};
use crate::sync::oneshot::{Promise, Waiting, promise};

/// The most proposals that may wait to be settled.
pub const PROPOSALS_MAX: usize = 1 << 16;
/// The most bytes that they may have, all together: what waits on its way to the log. What is in the log is bounded by `unapplied_bytes_max`, also when nobody waits for it
/// any more.
pub const PROPOSAL_BYTES_MAX: usize = 1 << 30;

/// What became of a proposal, once it was applied here.
#[derive(Debug)]
pub(crate) enum Settled {
    /// A request: its answer, and the revision for the header.
    Request {
        /// The revision of the store when it had been applied.
        revision: i64,
        /// The answer.
        result: Result<Reply, Refusal>,
    },
    /// A change of members.
    ConfChange(Result<(), membership::ConfChangeRefusal>),
}

/// What is told of a proposal.
pub(crate) type Answer = Result<Settled, Error>;

/// The proposals that are not settled. Ids grow with time, and all wait equally long: so the first is the first whose time is up.
#[derive(Debug)]
pub(crate) struct Waits {
    all: Mutex<All>,
    clock: Arc<dyn Clock>,
    took: PerOp,
    failed: IntCounter,
}

#[derive(Debug, Default)]
struct All {
    by_id: BTreeMap<u64, Waiter>,
    bytes: usize,
    /// Nobody will be answered any more.
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    asked: Asked,
    listener: Listener,
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// A request of some kind and size, for as long as a request may take.
    Request { op: Op, bytes: usize, since: Duration },
    /// A change of members, for as long as somebody waits. It is not counted.
    ConfChange,
}

impl Asked {
    fn bytes(&self) -> usize {
        match self {
            Asked::Request { bytes, .. } => *bytes,
            Asked::ConfChange => 0,
        }
    }

    /// Since when, if there is an end to it.
    fn since(&self) -> Option<Duration> {
        match self {
            Asked::Request { since, .. } => Some(*since),
            Asked::ConfChange => None,
        }
    }
}

/// Who is told.
enum Listener {
    Somebody(Promise<Answer>),
    Then(Box<dyn FnOnce(Answer) + Send>),
    /// Nobody any more.
    Gone,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Listener::Somebody(_) => "Somebody",
            Listener::Then(_) => "Then",
            Listener::Gone => "Gone",
        })
    }
}

impl All {
    fn insert(&mut self, id: u64, waiter: Waiter) -> Result<(), Error> {
        if self.closed {
            return Err(Error::Stopped);
        }
        let bytes = self.bytes + waiter.asked.bytes();
        if self.by_id.len() >= PROPOSALS_MAX || bytes > PROPOSAL_BYTES_MAX {
            return Err(Error::TooManyRequests);
        }
        self.bytes = bytes;
        self.by_id.insert(id, waiter);
        Ok(())
    }

    fn remove(&mut self, id: u64) -> Option<Waiter> {
        let waiter = self.by_id.remove(&id)?;
        self.bytes -= waiter.asked.bytes();
        Some(waiter)
    }

    /// Forgets who waits for this, which is still on its way. None if it is settled.
    fn abandon(&mut self, id: u64) -> Option<Listener> {
        let waiter = self.by_id.get_mut(&id)?;
        if waiter.asked.since().is_none() {
            // It might never be settled, and has no other end.
            return self.remove(id).map(|waiter| waiter.listener);
        }
        Some(std::mem::replace(&mut waiter.listener, Listener::Gone))
    }
}

impl Waits {
    pub(crate) fn new(clock: Arc<dyn Clock>, metrics: &Metrics) -> Waits {
        Waits {
            all: Mutex::default(),
            clock,
            took: metrics.request_duration.clone(),
            failed: metrics.proposals_failed.clone(),
        }
    }

    /// Registers a waiter under a new id. `extract` takes its result out of the settled proposal.
    ///
    /// # Errors
    /// Too much waits already, or nobody will be answered any more.
    pub(crate) fn register<T>(
        self: &Arc<Waits>,
        id: u64,
        asked: Asked,
        extract: fn(Settled) -> Result<T, Error>,
    ) -> Result<Proposal<T>, Error> {
        let (answer, waiting) = promise();
        self.lock().insert(id, Waiter { asked, listener: Listener::Somebody(answer) })?;
        let waits = Arc::clone(self);
        Ok(Proposal { id, asked, waits, waiting, is_over: false, extract })
    }

    /// Has a function called with the answer, by whoever has it: it must not take long.
    ///
    /// # Errors
    /// As for [`Waits::register`]; it is not called then.
    pub(crate) fn register_then(
        &self,
        id: u64,
        asked: Asked,
        then: impl FnOnce(Answer) + Send + 'static,
    ) -> Result<(), Error> {
        self.lock().insert(id, Waiter { asked, listener: Listener::Then(Box::new(then)) })
    }

    /// Whether this is still to be told to somebody.
    pub(crate) fn contains(&self, id: u64) -> bool {
        let all = self.lock();
        all.by_id.get(&id).is_some_and(|waiter| !matches!(waiter.listener, Listener::Gone))
    }

    /// Tells whoever waits for this.
    pub(crate) fn settle(&self, id: u64, answer: Answer) {
        // In a statement of its own: whoever is woken must not find the lock taken.
        let waiter = self.lock().remove(id);
        if let Some(waiter) = waiter {
            self.tell(waiter, answer);
        }
    }

    /// Tells all of those who wait for these, one right after the other.
    pub(crate) fn settle_all(&self, settled: impl Iterator<Item = (u64, Settled)>) {
        let mut all = self.lock();
        let found: Vec<_> =
            settled.filter_map(|(id, settled)| Some((all.remove(id)?, settled))).collect();
        drop(all);
        found.into_iter().for_each(|(waiter, settled)| self.tell(waiter, Ok(settled)));
    }

    /// Tells whoever waits for this that it failed.
    pub(crate) fn fail(&self, id: u64, error: Error) {
        let waiter = self.lock().remove(id);
        if let Some(waiter) = waiter {
            self.fail_one(waiter, error);
        }
    }

    fn fail_one(&self, waiter: Waiter, error: Error) {
        let is_gone = matches!(waiter.listener, Listener::Gone);
        if !is_gone && let Asked::Request { .. } = waiter.asked {
            self.failed.inc();
        }
        self.tell(waiter, Err(error));
    }

    fn tell(&self, waiter: Waiter, answer: Answer) {
        match waiter.listener {
            // Who counts it, on their own time.
            Listener::Somebody(promise) => promise.keep(answer),
            Listener::Then(then) => {
                self.count(waiter.asked, was_proposed(&answer));
                then(answer);
            }
            Listener::Gone => {}
        }
    }

    fn count(&self, asked: Asked, success: bool) {
        if let Asked::Request { op, since, .. } = asked {
            self.took.observe(op, success, self.clock.monotonic().saturating_sub(since));
        }
    }

    /// Tells those who began to wait at `until` or before that their time is up.
    pub(crate) fn expire(&self, until: Duration, error: impl Fn(Duration) -> Error) {
        let mut all = self.lock();
        let is_up = |waiter: &Waiter| waiter.asked.since().is_none_or(|since| since <= until);
        let up = all.by_id.iter().take_while(|(_, waiter)| is_up(waiter));
        let up: Vec<_> = up.filter_map(|(id, waiter)| Some((*id, waiter.asked.since()?))).collect();
        let expired: Vec<_> =
            up.into_iter().filter_map(|(id, since)| Some((all.remove(id)?, since))).collect();
        drop(all);
        expired.into_iter().for_each(|(waiter, since)| self.fail_one(waiter, error(since)));
    }

    /// Nobody will be answered any more.
    pub(crate) fn fail_all(&self, error: &Error) {
        let mut all = self.lock();
        let by_id = std::mem::take(&mut all.by_id);
        (all.bytes, all.closed) = (0, true);
        drop(all);
        by_id.into_values().for_each(|waiter| self.tell(waiter, Err(error.clone())));
    }

    /// Requests that somebody waits for.
    pub(crate) fn pending(&self) -> usize {
        let all = self.lock();
        let waits = |waiter: &&Waiter| {
            waiter.asked.since().is_some() && !matches!(waiter.listener, Listener::Gone)
        };
        all.by_id.values().filter(waits).count()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compat: what came too late, or never, was proposed; to etcd that is a success.
fn was_proposed(answer: &Answer) -> bool {
    use Error::{DeadlineExceeded, ProposalDropped, TooManyRequests};
    !matches!(answer, Err(ProposalDropped | TooManyRequests | DeadlineExceeded))
}

/// A proposal that is under way: a future of what becomes of it. If it is dropped, nobody waits any more; it may be carried out all the same.
#[derive(Debug)]
#[must_use = "nothing is waited for unless it is polled"]
pub struct Proposal<T> {
    id: u64,
    asked: Asked,
    waits: Arc<Waits>,
    waiting: Waiting<Answer>,
    /// Whether the answer was given out.
    is_over: bool,
    extract: fn(Settled) -> Result<T, Error>,
}

impl<T> Proposal<T> {
    /// The id of the request.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl<T> Future for Proposal<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waiting = Pin::new(&mut self.waiting);
        let Poll::Ready(answer) = waiting.poll(context) else { return Poll::Pending };
        let answer = answer.unwrap_or(Err(Error::Stopped));
        if !std::mem::replace(&mut self.is_over, true) {
            self.waits.count(self.asked, was_proposed(&answer));
        }
        Poll::Ready(answer.and_then(self.extract))
    }
}

impl<T> Drop for Proposal<T> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let abandoned = self.waits.lock().abandon(self.id);
        if let (Some(_), Asked::Request { .. }) = (abandoned, self.asked) {
            self.waits.failed.inc();
            self.waits.count(self.asked, true);
        }
    }
}

#[cfg(test)]
mod tests;
