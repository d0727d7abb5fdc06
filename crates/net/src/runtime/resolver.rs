//! Bounds the threads that wait for the system's name resolver.
//!
//! A lookup is a library call that returns in its own time, possibly seconds after its caller gave
//! up. Each purpose has its own bound, so that members that cannot be resolved do not delay the
//! admission of clients.

use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Concurrent lookups for one purpose.
pub(crate) const LOOKUPS_MAX: usize = 16;

/// The purpose of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Resolve the host of an outgoing connection.
    Dial,
    /// Check that a client's certificate is for the address it connects from.
    Admit,
}

/// Runs a lookup on a blocking thread once one is free. Dropping the future stops the wait; a
/// lookup that has begun runs on and keeps its thread.
pub(crate) async fn run_lookup<T: Send + 'static>(
    purpose: Purpose,
    lookup: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    static LIMITS: LazyLock<[Arc<Semaphore>; 2]> =
        LazyLock::new(|| [(); 2].map(|()| Arc::new(Semaphore::new(LOOKUPS_MAX))));
    let limit = Arc::clone(&LIMITS[purpose as usize]);
    let permit = limit.acquire_owned().await;
    tokio::task::spawn_blocking(move || {
        let result = lookup();
        drop(permit);
        result
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use parking_lot::Mutex;
    use testkit::waiting::TIMEOUT;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn hanging_lookups_delay_only_lookups_of_the_same_purpose() {
        let (gate, waiting) = mpsc::channel::<()>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..LOOKUPS_MAX {
            let waiting = Arc::clone(&waiting);
            // The lookup has begun when its future is dropped.
            let lookup = run_lookup(Purpose::Dial, move || waiting.lock().recv().is_err());
            assert!(poll_once(lookup).await.is_none());
        }
        let other = timeout(TIMEOUT, run_lookup(Purpose::Admit, || 7)).await;
        assert_eq!(other.expect("timed out waiting for the other lookup").unwrap(), 7);
        let mut next = Box::pin(run_lookup(Purpose::Dial, || 8));
        assert!(poll_once(&mut next).await.is_none());
        drop(gate);
        let next = timeout(TIMEOUT, next).await;
        assert_eq!(next.expect("timed out waiting for the next lookup").unwrap(), 8);
    }

    async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
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
