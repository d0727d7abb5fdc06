//! Retries of calls: one that only reads is retried, as by etcd's client; one that may write is
//! sent once.
//!
//! ```text
//!   range ─► a: Unavailable ─► b: Unavailable ─► 25 ms ─► c: Unavailable ─► a: the response
//!            └────── a quorum of 3 endpoints ──────┘
//! ```
//!
//! `Unavailable` means that the connection broke, that no endpoint is connected, or that the member
//! has no leader or did not answer in time. Calls take turns over the endpoints, so the next
//! attempt reaches another one. A call that may write is never repeated here: it may have been
//! applied.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use grpc::{Code, Status};
use net::SendBudget;
use tokio::time::sleep;

use crate::upstream::Upstream;

/// The most attempts. As in etcd's client.
const ATTEMPTS_MAX: usize = 100;
/// The mean pause after a quorum of endpoints was tried. As in etcd's client.
const PAUSE: Duration = Duration::from_millis(25);
/// The part of the pause by which it varies. As in etcd's client.
const JITTER: f64 = 0.1;

impl Upstream {
    /// Makes a call that only reads, again while the answer is `Unavailable`. Dropping the future,
    /// at the deadline of the client or when it cancels, ends the attempts.
    pub(crate) async fn retry_read<T, F: Future<Output = Result<T, Status>>>(
        &self,
        call: impl Fn() -> F,
    ) -> Result<T, Status> {
        let mut attempt = 1;
        loop {
            let result = call().await;
            match &result {
                Err(status) if status.code == Code::Unavailable && attempt < ATTEMPTS_MAX => {
                    tracing::debug!(%status, attempt, "retrying a read");
                }
                _ => return result,
            }
            let quorum = self.endpoints().len() / 2 + 1;
            if attempt % quorum == 0 {
                sleep(pause()).await;
            }
            attempt += 1;
        }
    }

    /// Makes a call that may write, once. `long_response` is the budget of the client if the
    /// response may be long, and then takes a permit.
    pub(crate) async fn send_once<T, F: Future<Output = Result<T, Status>>>(
        &self,
        long_response: Option<&SendBudget>,
        call: F,
    ) -> Result<T, Status> {
        match long_response {
            Some(send_budget) => self.call_once(send_budget, call).await,
            None => call.await,
        }
    }
}

/// Returns a random pause within [`JITTER`] of [`PAUSE`].
fn pause() -> Duration {
    // Each RandomState has random keys.
    let random = RandomState::new().hash_one(()) >> 32;
    let random = u32::try_from(random).unwrap_or(u32::MAX);
    let spread = 2.0 * f64::from(random) / f64::from(u32::MAX) - 1.0;
    PAUSE.mul_f64(1.0 + JITTER * spread)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell, RefMut};

    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::tests::fake_member::upstream;

    /// Answers a read with these codes, one after another. Returns the result, and the time after
    /// which each attempt was made.
    async fn read(endpoints: &[&str], codes: &[Code]) -> (Code, Vec<Duration>) {
        let (upstream, start, times) = (upstream(endpoints), Instant::now(), RefCell::default());
        let call = async || {
            let mut times: RefMut<'_, Vec<Duration>> = times.borrow_mut();
            times.push(start.elapsed());
            match codes.get(times.len() - 1) {
                Some(Code::Ok) | None => Ok(()),
                Some(code) => Err(Status::new(*code, "refused")),
            }
        };
        let result = upstream.retry_read(call).await;
        (result.map_or_else(|status| status.code, |()| Code::Ok), times.take())
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_is_repeated_until_it_is_answered() {
        let codes = [Code::Unavailable, Code::Unavailable, Code::Ok];
        let (code, times) = read(&["a:1"], &codes).await;
        assert_eq!((code, times.len()), (Code::Ok, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_not_retried() {
        for refused in [Code::OutOfRange, Code::DeadlineExceeded, Code::ResourceExhausted] {
            let (code, times) = read(&["a:1"], &[refused]).await;
            assert_eq!((code, times.len()), (refused, 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_attempts_is_bounded() {
        let (code, times) = read(&["a:1"], &[Code::Unavailable; ATTEMPTS_MAX + 1]).await;
        assert_eq!((code, times.len()), (Code::Unavailable, ATTEMPTS_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_of_the_caller_ends_the_attempts() {
        let (upstream, attempts) = (upstream(&["a:1"]), Cell::new(0));
        let call = async || {
            attempts.set(attempts.get() + 1);
            Err::<(), _>(Status::new(Code::Unavailable, "refused"))
        };
        assert!(timeout(PAUSE * 5 / 2, upstream.retry_read(call)).await.is_err());
        assert_eq!(attempts.get(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn each_quorum_of_endpoints_is_tried_without_a_pause() {
        let (_, times) = read(&["a:1", "b:1", "c:1"], &[Code::Unavailable; 4]).await;
        assert_eq!((times[0], times[2]), (times[1], times[3]));
        for pause in [times[2] - times[1], times[4] - times[3]] {
            // Timers have a resolution of a millisecond.
            assert!((22..=29).contains(&pause.as_millis()), "{pause:?}");
        }
    }
}
