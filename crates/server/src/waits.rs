//! Who waits for what: for the outcome of a proposal, by its id; or for an index to be applied.
//!
//! It is also counted here what became of proposals, since here they all come to their end:
//!
//! ```text
//!   settled, applied or refused     took 2 ms, a success (compat: a refusal is an answer like any other)
//!   dropped by consensus, timed out took 7 s, a failure; one more that failed
//!   given up by whoever asked       likewise
//!   let go of at once               not counted
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use env::Clock;
use prometheus::IntCounter;
use types::Index;

use crate::apply::{Refusal, Reply};
use crate::error::Error;
use crate::metrics::{Metrics, Op, PerOp};
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
#[derive(Debug)]
pub(crate) struct Waits {
    waiting: Mutex<BTreeMap<u64, Waiter>>,
    clock: Arc<dyn Clock>,
    took: PerOp,
    failed: IntCounter,
}

#[derive(Debug)]
struct Waiter {
    since: Duration,
    is_counted: bool,
    answer: Promise<Answer>,
}

impl Waits {
    pub(crate) fn new(clock: Arc<dyn Clock>, metrics: &Metrics) -> Waits {
        Waits {
            waiting: Mutex::default(),
            clock,
            took: metrics.request_duration.clone(),
            failed: metrics.proposals_failed.clone(),
        }
    }

