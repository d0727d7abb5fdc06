//! What waits for a stage of the pipeline.
//!
//! A stage takes everything that waits at once and works through it; meanwhile more gathers. So the busier it is, the more it does in one go: an
//! append to the log carries all proposals that came while the last one was being synced. In production a thread sleeps in
//! [`Inbox::wait`]; a simulation calls [`Inbox::take`] when it pleases.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue with many senders and one stage that empties it.
///
/// It has no bound of its own: what comes from outside is bounded where it comes in, and stages answer each other one by one.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    queue: Mutex<Queue<T>>,
    wake: Condvar,
}

#[derive(Debug)]
struct Queue<T> {
    items: Vec<T>,
    /// Whether one of them cannot wait.
    is_urgent: bool,
    /// Whether the stage sleeps: waking costs a system call, which is saved while it is at work.
    sleep: Sleep,
    closed: bool,
}

/// How a stage sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Not at all.
    Awake,
    /// Whatever comes wakes it.
    Lightly,
    /// What can wait does not: something else that it waits for comes soon, and both are then dealt with at once.
    Soundly,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        let queue =
            Queue { items: Vec::new(), is_urgent: false, sleep: Sleep::Awake, closed: false };
        Inbox { queue: Mutex::new(queue), wake: Condvar::new() }
    }
}

impl<T> Inbox<T> {
    /// Adds one. False if the stage takes nothing any more; the item is dropped then.
    pub(crate) fn push(&self, item: T) -> bool {
        let mut queue = self.lock();
        if queue.closed {
            return false;
        }
        queue.items.push(item);
        queue.is_urgent = true;
        self.wake_from(queue);
        true
    }

    /// Adds one that can wait, if the stage sleeps soundly.
    pub(crate) fn push_quietly(&self, item: T) -> bool {
        let mut queue = self.lock();
        if queue.closed {
            return false;
        }
        queue.items.push(item);
        if queue.sleep != Sleep::Soundly {
            self.wake_from(queue);
        }
        true
    }

    /// Takes all that waits, behind what is in `into`.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        let mut queue = self.lock();
        queue.is_urgent = false;
        if into.is_empty() {
            // The buffer is handed back and forth, so that neither side allocates.
            std::mem::swap(&mut queue.items, into);
        } else {
            into.append(&mut queue.items);
        }
    }

    /// Sleeps until something waits, it is closed, or so much time has passed.
    pub(crate) fn wait(&self, time: Option<Duration>) {
        self.wait_so(time, Sleep::Lightly);
    }

    /// The same, lightly or soundly. What waits already counts as if it came now.
    pub(crate) fn wait_so(&self, time: Option<Duration>, sleep: Sleep) {
        let mut queue = self.lock();
        let is_soon = match sleep {
            Sleep::Soundly => queue.is_urgent,
            Sleep::Awake | Sleep::Lightly => !queue.items.is_empty(),
        };
        if is_soon || queue.closed {
            return;
        }
        queue.sleep = sleep;
        let idle = |queue: &mut Queue<T>| queue.sleep != Sleep::Awake && !queue.closed;
        let mut queue = match time {
            Some(time) => {
                let woken = self.wake.wait_timeout_while(queue, time, idle);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.wake.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner),
        };
        queue.sleep = Sleep::Awake;
    }

    /// Takes nothing more. What waits can still be taken.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        self.wake_from(queue);
    }

    /// Whether nothing more comes, and nothing waits.
    pub(crate) fn is_over(&self) -> bool {
        let queue = self.lock();
        queue.closed && queue.items.is_empty()
    }

    fn wake_from(&self, mut queue: MutexGuard<'_, Queue<T>>) {
        let before = std::mem::replace(&mut queue.sleep, Sleep::Awake);
        drop(queue);
        if before != Sleep::Awake {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn all_that_waits_is_taken_in_order() {
        let inbox = Inbox::default();
        assert!(inbox.push(1) && inbox.push(2));
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert!(inbox.push(3));
        inbox.take(&mut taken);
        assert_eq!(taken, [1, 2, 3]);
    }

    #[test]
    fn a_closed_inbox_still_gives_what_it_has() {
        let inbox = Inbox::default();
        inbox.push(1);
        inbox.close();
        assert!(!inbox.push(2));
        assert!(!inbox.is_over());
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert_eq!(taken, [1]);
        assert!(inbox.is_over());
    }

    #[test]
    fn a_sound_sleep_is_disturbed_by_what_cannot_wait() {
        let inbox = Arc::new(Inbox::default());
        inbox.push_quietly(1);
        let sleeper = {
            let inbox = Arc::clone(&inbox);
            std::thread::spawn(move || {
                let mut taken = Vec::new();
                inbox.wait_so(None, Sleep::Soundly);
                inbox.take(&mut taken);
                taken
            })
        };
        while inbox.lock().sleep != Sleep::Soundly {
            std::thread::yield_now();
        }
        inbox.push_quietly(2);
        assert_eq!(inbox.lock().sleep, Sleep::Soundly);
        inbox.push(3);
        assert_eq!(sleeper.join().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn nobody_falls_asleep_over_what_cannot_wait() {
        let inbox = Inbox::default();
        inbox.push(1);
        inbox.wait_so(None, Sleep::Soundly);
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        inbox.push_quietly(2);
        inbox.wait(None);
        inbox.take(&mut taken);
        assert_eq!(taken, [1, 2]);
    }

    #[test]
    fn whoever_sleeps_is_woken() {
        let inbox = Arc::new(Inbox::default());
        let sleeper = {
            let inbox = Arc::clone(&inbox);
            std::thread::spawn(move || {
                let mut taken = Vec::new();
                while !inbox.is_over() {
                    inbox.wait(None);
                    inbox.take(&mut taken);
                }
                taken
            })
        };
        (0..1000).for_each(|item| assert!(inbox.push(item)));
        inbox.close();
        assert_eq!(sleeper.join().unwrap(), (0..1000).collect::<Vec<_>>());
    }
}
