//! A weighted limit that evicts its oldest holders when full.
//!
//! Clients can fill every bound on what a member holds for them. Refusing the newest would let an
//! attacker shut out well-behaved clients indefinitely. A well-behaved client is done quickly, so
//! the holder that has been there the longest is most likely one that never finishes. The limit
//! therefore evicts in order of age:
//!
//! ```text
//!   weight_max 10      holders, oldest first    acquire(4)
//!                      A 5, B 2, C 3            B 2, C 3, D 4        A is evicted
//! ```
//!
//! To shut out a well-behaved client, an attacker has to fill the whole limit in the time that
//! client needs.
//!
//! A limit with a grace period evicts nothing when a holder joins. Instead a task
//! ([`EvictingLimit::evict_overdue`]) evicts the holders that have made no progress for that long,
//! as soon as the limit is full; new work has to wait until it is not ([`EvictingLimit::is_full`]):
//!
//! ```text
//!   grace 5 s          holders, by idle time    the task
//!                      A 6 s, B 1 s, C 9 s      A and then C are evicted, until the rest fits
//! ```
//!
//! Such a holder keeps its weight until its permit is dropped: its memory is in use until the
//! connection has ended, and work that joins before would come on top.
//!
//! Invariants: without a grace period, the holders weigh at most `weight_max` together, except for
//! a single holder that is heavier alone; with one, a full limit has no holder that was idle for
//! longer and is not evicted. A permit returns its weight when it is dropped or, without a grace
//! period, evicted.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A weighted limit that evicts its oldest holders when full.
#[derive(Debug)]
pub struct EvictingLimit {
    weight_max: usize,
    grace: Duration,
    holders: Mutex<Holders>,
    /// Notified when a limit with a grace period is filled.
    filled: Notify,
}

#[derive(Debug, Default)]
struct Holders {
    weight: usize,
    /// The part of the weight whose holders are evicted and not dropped yet.
    evicted_weight: usize,
    /// The id of the next permit. Ids grow, so the map is ordered by age.
    next_id: u64,
    by_id: BTreeMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    weight: usize,
    since: Instant,
    /// Whether the holder was evicted and keeps its weight.
    is_evicted: bool,
    evicted: Arc<Evicted>,
}

impl EvictingLimit {
    /// Creates a limit on the total weight of all holders, which evicts at once.
    pub fn new(weight_max: usize) -> Arc<Self> {
        Self::with_grace(weight_max, Duration::ZERO)
    }

    /// Creates a limit whose holders are evicted by [`Self::evict_overdue`], none before it was
    /// idle for `grace`.
    pub(crate) fn with_grace(weight_max: usize, grace: Duration) -> Arc<Self> {
        Arc::new(Self { weight_max, grace, holders: Mutex::default(), filled: Notify::default() })
    }

    /// Adds a holder. Without a grace period, evicts the oldest ones until the rest fits. Eviction
    /// sets `evicted`.
    pub fn acquire(self: &Arc<Self>, weight: usize, evicted: Arc<Evicted>) -> Permit {
        let mut holders = self.holders.lock();
        let id = holders.next_id;
        holders.next_id += 1;
        holders.weight += weight;
        let holder = Holder { weight, since: Instant::now(), is_evicted: false, evicted };
        holders.by_id.insert(id, holder);
        let removed = self.make_room(&mut holders);
        drop(holders);
        removed.iter().for_each(|evicted| evicted.set());
        Permit { limit: Arc::clone(self), id }
    }

    /// Returns whether the whole weight is in use.
    pub fn is_full(&self) -> bool {
        self.holders.lock().weight >= self.weight_max
    }

    /// Evicts overdue holders whenever the limit is full. Never returns.
    pub(crate) async fn evict_overdue(&self) {
        loop {
            // Without a waiter, a notification in between is kept.
            match self.evict_overdue_now() {
                Some(next) => sleep_until(next).await,
                None => self.filled.notified().await,
            }
        }
    }

    /// Evicts overdue holders until the others do not fill the limit. Returns when the next one is
    /// overdue, if they still do.
    fn evict_overdue_now(&self) -> Option<Instant> {
        let mut holders = self.holders.lock();
        let mut removed = Vec::new();
        while holders.staying_weight() >= self.weight_max
            && let Some(evicted) = holders.overdue(self.grace)
        {
            holders.evict_all_of(&evicted);
            removed.push(evicted);
        }
        let is_full = holders.staying_weight() >= self.weight_max;
        let next = is_full.then(|| holders.next_overdue(self.grace)).flatten();
        drop(holders);
        removed.iter().for_each(|evicted| evicted.set());
        next
    }

