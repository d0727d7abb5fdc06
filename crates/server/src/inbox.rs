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
    /// Whether the stage sleeps: waking costs a system call, which is saved while it is at work.
    sleeps: bool,
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        let queue = Queue { items: Vec::new(), sleeps: false, closed: false };
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
        self.wake_from(queue);
        true
    }

    /// Takes all that waits, behind what is in `into`.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        let mut queue = self.lock();
        if into.is_empty() {
            // The buffer is handed back and forth, so that neither side allocates.
            std::mem::swap(&mut queue.items, into);
        } else {
            into.append(&mut queue.items);
        }
    }

    /// Sleeps until something waits, it is closed, or so much time has passed.
    pub(crate) fn wait(&self, time: Option<Duration>) {
        let mut queue = self.lock();
        if !queue.items.is_empty() || queue.closed {
            return;
        }
        queue.sleeps = true;
        let idle = |queue: &mut Queue<T>| queue.items.is_empty() && !queue.closed;
        let mut queue = match time {
            Some(time) => {
                let woken = self.wake.wait_timeout_while(queue, time, idle);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.wake.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner),
        };
        queue.sleeps = false;
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
        let wakes = std::mem::take(&mut queue.sleeps);
        drop(queue);
        if wakes {
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
