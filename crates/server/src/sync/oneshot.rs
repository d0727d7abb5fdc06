//! One answer, given once by a thread and awaited once by somebody else, without a runtime.
//!
//! A [`Promise`] is kept by whoever will know, a [`Waiting`] by whoever wants to. Keeping it wakes the other, be that a task of some runtime or, in a
//! test, nobody. A promise that is dropped is broken: whoever waits gets nothing, at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Makes both ends.
pub(crate) fn promise<T>() -> (Promise<T>, Waiting<T>) {
    let slot = Arc::new(Slot(Mutex::new(State::Open(None))));
    (Promise(Some(Arc::clone(&slot))), Waiting(slot))
}

/// The end of whoever will know.
#[derive(Debug)]
pub(crate) struct Promise<T>(Option<Arc<Slot<T>>>);

/// The end of whoever waits: the answer, or none if it will never come.
#[derive(Debug)]
#[must_use = "nothing is waited for unless it is polled"]
pub(crate) struct Waiting<T>(Arc<Slot<T>>);

#[derive(Debug)]
struct Slot<T>(Mutex<State<T>>);

#[derive(Debug)]
enum State<T> {
    /// Nothing yet; and whom to wake.
    Open(Option<Waker>),
    Kept(T),
    /// Broken, or taken.
    Over,
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, state: State<T>) {
        let mut slot = self.lock();
        if let State::Open(waker) = std::mem::replace(&mut *slot, state) {
            drop(slot);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T> Promise<T> {
    /// Whether somebody still waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| Arc::strong_count(slot) > 1)
    }

    /// Gives the answer.
    pub(crate) fn keep(mut self, value: T) {
        if let Some(slot) = self.0.take() {
            slot.close(State::Kept(value));
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.close(State::Over);
        }
    }
}

impl<T> Waiting<T> {
    /// The answer if it is there.
    #[cfg(test)]
    pub(crate) fn try_take(&self) -> Option<T> {
        let mut slot = self.0.lock();
        match std::mem::replace(&mut *slot, State::Over) {
            State::Kept(value) => Some(value),
            open => {
                *slot = open;
                None
            }
        }
    }
}

impl<T> Future for Waiting<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.0.lock();
        match &mut *slot {
            State::Open(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            _ => Poll::Ready(match std::mem::replace(&mut *slot, State::Over) {
                State::Kept(value) => Some(value),
                State::Open(_) | State::Over => None,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll<T>(waiting: &mut Waiting<T>, count: &Arc<Count>) -> Poll<Option<T>> {
        let waker = Waker::from(Arc::clone(count));
        Pin::new(waiting).poll(&mut Context::from_waker(&waker))
    }

    #[test]
    fn a_kept_promise_wakes_whoever_waits() {
        let (promise, mut waiting) = promise();
        let count = Arc::new(Count::default());
        assert_eq!(poll(&mut waiting, &count), Poll::Pending);
        promise.keep(7);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(&mut waiting, &count), Poll::Ready(Some(7)));
    }

    #[test]
    fn a_broken_promise_wakes_too() {
        let (promise, mut waiting) = promise::<u32>();
        let count = Arc::new(Count::default());
        assert_eq!(poll(&mut waiting, &count), Poll::Pending);
        drop(promise);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(&mut waiting, &count), Poll::Ready(None));
    }

    #[test]
    fn an_answer_that_nobody_polled_for_is_there() {
        let (promise, waiting) = promise();
        assert_eq!(waiting.try_take(), None);
        promise.keep("a");
        assert_eq!(waiting.try_take(), Some("a"));
        assert_eq!(waiting.try_take(), None);
    }
}