    /// Removes the oldest holders until the rest fits or only one is left; with a grace period,
    /// wakes the task that does.
    fn make_room(&self, holders: &mut Holders) -> Vec<Arc<Evicted>> {
        let mut removed = Vec::new();
        if !self.grace.is_zero() {
            if holders.weight >= self.weight_max {
                self.filled.notify_one();
            }
            return removed;
        }
        while holders.weight > self.weight_max
            && holders.by_id.len() > 1
            && let Some((_, holder)) = holders.by_id.pop_first()
        {
            holders.weight -= holder.weight;
            removed.push(holder.evicted);
        }
        removed
    }
}

impl Holders {
    /// Returns the weight of the holders that are not evicted.
    fn staying_weight(&self) -> usize {
        self.weight - self.evicted_weight
    }

    /// Returns the signal of the oldest holder that was idle for `grace`.
    fn overdue(&self, grace: Duration) -> Option<Arc<Evicted>> {
        let now = Instant::now();
        let overdue = self.staying().find(|holder| holder.idle_since() + grace <= now);
        overdue.map(|holder| Arc::clone(&holder.evicted))
    }

    /// Returns when the next holder is overdue.
    fn next_overdue(&self, grace: Duration) -> Option<Instant> {
        self.staying().map(|holder| holder.idle_since() + grace).min()
    }

    fn staying(&self) -> impl Iterator<Item = &Holder> {
        self.by_id.values().filter(|holder| !holder.is_evicted)
    }

    /// Marks all holders with this signal: they belong to one connection, which ends.
    fn evict_all_of(&mut self, evicted: &Arc<Evicted>) {
        for holder in self.by_id.values_mut() {
            if !holder.is_evicted && Arc::ptr_eq(&holder.evicted, evicted) {
                holder.is_evicted = true;
                self.evicted_weight += holder.weight;
            }
        }
    }

    /// Removes a holder, if it is still there, and returns its weight.
    fn remove(&mut self, id: u64) {
        if let Some(holder) = self.by_id.remove(&id) {
            self.weight -= holder.weight;
            self.evicted_weight -= if holder.is_evicted { holder.weight } else { 0 };
        }
    }
}

impl Holder {
    /// Returns when the holder last made progress.
    fn idle_since(&self) -> Instant {
        self.evicted.progress().map_or(self.since, |progress| progress.max(self.since))
    }
}

/// A share of an [`EvictingLimit`], returned on drop.
#[derive(Debug)]
pub struct Permit {
    limit: Arc<EvictingLimit>,
    id: u64,
}

impl Permit {
    /// Changes the weight of this holder, which may evict others, or this one if it is the oldest.
    pub fn set_weight(&mut self, weight: usize) {
        let limit = &self.limit;
        let mut holders = limit.holders.lock();
        let Some(holder) = holders.by_id.get_mut(&self.id) else { return };
        let before = std::mem::replace(&mut holder.weight, weight);
        let is_evicted = holder.is_evicted;
        holders.weight = holders.weight - before + weight;
        if is_evicted {
            holders.evicted_weight = holders.evicted_weight - before + weight;
        }
        let removed = limit.make_room(&mut holders);
        drop(holders);
        removed.iter().for_each(|evicted| evicted.set());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limit.holders.lock().remove(self.id);
    }
}

/// The eviction signal of one or more permits, awaited by one task.
#[derive(Debug, Default)]
pub struct Evicted(Mutex<Signal>);

#[derive(Debug, Default)]
struct Signal {
    is_set: bool,
    waker: Option<Waker>,
    progress: Option<Instant>,
}

impl Evicted {
    /// Ready once evicted. Wakes the task that polled last.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut signal = self.0.lock();
        if signal.is_set {
            return Poll::Ready(());
        }
        match &mut signal.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits for the eviction.
    pub async fn evicted(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.lock().is_set
    }

