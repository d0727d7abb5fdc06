//! Who has to go when there is no room for all.
//!
//! Whatever strangers can make a member keep is bounded, and the bound can be reached by whoever means ill. Then somebody must be turned away, and it must not be
//! the newcomer, or all who mean well would be shut out for as long as an attacker likes. Who means well is done in a moment; who has been there the longest is most
//! likely somebody who never will be. So the first to come is the first to go:
//!
//! ```text
//!   weight_max 10      guests, oldest first     join with 4
//!                      A 5, B 2, C 3            B 2, C 3, D 4        A is shown its Exit
//! ```
//!
//! To shut out one who means well, an attacker has to fill all of the bound in the time that one needs.
//!
//! *Invariants:* guests weigh no more than the bound together, except for a single one that is heavier alone, and for those younger than
//! [`Crowd::spared_for`]; what a guest weighs is given back when it is dropped, or shown out.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// What many share.
#[derive(Debug)]
pub struct Crowd {
    weight_max: usize,
    spared_for: Duration,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    weight: usize,
    /// The number of the next one: they are numbered as they come.
    next: u64,
    there: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    weight: usize,
    came: Instant,
    exit: Arc<Exit>,
}

impl Crowd {
    /// Guests of so much together.
    pub fn new(weight_max: usize) -> Arc<Self> {
        Self::sparing(weight_max, Duration::ZERO)
    }

    /// The same, where nobody has to go before some time has passed.
    pub fn sparing(weight_max: usize, spared_for: Duration) -> Arc<Self> {
        Arc::new(Self { weight_max, spared_for, guests: Mutex::default() })
    }

    /// Lets somebody in, and shows out whoever has to go for that.
    pub fn join(self: &Arc<Self>, weight: usize, exit: Arc<Exit>) -> Guest {
        let mut guests = self.lock();
        let number = guests.next;
        guests.next += 1;
        guests.weight += weight;
        guests.there.insert(number, Entry { weight, came: Instant::now(), exit });
        let out = guests.make_room(self.weight_max, self.spared_for);
        drop(guests);
        out.iter().for_each(|exit| exit.show());
        Guest { crowd: Arc::clone(self), number }
    }

    /// Whether there is no room left.
    pub fn is_full(&self) -> bool {
        self.lock().weight >= self.weight_max
    }

    fn lock(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guests {
    /// Takes out the oldest until the rest is light enough, or there is only one.
    fn make_room(&mut self, weight_max: usize, spared_for: Duration) -> Vec<Arc<Exit>> {
        let (mut out, now) = (Vec::new(), Instant::now());
        while self.weight > weight_max
            && self.there.len() > 1
            && let Some(oldest) = self.there.first_entry()
            && now.duration_since(oldest.get().came) >= spared_for
        {
            let entry = oldest.remove();
            self.weight -= entry.weight;
            out.push(entry.exit);
        }
        out
    }
}

/// Somebody who was let in. Leaves when dropped.
#[derive(Debug)]
pub struct Guest {
    crowd: Arc<Crowd>,
    number: u64,
}

impl Guest {
    /// Says what it weighs now.
    pub fn weigh(&mut self, weight: usize) {
        let crowd = &self.crowd;
        let mut guests = crowd.lock();
        let Some(entry) = guests.there.get_mut(&self.number) else { return };
        let before = std::mem::replace(&mut entry.weight, weight);
        guests.weight = guests.weight - before + weight;
        let out = guests.make_room(crowd.weight_max, crowd.spared_for);
        drop(guests);
        out.iter().for_each(|exit| exit.show());
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut guests = self.crowd.lock();
        if let Some(entry) = guests.there.remove(&self.number) {
            guests.weight -= entry.weight;
        }
    }
}

/// The way out, for one task to watch.
#[derive(Debug, Default)]
pub struct Exit(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    is_shown: bool,
    waker: Option<Waker>,
}

impl Exit {
    /// Ready once there is no room any more for whoever asks. The task that asked last is woken.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut shown = self.lock();
        if shown.is_shown {
            return Poll::Ready(());
        }
        match &mut shown.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Whether there is none any more.
    pub(crate) fn is_shown(&self) -> bool {
        self.lock().is_shown
    }

    /// The same, as a future.
    pub async fn shown(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Shows it.
    pub(crate) fn show(&self) {
        let mut shown = self.lock();
        shown.is_shown = true;
        let waker = shown.waker.take();
        drop(shown);
        waker.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_shown(exit: &Exit) -> bool {
        exit.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn exits<const N: usize>() -> [Arc<Exit>; N] {
        std::array::from_fn(|_| Arc::default())
    }

    #[test]
    fn the_first_to_come_is_the_first_to_go() {
        let (crowd, [a, b, c, d]) = (Crowd::new(10), exits());
        let _guests = [
            crowd.join(5, Arc::clone(&a)),
            crowd.join(2, Arc::clone(&b)),
            crowd.join(3, Arc::clone(&c)),
        ];
        assert!(crowd.is_full() && !is_shown(&a));
        let _guest = crowd.join(4, Arc::clone(&d));
        assert_eq!([&a, &b, &c, &d].map(|exit| is_shown(exit)), [true, false, false, false]);
        assert_eq!(crowd.lock().weight, 9);
    }

    #[test]
    fn who_grows_drives_out_those_before_it_or_has_to_go_itself() {
        let (crowd, [a, b]) = (Crowd::new(10), exits());
        let mut first = crowd.join(5, Arc::clone(&a));
        let mut second = crowd.join(5, Arc::clone(&b));
        let _third = crowd.join(0, Arc::default());
        second.weigh(6);
        assert!(is_shown(&a) && !is_shown(&b));
        first.weigh(100);
        assert_eq!(crowd.lock().weight, 6, "who was shown out weighs nothing");
        drop(first);
        assert_eq!(crowd.lock().weight, 6);
        second.weigh(11);
        assert!(is_shown(&b), "there is nobody before it");
        assert_eq!(crowd.lock().weight, 0);
    }

    #[test]
    fn alone_one_may_be_as_heavy_as_it_likes() {
        let (crowd, [a]) = (Crowd::new(10), exits());
        let mut first = crowd.join(5, Arc::clone(&a));
        first.weigh(11);
        assert!(!is_shown(&a) && crowd.is_full());
        drop(first);
        assert_eq!(crowd.lock().weight, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_came_just_now_may_be_spared() {
        let (crowd, [a]) = (Crowd::sparing(10, Duration::from_secs(5)), exits());
        let _first = crowd.join(8, Arc::clone(&a));
        let _second = crowd.join(8, Arc::default());
        assert!(!is_shown(&a));
        tokio::time::advance(Duration::from_secs(5)).await;
        let _third = crowd.join(8, Arc::default());
        assert!(is_shown(&a));
        assert_eq!(crowd.lock().weight, 8, "the second as well");
    }

    #[tokio::test]
    async fn who_waits_at_the_exit_is_woken() {
        let (crowd, [a]) = (Crowd::new(1), exits());
        let _first = crowd.join(1, Arc::clone(&a));
        let waiting = tokio::spawn(async move { a.shown().await });
        tokio::task::yield_now().await;
        let _second = crowd.join(1, Arc::default());
        waiting.await.unwrap();
    }
}
