//! Reads that take long, aside.
//!
//! A connection shares its thread with many others, which wait while it computes. So whatever reads many keys is done by another thread, a few
//! such reads at a time; the others wait, and cost nothing.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::errors::Canonical;
use super::status::Status;

/// Reads that are done at the same time. More would only take turns on the same cores, each with its answer in memory.
const READS_MAX: usize = 8;

/// The place where long reads are done.
#[derive(Debug)]
pub(crate) struct Heavy {
    places: Arc<Semaphore>,
}

impl Default for Heavy {
    fn default() -> Heavy {
        Heavy { places: Arc::new(Semaphore::new(READS_MAX)) }
    }
}

impl Heavy {
    /// Has something done by a thread that may take its time. If nobody waits for it any more when its turn comes, it is not done.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        // It has panicked, or the runtime is being shut down.
        done.await.unwrap_or_else(|_| Err(Canonical::Stopped.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn more_than_there_are_places_for_are_done_in_turn() {
        let heavy = Arc::new(Heavy::default());
        let all = (0..3 * READS_MAX).map(|number| {
            let heavy = Arc::clone(&heavy);
            tokio::spawn(async move { heavy.run(move || Ok(number)).await })
        });
        for (number, done) in all.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(done.await.unwrap(), Ok(number));
        }
    }
}