    /// Begins to wait. The id is new. What has no kind, which are changes of members, is not counted.
    pub(crate) fn register(self: &Arc<Waits>, id: u64, op: Option<Op>) -> (Proposal, Duration) {
        let (answer, waiting) = promise();
        let since = self.clock.monotonic();
        self.lock().insert(id, Waiter { since, is_counted: op.is_some(), answer });
        (Proposal { id, op, since, waits: Arc::clone(self), waiting }, since)
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

    /// Tells all of those who wait for these, one right after the other.
    pub(crate) fn settle_all(&self, settled: impl Iterator<Item = (u64, Settled)>) {
        let mut waiting = self.lock();
        let found: Vec<_> = settled
            .filter_map(|(id, settled)| Some((waiting.remove(&id)?.answer, settled)))
            .collect();
        drop(waiting);
        found.into_iter().for_each(|(answer, settled)| answer.keep(Ok(settled)));
    }

    /// Tells whoever waits for this that it failed.
    pub(crate) fn fail(&self, id: u64, error: Error) {
        let waiter = self.lock().remove(&id);
        if let Some(waiter) = waiter {
            self.fail_one(waiter, error);
        }
    }

    fn fail_one(&self, waiter: Waiter, error: Error) {
        if waiter.is_counted {
            self.failed.inc();
        }
        waiter.answer.keep(Err(error));
    }

    /// Tells those who began to wait at `until` or before that their time is up.
    pub(crate) fn expire(&self, until: Duration, error: impl Fn(Duration) -> Error) {
        let mut expired = Vec::new();
        let mut waits = self.lock();
        while let Some(first) = waits.first_entry().filter(|first| first.get().since <= until) {
            expired.push(first.remove());
        }
        drop(waits);
        for waiter in expired {
            let error = error(waiter.since);
            self.fail_one(waiter, error);
        }
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
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proposal that is under way: a future of what becomes of it. If it is dropped, nobody waits any more; it may be carried out all the same.
#[derive(Debug)]
#[must_use = "nothing is waited for unless it is polled"]
pub struct Proposal {
    id: u64,
    /// What it asks for, until that is counted.
    op: Option<Op>,
    since: Duration,
    waits: Arc<Waits>,
    waiting: Waiting<Answer>,
}

impl Proposal {
    /// The id of the request.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits no more, because nobody ever wanted to know.
    pub(crate) fn let_go(mut self) {
        self.op = None;
    }

    fn count(&mut self, success: bool) {
        if let Some(op) = self.op.take() {
            let took = self.waits.clock.monotonic().saturating_sub(self.since);
            self.waits.took.observe(op, success, took);
        }
    }
}

impl Future for Proposal {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let waiting = Pin::new(&mut self.waiting);
        let Poll::Ready(answer) = waiting.poll(context) else { return Poll::Pending };
        let answer = answer.unwrap_or(Err(Error::Stopped));
        self.count(answer.is_ok());
        Poll::Ready(answer)
    }
}

impl Drop for Proposal {
    fn drop(&mut self) {
        let waiter = self.waits.lock().remove(&self.id);
        if waiter.is_some() && self.op.is_some() {
            self.waits.failed.inc();
            self.count(false);
        }
    }
}

/// How far the log has been applied, and who waits for it to be further.
#[derive(Debug, Default)]
pub(crate) struct AppliedIndex {
    index: AtomicU64,
    waiting: Mutex<ByIndex>,
}

/// Those who wait, by the index that they wait for.
type ByIndex = BTreeMap<u64, Vec<Promise<Result<(), Error>>>>;

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

    fn lock(&self) -> MutexGuard<'_, ByIndex> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use env::SimClock;
    use prometheus::Registry;
    use prometheus::proto::Metric;

    const SECOND: Duration = Duration::from_secs(1);

    struct Rig {
        clock: Arc<SimClock>,
        metrics: Metrics,
        registry: Registry,
        waits: Arc<Waits>,
    }

    impl Rig {
        fn new() -> Rig {
            let (clock, registry) = (Arc::new(SimClock::default()), Registry::new());
            let metrics = Metrics::new(&registry).unwrap();
            let waits = Arc::new(Waits::new(Arc::<SimClock>::clone(&clock), &metrics));
            Rig { clock, metrics, registry, waits }
        }

        fn register(&self, id: u64) -> Proposal {
            self.waits.register(id, Some(Op::Put)).0
        }

        /// How many requests took how long, all together, and came out like this.
        fn counted(&self, success: &str) -> (u64, f64) {
            let name = "etcd_server_request_duration_seconds";
            let family = self.registry.gather().into_iter().find(|family| family.name() == name);
            let metrics = family.map(|mut family| family.take_metric()).unwrap_or_default();
            let labelled =
                |metric: &&Metric| metric.get_label().iter().any(|it| it.value() == success);
            let found = metrics.iter().find(labelled).map(Metric::get_histogram);
            found.map_or((0, 0.0), |all| (all.get_sample_count(), all.get_sample_sum()))
        }
    }

    fn poll(proposal: &mut Proposal) -> Option<Answer> {
        match Pin::new(proposal).poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    fn settled() -> Answer {
        Ok(Settled::ConfChange(Ok(())))
    }

    #[test]
    fn an_answer_reaches_its_own_waiter() {
        let rig = Rig::new();
        let (mut first, mut second) = (rig.register(1), rig.register(2));
        rig.waits.settle(2, settled());
        assert!(poll(&mut first).is_none());
        assert!(matches!(poll(&mut second), Some(Ok(Settled::ConfChange(Ok(()))))));
        assert!(!rig.waits.contains(2));
    }

    #[test]
    fn what_is_settled_is_counted_with_the_time_it_took() {
        let rig = Rig::new();
        let mut proposal = rig.register(1);
        rig.clock.advance(2 * SECOND);
        rig.waits.settle(1, settled());
        assert!(poll(&mut proposal).is_some());
        drop(proposal);
        assert_eq!(rig.counted("true"), (1, 2.0));
        assert_eq!((rig.counted("false").0, rig.metrics.proposals_failed.get()), (0, 0));
    }

    #[test]
    fn whoever_gives_up_is_forgotten_and_counted() {
        let rig = Rig::new();
        drop(rig.register(1));
        assert_eq!(rig.waits.len(), 0);
        assert_eq!((rig.counted("false").0, rig.metrics.proposals_failed.get()), (1, 1));
    }

    #[test]
    fn what_nobody_wanted_to_know_and_changes_of_members_do_not_count() {
        let rig = Rig::new();
        rig.register(1).let_go();
        drop(rig.waits.register(2, None));
        let (mut change, _) = rig.waits.register(3, None);
        rig.waits.fail(3, Error::ProposalDropped);
        assert_eq!(poll(&mut change).unwrap().unwrap_err(), Error::ProposalDropped);
        assert_eq!(rig.waits.len(), 0);
        assert_eq!((rig.counted("false").0, rig.metrics.proposals_failed.get()), (0, 0));
    }

    #[test]
    fn time_runs_out_for_the_first_ones_first() {
        let rig = Rig::new();
        let mut first = rig.register(1);
        let until = rig.clock.monotonic();
        rig.clock.advance(SECOND);
        let mut second = rig.register(2);
        rig.waits.expire(until, |_| Error::Timeout);
        assert!(matches!(poll(&mut first), Some(Err(Error::Timeout))));
        assert!(poll(&mut second).is_none());
        assert_eq!((rig.counted("false").0, rig.metrics.proposals_failed.get()), (1, 1));
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
