//! Waiting for the resolver of names, which has a patience of its own.
//!
//! It is a library call that returns when it likes, seconds after whoever wanted to know has given up. So those calls have a bounded number of threads, and each of
//! its purposes a number of its own: members that cannot be found keep nobody from being let in.

use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Calls of one purpose that wait at a time.
pub(crate) const WAITING_MAX: usize = 16;

/// What the resolver is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Where to connect to.
    Dial,
    /// Whether somebody comes from where they say.
    Admit,
}

/// Runs a call once there is a thread for it. Dropped, it gives up waiting; the call itself goes on, and keeps its thread.
pub(crate) async fn ask<T: Send + 'static>(
    purpose: Purpose,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    static PLACES: LazyLock<[Arc<Semaphore>; 2]> =
        LazyLock::new(|| [(); 2].map(|()| Arc::new(Semaphore::new(WAITING_MAX))));
    let places = Arc::clone(&PLACES[purpose as usize]);
    let place = places.acquire_owned().await;
    tokio::task::spawn_blocking(move || {
        let answer = call();
        drop(place);
        answer
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn calls_that_do_not_return_keep_others_of_their_kind_waiting_and_nobody_else() {
        let (gate, waiting) = mpsc::channel::<()>();
        let waiting = Arc::new(std::sync::Mutex::new(waiting));
        for _ in 0..WAITING_MAX {
            let waiting = Arc::clone(&waiting);
            // It has begun, and is given up.
            let call = ask(Purpose::Dial, move || waiting.lock().unwrap().recv().is_err());
            assert!(ask_once(call).await.is_none());
        }
        assert_eq!(ask(Purpose::Admit, || 7).await.unwrap(), 7);
        let mut next = Box::pin(ask(Purpose::Dial, || 8));
        assert!(ask_once(&mut next).await.is_none());
        drop(gate);
        assert_eq!(next.await.unwrap(), 8);
    }

    /// What a future says when it is asked once.
    async fn ask_once<F: Future>(future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(match future.as_mut().poll(cx) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
