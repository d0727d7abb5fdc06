//! Wake-ups from other threads, gathered.
//!
//! The answer to a request is often known to another thread first: the one that applied it. Waking a task of a runtime from outside costs a system call each time, and the
//! task then runs alone: its reply is sent before the next one is known. So such wake-ups go into a [`Mailbox`], and only the first wakes the runtime:
//!
//! ```text
//!   apply thread:  wake 1 ──► [1]        one system call
//!                  wake 2 ──► [1 2]
//!                  wake 3 ──► [1 2 3]
//!   net-0:         deliver: 1, 2, 3 run, then their connection, which sends three replies at once
//! ```
//!
//! What is always true: whoever is woken runs; a task is in the box at most once; on the runtime's own thread nothing changes.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use hyper::rt::Executor;

/// The wake-ups of a runtime.
#[derive(Debug)]
pub(crate) struct Mailbox {
    id: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    letters: Vec<Arc<Letter>>,
    /// Whoever delivers them.
    carrier: Option<Waker>,
}

thread_local! {
    /// The mailbox whose runtime this thread runs; zero for none.
    static HERE: Cell<usize> = const { Cell::new(0) };
}

impl Default for Mailbox {
    fn default() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), state: Mutex::default() }
    }
}

impl Mailbox {
    /// From now on this thread runs the runtime of the mailbox.
    pub(crate) fn move_in(&self) {
        HERE.set(self.id);
    }

    /// Delivers, for as long as the runtime runs.
    pub(crate) async fn deliver(self: Arc<Self>) {
        poll_fn(|cx| {
            let mut state = self.lock();
            match &mut state.carrier {
                Some(carrier) => carrier.clone_from(cx.waker()),
                None => state.carrier = Some(cx.waker().clone()),
            }
            let letters = std::mem::take(&mut state.letters);
            drop(state);
            letters.iter().for_each(|letter| letter.open());
            Poll::Pending::<()>
        })
        .await;
    }

    fn post(&self, letter: Arc<Letter>) {
        let mut state = self.lock();
        state.letters.push(letter);
        // While something is in the box, whoever delivers has been called.
        let carrier = if state.letters.len() == 1 { state.carrier.clone() } else { None };
        drop(state);
        carrier.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a task is woken.
struct Letter {
    to: Waker,
    mailbox: Arc<Mailbox>,
    is_posted: AtomicBool,
}

impl Letter {
    /// Before the task is woken: what happens from then on is to wake it again. And what whoever found this posted did before that, the task sees: hence a swap,
    /// which also acquires.
    fn open(&self) {
        self.is_posted.swap(false, Ordering::AcqRel);
        self.to.wake_by_ref();
    }
}

impl Wake for Letter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if HERE.get() == self.mailbox.id {
            self.to.wake_by_ref();
        } else if !self.is_posted.swap(true, Ordering::AcqRel) {
            self.mailbox.post(Arc::clone(self));
        }
    }
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Letter").field("to", &self.to).finish_non_exhaustive()
    }
}

/// A task that is woken through the mailbox.
struct Mailed<F> {
    // In a box of its own: the future of a request is large, and a runtime moves a task several times before and after it runs.
    future: Pin<Box<F>>,
    mailbox: Arc<Mailbox>,
    /// Made for the waker that the runtime handed out, and from it.
    waker: Option<(Waker, Waker)>,
}

impl<F: Future> Future for Mailed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let is_known =
            this.waker.as_ref().is_some_and(|(runtime, _)| runtime.will_wake(cx.waker()));
        if !is_known {
            let mailbox = Arc::clone(&this.mailbox);
            let to = cx.waker().clone();
            let letter = Letter { to: to.clone(), mailbox, is_posted: AtomicBool::new(false) };
            this.waker = Some((to, Waker::from(Arc::new(letter))));
        }
        let waker = this.waker.as_ref().map_or(cx.waker(), |(_, mailed)| mailed);
        this.future.as_mut().poll(&mut Context::from_waker(waker))
    }
}

/// Spawns requests as tasks that are woken through the mailbox of this thread's runtime.
#[derive(Clone, Debug)]
pub(crate) struct MailExecutor(pub(crate) Arc<Mailbox>);

impl<F> Executor<F> for MailExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        let (future, mailbox) = (Box::pin(future), Arc::clone(&self.0));
        tokio::spawn(Mailed { future, mailbox, waker: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    /// A waker that counts.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn letter(mailbox: &Arc<Mailbox>, count: &Arc<Count>) -> Waker {
        let to = Waker::from(Arc::clone(count));
        let is_posted = AtomicBool::new(false);
        Waker::from(Arc::new(Letter { to, mailbox: Arc::clone(mailbox), is_posted }))
    }

    fn deliver(mailbox: &Arc<Mailbox>, carrier: &Arc<Count>) {
        let waker = Waker::from(Arc::clone(carrier));
        let mut delivery = Box::pin(Arc::clone(mailbox).deliver());
        assert!(delivery.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }

    #[test]
    fn many_wake_ups_call_the_runtime_once() {
        let mailbox = Arc::new(Mailbox::default());
        let (carrier, first, second) = <(Arc<Count>, Arc<Count>, Arc<Count>)>::default();
        deliver(&mailbox, &carrier);
        let (to_first, to_second) = (letter(&mailbox, &first), letter(&mailbox, &second));
        to_first.wake_by_ref();
        to_first.wake_by_ref();
        to_second.wake_by_ref();
        let counts = || [&carrier, &first, &second].map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(counts(), [1, 0, 0]);
        deliver(&mailbox, &carrier);
        assert_eq!(counts(), [1, 1, 1]);
        to_first.wake_by_ref();
        assert_eq!(counts(), [2, 1, 1], "an empty box calls again");
        deliver(&mailbox, &carrier);
        assert_eq!(counts(), [2, 2, 1]);
    }

    #[test]
    fn on_its_own_thread_a_task_is_woken_at_once() {
        let mailbox = Arc::new(Mailbox::default());
        let count = Arc::new(Count::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                mailbox.move_in();
                letter(&mailbox, &count).wake();
            });
        });
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(mailbox.lock().letters.is_empty());
    }

    #[test]
    fn a_task_that_another_thread_wakes_comes_to_its_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mailbox = Arc::new(Mailbox::default());
        mailbox.move_in();
        let _within = runtime.enter();
        tokio::spawn(Arc::clone(&mailbox).deliver());
        let (done, wait) = mpsc::channel();
        let senders: Vec<_> = (0..100)
            .map(|number| {
                let (sender, receiver) = oneshot::channel::<usize>();
                let done = done.clone();
                MailExecutor(Arc::clone(&mailbox)).execute(async move {
                    done.send(receiver.await.unwrap() + number).unwrap();
                });
                sender
            })
            .collect();
        let other = std::thread::spawn(|| {
            senders.into_iter().for_each(|sender| sender.send(1000).unwrap());
        });
        drop(done);
        let mut answers = Vec::new();
        runtime.block_on(async {
            while answers.len() < 100 {
                answers.extend(wait.try_iter());
                tokio::task::yield_now().await;
            }
        });
        other.join().unwrap();
        answers.sort_unstable();
        assert_eq!(answers, (1000..1100).collect::<Vec<_>>());
    }
}
