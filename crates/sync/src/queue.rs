//! The inbox of a stage: many producers, one consumer that takes whole batches.

use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A queue with many producers and one consumer, which takes all queued items at once.
///
/// While the consumer works through a batch, the next one builds up. The busier it is, the larger
/// its batches become: one append to a log carries all proposals that arrived during the last sync.
///
/// # Wake-ups
///
/// Waking a sleeping thread is a system call. Two rules save most of them:
///
/// - A consumer that is awake is not woken: it takes the item with its next batch.
/// - An item of [`push_deferred`](Queue::push_deferred) does not wake a consumer that sleeps with
///   [`WakeOn::Urgent`]. Such a consumer expects an urgent item soon and handles both together.
///
/// ```text
///   consumer               push                 push_deferred
///   awake                  no wake-up           no wake-up
///   wait (WakeOn::Any)     wakes                wakes
///   wait (WakeOn::Urgent)  wakes                no wake-up: queued until the next urgent item
/// ```
///
/// # Bounds
///
/// The queue has no bound of its own. Bound the producers: by a limit where requests enter, or by
/// stages that answer each item with at most one of their own.
///
/// # Examples
///
/// ```
/// use sync::Queue;
///
/// let queue = Queue::default();
/// queue.push("a");
/// queue.push("b");
/// let mut batch = Vec::new();
/// queue.wait(None);
/// queue.take(&mut batch);
/// assert_eq!(batch, ["a", "b"]);
///
/// queue.close();
/// assert!(!queue.push("c"));
/// assert!(queue.is_finished());
/// ```
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    items: Vec<T>,
    /// Whether an urgent item was pushed since the last `take`.
    has_urgent: bool,
    /// The wake-up condition of the sleeping consumer, if it sleeps.
    sleeping: Option<WakeOn>,
    is_closed: bool,
}

/// The items that wake a sleeping consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeOn {
    /// Every item.
    Any,
    /// Items of [`Queue::push`] only; deferred items wait for the next of them.
    Urgent,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        let state =
            QueueState { items: Vec::new(), has_urgent: false, sleeping: None, is_closed: false };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<T> Queue<T> {
    /// Queues an urgent item, which wakes the consumer. Returns false and drops the item if the
    /// queue is closed.
    pub fn push(&self, item: T) -> bool {
        let mut state = self.state.lock();
        if state.is_closed {
            return false;
        }
        state.items.push(item);
        state.has_urgent = true;
        self.wake(state);
        true
    }

    /// Queues an item that does not wake a consumer which sleeps with [`WakeOn::Urgent`]. Returns
    /// false and drops the item if the queue is closed.
    pub fn push_deferred(&self, item: T) -> bool {
        let mut state = self.state.lock();
        if state.is_closed {
            return false;
        }
        state.items.push(item);
        if state.sleeping != Some(WakeOn::Urgent) {
            self.wake(state);
        }
        true
    }

    /// Appends all queued items to `batch`, in the order of their pushes. An empty `batch` is
    /// swapped with the queue's buffer, so that neither side allocates.
    pub fn take(&self, batch: &mut Vec<T>) {
        let mut state = self.state.lock();
        state.has_urgent = false;
        if batch.is_empty() {
            std::mem::swap(&mut state.items, batch);
        } else {
            batch.append(&mut state.items);
        }
    }

    /// Blocks until an item is queued, the queue is closed, or the timeout passes.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.wait_for(WakeOn::Any, timeout);
    }

    /// Blocks as [`wait`](Queue::wait) does, until an item arrives that `wake_on` names. Returns at
    /// once if such an item is queued already.
    pub fn wait_for(&self, wake_on: WakeOn, timeout: Option<Duration>) {
        let mut state = self.state.lock();
        let is_ready = match wake_on {
            WakeOn::Urgent => state.has_urgent,
            WakeOn::Any => !state.items.is_empty(),
        };
        if is_ready || state.is_closed {
            return;
        }
        state.sleeping = Some(wake_on);
        let is_idle = |state: &mut QueueState<T>| state.sleeping.is_some() && !state.is_closed;
        match timeout {
            Some(timeout) => drop(self.changed.wait_while_for(&mut state, is_idle, timeout)),
            None => self.changed.wait_while(&mut state, is_idle),
        }
        state.sleeping = None;
    }

    /// Refuses further items and wakes the consumer. Queued items can still be taken.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.wake(state);
    }

    /// Returns whether the queue is closed and empty.
    pub fn is_finished(&self) -> bool {
        let state = self.state.lock();
        state.is_closed && state.items.is_empty()
    }

    /// Wakes the consumer if it sleeps, after releasing the lock.
    fn wake(&self, mut state: MutexGuard<'_, QueueState<T>>) {
        let was_sleeping = state.sleeping.take().is_some();
        drop(state);
        if was_sleeping {
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use testkit::waiting::wait_until;

    #[test]
    fn items_are_taken_in_the_order_of_their_pushes() {
        let queue = Queue::default();
        assert!(queue.push(1) && queue.push(2));
        let mut batch = Vec::new();
        queue.take(&mut batch);
        assert!(queue.push(3));
        queue.take(&mut batch);
        assert_eq!(batch, [1, 2, 3]);
    }

    #[test]
    fn a_closed_queue_refuses_items_and_hands_out_the_queued_ones() {
        let queue = Queue::default();
        queue.push(1);
        queue.close();
        assert!(!queue.push(2) && !queue.push_deferred(2));
        assert!(!queue.is_finished());
        let mut batch = Vec::new();
        queue.take(&mut batch);
        assert_eq!(batch, [1]);
        assert!(queue.is_finished());
    }

    #[test]
    fn a_deferred_item_does_not_wake_a_consumer_that_waits_for_urgent_ones() {
        let queue = Arc::new(Queue::default());
        queue.push_deferred(1);
        let consumer = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                let mut batch = Vec::new();
                queue.wait_for(WakeOn::Urgent, None);
                queue.take(&mut batch);
                batch
            })
        };
        wait_until("the consumer sleeps", || queue.state.lock().sleeping == Some(WakeOn::Urgent));
        queue.push_deferred(2);
        assert_eq!(queue.state.lock().sleeping, Some(WakeOn::Urgent));
        queue.push(3);
        assert_eq!(consumer.join().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn waiting_returns_at_once_if_a_matching_item_is_queued() {
        let queue = Queue::default();
        queue.push(1);
        queue.wait_for(WakeOn::Urgent, None);
        let mut batch = Vec::new();
        queue.take(&mut batch);
        queue.push_deferred(2);
        queue.wait(None);
        queue.take(&mut batch);
        assert_eq!(batch, [1, 2]);
    }

    #[test]
    fn waiting_ends_at_the_timeout() {
        let queue = Queue::<u32>::default();
        queue.wait(Some(Duration::from_millis(1)));
        queue.wait_for(WakeOn::Urgent, Some(Duration::ZERO));
        assert_eq!(queue.state.lock().sleeping, None);
    }

    #[test]
    fn a_sleeping_consumer_gets_every_item() {
        let queue = Arc::new(Queue::default());
        let consumer = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                let mut batch = Vec::new();
                while !queue.is_finished() {
                    queue.wait(None);
                    queue.take(&mut batch);
                }
                batch
            })
        };
        (0..1000).for_each(|item| assert!(queue.push(item)));
        queue.close();
        assert_eq!(consumer.join().unwrap(), (0..1000).collect::<Vec<_>>());
    }
}
