//! A wake-up of one thread, without a value.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes one thread, without a value.
///
/// [`notify`](Notify::notify) stores a wake-up that the next [`wait`](Notify::wait) consumes.
/// Several notifications before a wait coalesce into one: the waiting thread looks for all its work
/// anyway.
///
/// [`close`](Notify::close) ends the waiting thread: every `wait` returns false from then on.
///
/// # Examples
///
/// A thread that processes work until it is closed:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use sync::Notify;
///
/// let (notify, work) = (Arc::new(Notify::default()), Arc::new(AtomicU32::new(0)));
/// let thread = std::thread::spawn({
///     let (notify, work) = (Arc::clone(&notify), Arc::clone(&work));
///     move || {
///         let mut done = 0;
///         while done < 2 && notify.wait(None) {
///             done += work.swap(0, Ordering::SeqCst);
///         }
///         done
///     }
/// });
/// for _ in 0..2 {
///     work.fetch_add(1, Ordering::SeqCst);
///     notify.notify();
/// }
/// assert_eq!(thread.join().unwrap(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Notify {
    state: Mutex<NotifyState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NotifyState {
    #[default]
    Idle,
    Notified,
    Closed,
}

impl Notify {
    /// Wakes the waiting thread, or lets the next [`wait`](Notify::wait) return at once.
    pub fn notify(&self) {
        let mut state = self.state.lock();
        if *state == NotifyState::Idle {
            *state = NotifyState::Notified;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Blocks until a notification, the timeout or [`close`](Notify::close). Without a timeout it
    /// blocks for as long as it takes.
    ///
    /// Returns false if the notify is closed and the thread should end.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        let is_idle = |state: &mut NotifyState| *state == NotifyState::Idle;
        match timeout {
            Some(timeout) => drop(self.changed.wait_while_for(&mut state, is_idle, timeout)),
            None => self.changed.wait_while(&mut state, is_idle),
        }
        if *state == NotifyState::Notified {
            *state = NotifyState::Idle;
        }
        *state != NotifyState::Closed
    }

    /// Returns whether a notification is stored that no `wait` has consumed.
    pub fn is_notified(&self) -> bool {
        *self.state.lock() == NotifyState::Notified
    }

    /// Ends the waiting thread: this and every later [`wait`](Notify::wait) returns false.
    pub fn close(&self) {
        *self.state.lock() = NotifyState::Closed;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_coalesce_and_a_timeout_is_no_reason_to_end() {
        let notify = Notify::default();
        notify.notify();
        notify.notify();
        assert!(notify.is_notified());
        assert!(notify.wait(None), "consumes the stored notification");
        assert!(!notify.is_notified());
        assert!(notify.wait(Some(Duration::ZERO)), "timed out, and still open");
    }

    #[test]
    fn a_closed_notify_stays_closed() {
        let notify = Notify::default();
        notify.close();
        notify.notify();
        assert!(!notify.wait(None));
        assert!(!notify.wait(None));
    }
}