    pub(crate) fn set(&self) {
        let mut signal = self.0.lock();
        signal.is_set = true;
        let waker = signal.waker.take();
        drop(signal);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Records that the holders of this signal made progress just now.
    pub(crate) fn set_progress(&self) {
        self.0.lock().progress = Some(Instant::now());
    }

    fn progress(&self) -> Option<Instant> {
        self.0.lock().progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals<const N: usize>() -> [Arc<Evicted>; N] {
        std::array::from_fn(|_| Arc::default())
    }

    #[test]
    fn a_full_limit_evicts_the_oldest_holder() {
        let (limit, [a, b, c, d]) = (EvictingLimit::new(10), signals());
        let _permits = [
            limit.acquire(5, Arc::clone(&a)),
            limit.acquire(2, Arc::clone(&b)),
            limit.acquire(3, Arc::clone(&c)),
        ];
        assert!(limit.is_full() && !a.is_set());
        let _permit = limit.acquire(4, Arc::clone(&d));
        assert_eq!([&a, &b, &c, &d].map(|evicted| evicted.is_set()), [true, false, false, false]);
        assert_eq!(limit.holders.lock().weight, 9);
    }

    #[test]
    fn a_growing_holder_evicts_older_ones_and_then_itself() {
        let (limit, [a, b]) = (EvictingLimit::new(10), signals());
        let mut first = limit.acquire(5, Arc::clone(&a));
        let mut second = limit.acquire(5, Arc::clone(&b));
        let _third = limit.acquire(0, Arc::default());
        second.set_weight(6);
        assert!(a.is_set() && !b.is_set());
        first.set_weight(100);
        assert_eq!(limit.holders.lock().weight, 6, "an evicted permit weighs nothing");
        drop(first);
        assert_eq!(limit.holders.lock().weight, 6);
        second.set_weight(11);
        assert!(b.is_set(), "no older holder is left to evict");
        assert_eq!(limit.holders.lock().weight, 0);
    }

    #[test]
    fn a_single_holder_may_exceed_the_limit() {
        let (limit, [a]) = (EvictingLimit::new(10), signals());
        let mut first = limit.acquire(5, Arc::clone(&a));
        first.set_weight(11);
        assert!(!a.is_set() && limit.is_full());
        drop(first);
        assert_eq!(limit.holders.lock().weight, 0);
    }

    const GRACE: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_full_limit_with_a_grace_period_evicts_holders_that_were_idle_for_it() {
        let (limit, [a, b, c]) = (EvictingLimit::with_grace(10, GRACE), signals());
        let evicting = Arc::clone(&limit);
        let task = tokio::spawn(async move { evicting.evict_overdue().await });
        let start = Instant::now();
        let first = limit.acquire(9, Arc::clone(&a));
        tokio::time::sleep(2 * GRACE).await;
        assert!(!a.is_set(), "the limit is not full");
        let second = limit.acquire(8, Arc::clone(&b));
        a.evicted().await;
        assert_eq!(start.elapsed(), 2 * GRACE, "overdue when the limit fills");
        assert!(limit.is_full(), "an evicted holder keeps its weight until it is dropped");
        drop(first);
        assert!(!limit.is_full() && !b.is_set());
        assert_eq!(limit.holders.lock().weight, 8);

        // A single holder that fills the limit alone is evicted as well, once it is overdue.
        tokio::time::sleep(GRACE / 2).await;
        let third = limit.acquire(10, Arc::clone(&c));
        b.evicted().await;
        assert_eq!(start.elapsed(), 3 * GRACE);
        assert!(!c.is_set() && limit.is_full());
        c.evicted().await;
        assert_eq!(start.elapsed(), 3 * GRACE + GRACE / 2);
        drop((second, third));
        let holders = limit.holders.lock();
        assert_eq!((holders.weight, holders.evicted_weight), (0, 0));
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_makes_progress_is_not_overdue() {
        let (limit, [a, b]) = (EvictingLimit::with_grace(10, GRACE), signals());
        let evicting = Arc::clone(&limit);
        let task = tokio::spawn(async move { evicting.evict_overdue().await });
        let _reading = limit.acquire(8, Arc::clone(&a));
        tokio::time::sleep(GRACE / 2).await;
        // Two responses of one connection: it ends with both.
        let silent = [1, 1].map(|weight| limit.acquire(weight, Arc::clone(&b)));
        for _ in 0..3 {
            tokio::time::sleep(GRACE / 5).await;
            a.set_progress();
        }
        b.evicted().await;
        assert!(!a.is_set());
        drop(silent);
        assert_eq!(limit.holders.lock().weight, 8);
        task.abort();
    }

    #[tokio::test]
    async fn eviction_wakes_the_waiting_task() {
        let (limit, [a]) = (EvictingLimit::new(1), signals());
        let _first = limit.acquire(1, Arc::clone(&a));
        let waiting = tokio::spawn(async move { a.evicted().await });
        tokio::task::yield_now().await;
        let _second = limit.acquire(1, Arc::default());
        waiting.await.unwrap();
    }
}
