//! Work that takes long, aside.
//!
//! A connection shares its thread with many others, which wait while it computes. So whatever reads many keys, or compresses much, is done by another thread, a few
//! such works at a time; the others wait, and cost nothing.

use std::sync::Arc;

use net::{BLOCKING_THREADS_MAX, Runtimes, SendBudget};
use tokio::sync::Semaphore;

use super::errors::Canonical;
use super::status::Status;

/// The place where long reads are done. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Heavy {
    places: Arc<Semaphore>,
}

impl Default for Heavy {
    /// Two for each core. More would only take turns, each with its answer in memory; and no more than there are threads for, or those that have a place would queue.
    fn default() -> Heavy {
        let places = (2 * Runtimes::count_default()).clamp(2, BLOCKING_THREADS_MAX);
        Heavy { places: Arc::new(Semaphore::new(places)) }
    }
}

impl Heavy {
    /// Has something done by a thread that may take its time, once its connection has room for the answer. If nobody waits for it any more when its turn
    /// comes, it is not done.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        unsent: &SendBudget,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let place = loop {
            unsent.wait_for_room().await;
            let place = Arc::clone(&self.places).acquire_owned().await;
            // Those who were first may have used it up.
            if unsent.has_room() {
                break place;
            }
        };
        on_thread(work, place).await.unwrap_or_else(|| Err(Canonical::Stopped.into()))
    }

    /// The same, for what makes no answer. None if it has panicked, or the runtime is being shut down.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        on_thread(work, place).await
    }
}

/// Has something done by another thread, which leaves its place then.
async fn on_thread<T: Send + 'static, P: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    place: P,
) -> Option<T> {
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(place);
        done
    });
    done.await.ok()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use bytes::Bytes;
    use net::UNSENT_BYTES_MAX;

    use super::*;

    #[tokio::test]
    async fn more_than_there_are_places_for_are_done_in_turn() {
        let (heavy, unsent) = (Arc::new(Heavy::default()), Arc::new(SendBudget::default()));
        let all = (0..3 * heavy.places.available_permits()).map(|number| {
            let (heavy, unsent) = (Arc::clone(&heavy), Arc::clone(&unsent));
            tokio::spawn(async move { heavy.run(&unsent, move || Ok(number)).await })
        });
        for (number, done) in all.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(done.await.unwrap(), Ok(number));
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_begun() {
        let (heavy, unsent) = (Heavy::default(), SendBudget::default());
        let (sender, begun) = mpsc::channel();
        let all = heavy.places.acquire_many(heavy.places.available_permits().try_into().unwrap());
        let all = all.await.unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        {
            let waiting = pin!(heavy.run(&unsent, move || {
                sender.send(()).unwrap();
                Ok(())
            }));
            assert!(waiting.poll(&mut cx).is_pending());
        }
        drop(all);
        assert_eq!(heavy.run(&unsent, || Ok(7)).await, Ok(7));
        assert_eq!(begun.recv(), Err(mpsc::RecvError));
    }

    #[tokio::test]
    async fn answers_that_a_client_does_not_take_are_bounded() {
        let heavy = Arc::new(Heavy::default());
        let (stuck, other) = (Arc::new(SendBudget::default()), SendBudget::default());
        let read =
            |unsent: Arc<SendBudget>| move || Ok(unsent.charge(vec![0; UNSENT_BYTES_MAX].into()));
        let unread: Bytes = heavy.run(&stuck, read(Arc::clone(&stuck))).await.unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let mut next = pin!(heavy.run(&stuck, read(Arc::clone(&stuck))));
        assert!(next.as_mut().poll(&mut cx).is_pending());
        assert_eq!(heavy.run(&other, || Ok(7)).await, Ok(7), "nobody else waits");
        drop(unread);
        assert_eq!(next.await.unwrap().len(), UNSENT_BYTES_MAX);
    }
}
