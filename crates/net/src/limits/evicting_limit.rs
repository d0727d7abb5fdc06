//! A weighted limit that evicts its oldest holders when full.
//!
//! Clients can fill every bound on what a member holds for them. Refusing the newest would let an
//! attacker shut out honest clients for as long as it likes. An honest client is done quickly, so
//! the holder that has been there the longest is most likely one that never finishes. The limit
//! therefore evicts in order of age:
//!
//! ```text
//!   weight_max 10      holders, oldest first    acquire(4)
//!                      A 5, B 2, C 3            B 2, C 3, D 4        A is evicted
//! ```
//!
//! To shut out an honest client, an attacker has to fill the whole limit in the time that client
//! needs.
//!
//! Invariants: the holders weigh at most `weight_max` together, except for a single holder that is
//! heavier alone and for holders younger than the grace period; a permit returns its weight when it
//! is dropped or evicted.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A weighted limit that evicts its oldest holders when full.
#[derive(Debug)]
pub struct EvictingLimit {
    weight_max: usize,
    grace: Duration,
    holders: Mutex<Holders>,
}

#[derive(Debug, Default)]
struct Holders {
    weight: usize,
    /// The id of the next permit. Ids grow, so the map is ordered by age.
    next_id: u64,
    by_id: BTreeMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    weight: usize,
    since: Instant,
    evicted: Arc<Evicted>,
}

impl EvictingLimit {
    /// Creates a limit on the total weight of all holders.
    pub fn new(weight_max: usize) -> Arc<Self> {
        Self::with_grace(weight_max, Duration::ZERO)
    }

    /// Creates a limit that never evicts a holder younger than `grace`.
    pub fn with_grace(weight_max: usize, grace: Duration) -> Arc<Self> {
        Arc::new(Self { weight_max, grace, holders: Mutex::default() })
    }

    /// Adds a holder and evicts the oldest ones until the rest fits. Eviction sets `evicted`.
    pub fn acquire(self: &Arc<Self>, weight: usize, evicted: Arc<Evicted>) -> Permit {
        let mut holders = self.holders.lock();
        let id = holders.next_id;
        holders.next_id += 1;
        holders.weight += weight;
        holders.by_id.insert(id, Holder { weight, since: Instant::now(), evicted });
        let removed = holders.make_room(self.weight_max, self.grace);
        drop(holders);
        removed.iter().for_each(|evicted| evicted.set());
        Permit { limit: Arc::clone(self), id }
    }

    /// Returns whether the whole weight is in use.
    pub fn is_full(&self) -> bool {
        self.holders.lock().weight >= self.weight_max
    }
}

impl Holders {
    /// Removes the oldest holders until the rest fits or only one is left.
    fn make_room(&mut self, weight_max: usize, grace: Duration) -> Vec<Arc<Evicted>> {
        let (mut removed, now) = (Vec::new(), Instant::now());
        while self.weight > weight_max
            && self.by_id.len() > 1
            && let Some(oldest) = self.by_id.first_entry()
            && now.duration_since(oldest.get().since) >= grace
        {
            let holder = oldest.remove();
            self.weight -= holder.weight;
            removed.push(holder.evicted);
        }
        removed
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
        holders.weight = holders.weight - before + weight;
        let removed = holders.make_room(limit.weight_max, limit.grace);
        drop(holders);
        removed.iter().for_each(|evicted| evicted.set());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut holders = self.limit.holders.lock();
        if let Some(holder) = holders.by_id.remove(&self.id) {
            holders.weight -= holder.weight;
        }
    }
}

/// The eviction signal of one or more permits, awaited by one task.
#[derive(Debug, Default)]
pub struct Evicted(Mutex<Signal>);

#[derive(Debug, Default)]
struct Signal {
    is_set: bool,
    waker: Option<Waker>,
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

    #[tokio::test(start_paused = true)]
    async fn holders_are_not_evicted_within_the_grace_period() {
        let (limit, [a]) = (EvictingLimit::with_grace(10, Duration::from_secs(5)), signals());
        let _first = limit.acquire(8, Arc::clone(&a));
        let _second = limit.acquire(8, Arc::default());
        assert!(!a.is_set());
        tokio::time::advance(Duration::from_secs(5)).await;
        let _third = limit.acquire(8, Arc::default());
        assert!(a.is_set());
        assert_eq!(limit.holders.lock().weight, 8, "the second was evicted as well");
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
