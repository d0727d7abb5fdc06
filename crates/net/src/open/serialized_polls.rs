//! Polls handshakes one at a time.
//!
//! A handshake computes for a millisecond or two, a request for microseconds. Many handshakes at
//! once must not delay requests. So each runtime polls only one of them at a time, and only after
//! every other ready task has run:
//!
//! ```text
//!   ready: handshakes A B C, requests 1 2          runs: A 1 2 B 3 C 4 5 ..
//! ```
//!
//! A handshake that waits for its client holds no permit: silent clients delay nothing.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Runs a future whose polls take long, one poll per permit.
pub(crate) async fn serialize_polls<F: Future>(turns: &Semaphore, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let turn = turns.acquire().await;
        yield_now().await;
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        drop(turn);
        match polled {
            Poll::Ready(output) => return output,
            Poll::Pending => wait_for_wake().await,
        }
    }
}

/// Waits until the future that was just polled wakes this task. No wake-up is lost: both polls
/// belong to the same poll of the task.
async fn wait_for_wake() {
    let mut is_first = true;
    poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::sync::oneshot;
    use tokio::task::JoinSet;

    use super::*;

    /// Appends its name to the notes `count` times.
    async fn steps(name: char, count: usize, notes: Arc<Mutex<String>>) {
        for _ in 0..count {
            notes.lock().unwrap().push(name);
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn other_tasks_run_between_two_polls() {
        let (turns, notes) = (Arc::new(Semaphore::new(1)), Arc::<Mutex<String>>::default());
        let mut tasks = JoinSet::new();
        for name in ['A', 'B', 'C'] {
            let (turns, notes) = (Arc::clone(&turns), Arc::clone(&notes));
            tasks.spawn(async move { serialize_polls(&turns, steps(name, 2, notes)).await });
        }
        tasks.spawn(steps('.', 20, Arc::clone(&notes)));
        tasks.join_all().await;
        let notes = notes.lock().unwrap();
        let handshakes: String = notes.chars().filter(|note| *note != '.').collect();
        assert_eq!(handshakes, "ABCABC");
        // The order within a round is up to the runtime.
        let others = notes.trim_end_matches('.').matches('.').count();
        assert!(others >= handshakes.len() - 1, "{notes}");
    }

    #[tokio::test]
    async fn a_pending_future_holds_no_permit() {
        let turns = Semaphore::new(1);
        let (sender, receiver) = oneshot::channel();
        let silent = serialize_polls(&turns, receiver);
        let other = async {
            serialize_polls(&turns, yield_now()).await;
            sender.send(7).unwrap();
        };
        let (received, ()) = tokio::join!(silent, other);
        assert_eq!(received, Ok(7));
    }
}
