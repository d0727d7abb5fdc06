//! Handshakes take turns.
//!
//! A handshake computes for a millisecond or two where a request takes microseconds, and a crowd of them must not hold up those who are being served. So on
//! each runtime only one goes on at a time, and only after everything else that is ready has had its turn:
//!
//! ```text
//!   ready: handshakes A B C, requests 1 2          runs: A 1 2 B 3 C 4 5 ..
//! ```
//!
//! While a handshake waits for its client it holds no turn: whoever is silent holds up nobody.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Runs a future that computes for long whenever it runs, a turn at a time.
pub(crate) async fn serialize_polls<F: Future>(turns: &Semaphore, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let turn = turns.acquire().await;
        yield_now().await;
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        drop(turn);
        match polled {
            Poll::Ready(output) => return output,
            Poll::Pending => woken().await,
        }
    }
}

/// Waits until whoever was just asked has something to say. Nothing is lost: both are of the same turn of the task.
async fn woken() {
    let mut is_first = true;
    poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::sync::oneshot;
    use tokio::task::JoinSet;

    use super::*;

    /// Notes its name, so many times, and ends.
    async fn steps(name: char, count: usize, notes: Arc<Mutex<String>>) {
        for _ in 0..count {
            notes.lock().unwrap().push(name);
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn between_two_turns_everybody_else_has_theirs() {
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
        // Who comes first within a round is for the runtime to say.
        let others = notes.trim_end_matches('.').matches('.').count();
        assert!(others >= handshakes.len() - 1, "{notes}");
    }

    #[tokio::test]
    async fn who_waits_holds_no_turn() {
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
