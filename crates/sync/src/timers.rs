//! Timers over a clock that the caller supplies.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::oneshot;

/// The longest time that [`Timers::run`] sleeps while a timer is set. The given clock may run
/// faster than the thread's: after a suspend of the machine, or in a test.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Timers that complete a future or run a callback at a deadline.
///
/// Deadlines are positions on a monotonic clock that the driver supplies. In production one thread
/// executes [`run`](Timers::run); a simulation advances its clock and calls [`turn`](Timers::turn).
///
/// ```text
///   clock 12.0 s    12.5: wake r1, wake r2    13.0: callback    31.0: wake r3
///   turn(13.0)  ─►  r1 and r2 complete, then the callback runs
///   close       ─►  r3 completes with Canceled; so does every later sleep
/// ```
///
/// Timers fire in the order of their deadlines, and equal deadlines in the order in which they were
/// set. A dropped receiver leaves its timer in place until the deadline.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use sync::Timers;
///
/// let timers = Timers::default();
/// let mut sleep = timers.sleep_until(Duration::from_secs(3));
/// timers.turn(Duration::from_secs(2));
/// assert_eq!(sleep.try_recv(), Ok(None));
/// timers.turn(Duration::from_secs(3));
/// assert_eq!(sleep.try_recv(), Ok(Some(())));
/// ```
#[derive(Debug, Default)]
pub struct Timers {
    state: Mutex<TimersState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TimersState {
    by_deadline: BTreeMap<Duration, Vec<Action>>,
    is_closed: bool,
}

enum Action {
    Wake(oneshot::Sender<()>),
    Call(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Wake(_) => "Wake",
            Action::Call(_) => "Call",
        })
    }
}

impl Action {
    fn fire(self) {
        match self {
            // A failed send means that the sleeping task was dropped.
            Action::Wake(sender) => drop(sender.send(())),
            Action::Call(callback) => callback(),
        }
    }
}

impl Timers {
    /// Returns a future that completes at `deadline`, or with [`Canceled`](oneshot::Canceled) once
    /// the timers are closed.
    pub fn sleep_until(&self, deadline: Duration) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.set(deadline, Action::Wake(sender));
        receiver
    }

    /// Runs `callback` at `deadline`, on the thread that drives the timers: it must not block.
    /// Closed timers drop the callback.
    pub fn call_at(&self, deadline: Duration, callback: impl FnOnce() + Send + 'static) {
        self.set(deadline, Action::Call(Box::new(callback)));
    }

    fn set(&self, deadline: Duration, action: Action) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        let is_earliest = state.next_deadline().is_none_or(|next| deadline < next);
        state.by_deadline.entry(deadline).or_default().push(action);
        drop(state);
        if is_earliest {
            self.changed.notify_one();
        }
    }

    /// Returns the earliest deadline.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.state.lock().next_deadline()
    }

    /// Fires all timers whose deadline is `now` or earlier.
    pub fn turn(&self, now: Duration) {
        let due = self.state.lock().take_due(now);
        // Outside the lock: a callback may set or close timers.
        due.into_values().flatten().for_each(Action::fire);
    }

    /// Fires timers at their deadlines until the timers are closed: the body of the timer thread.
    /// `now` reads the clock of the deadlines.
    pub fn run(&self, now: impl Fn() -> Duration) {
        loop {
            self.turn(now());
            let mut state = self.state.lock();
            if state.is_closed {
                return;
            }
            match state.next_deadline() {
                None => self.changed.wait(&mut state),
                Some(next) => {
                    let sleep = next.saturating_sub(now()).min(SLEEP_MAX);
                    self.changed.wait_for(&mut state, sleep);
                }
            }
        }
    }

    /// Cancels all timers and ends [`run`](Timers::run). Later timers are canceled at once.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let canceled = std::mem::take(&mut state.by_deadline);
        drop(state);
        // Outside the lock: dropping a sender wakes its waiter.
        drop(canceled);
        self.changed.notify_all();
    }
}

impl TimersState {
    fn next_deadline(&self) -> Option<Duration> {
        self.by_deadline.keys().next().copied()
    }

    fn take_due(&mut self, now: Duration) -> BTreeMap<Duration, Vec<Action>> {
        if self.next_deadline().is_none_or(|next| next > now) {
            return BTreeMap::new();
        }
        let later = self.by_deadline.split_off(&(now.saturating_add(Duration::from_nanos(1))));
        std::mem::replace(&mut self.by_deadline, later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oneshot::Canceled;
    use std::sync::Arc;
    use std::time::Instant;
    use testkit::waiting::wait_until;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn timers_fire_in_the_order_of_deadlines() {
        let (timers, fired) = (Timers::default(), Arc::new(Mutex::new(Vec::new())));
        for (deadline, name) in [(3, 'd'), (1, 'a'), (2, 'b'), (2, 'c')] {
            let fired = Arc::clone(&fired);
            timers.call_at(deadline * SECOND, move || fired.lock().push(name));
        }
        assert_eq!(timers.next_deadline(), Some(SECOND));
        timers.turn(Duration::ZERO);
        assert!(fired.lock().is_empty());
        timers.turn(2 * SECOND);
        assert_eq!(*fired.lock(), ['a', 'b', 'c']);
        assert_eq!(timers.next_deadline(), Some(3 * SECOND));
    }

    #[test]
    fn a_callback_may_set_and_close_timers() {
        let timers = Arc::new(Timers::default());
        let own = Arc::clone(&timers);
        timers.call_at(SECOND, move || {
            own.call_at(2 * SECOND, || panic!("fired after close"));
            own.close();
        });
        timers.turn(SECOND);
        timers.turn(2 * SECOND);
        assert_eq!(timers.next_deadline(), None);
    }

    #[test]
    fn closing_cancels_timers_that_are_set_and_those_set_later() {
        let timers = Timers::default();
        let mut before = timers.sleep_until(Duration::MAX);
        timers.close();
        assert_eq!(before.try_recv(), Err(Canceled));
        assert_eq!(timers.sleep_until(Duration::ZERO).try_recv(), Err(Canceled));
    }

    #[test]
    fn the_thread_wakes_for_a_deadline_that_is_set_while_it_sleeps() {
        let (timers, start) = (Timers::default(), Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| timers.run(|| start.elapsed()));
            let mut late = timers.sleep_until(3600 * SECOND);
            let mut soon = timers.sleep_until(start.elapsed() + Duration::from_millis(5));
            wait_until("a timer of 5 ms is due", || soon.try_recv() == Ok(Some(())));
            assert_eq!(late.try_recv(), Ok(None));
            timers.close();
        });
    }
}
