//! The deadline of a call: the header `grpc-timeout`.
//!
//! ```text
//!   grpc-timeout: 4999m      4999 milliseconds     units H M S m u n, at most eight digits
//! ```

use std::pin::Pin;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::status::Status;

/// The longest text of a timeout: eight digits and a unit.
const LENGTH_MAX: usize = 9;

/// The longest timeout, about 136 years, which no clock here reaches.
const TIMEOUT_MAX: Duration = Duration::from_secs(1 << 32);

/// The time by which a call must end; none by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Creates a deadline after a timeout from now.
    pub fn after(timeout: Duration) -> Deadline {
        Deadline(Some(Instant::now() + timeout.min(TIMEOUT_MAX)))
    }

    /// Returns whether the deadline has passed. Timers notice that up to a millisecond later.
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|at| at <= Instant::now())
    }

    /// Runs `work` until the deadline, or not at all if that has passed.
    ///
    /// `work` is pinned by the caller: it may be large, and would be stored here several times.
    pub(crate) async fn limit<T, E: Into<Status>>(
        self,
        work: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, Status> {
        if self.has_passed() {
            return Err(Status::DEADLINE_EXCEEDED);
        }
        match self.0 {
            None => work.await.map_err(Into::into),
            Some(at) => match tokio::time::timeout_at(at, work).await {
                Ok(done) => done.map_err(Into::into),
                Err(_) => Err(Status::DEADLINE_EXCEEDED),
            },
        }
    }

    /// Runs `callback` when the deadline passes, unless the timer is dropped before.
    pub(crate) fn call_at_deadline(
        self,
        callback: impl FnOnce() + Send + 'static,
    ) -> Option<DeadlineTimer> {
        let at = self.0?;
        let task = tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            callback();
        });
        Some(DeadlineTimer(task.abort_handle()))
    }
}

/// A pending callback at a deadline, canceled on drop.
#[derive(Debug)]
pub(crate) struct DeadlineTimer(AbortHandle);

impl Drop for DeadlineTimer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Parses the value of `grpc-timeout`. The error texts are those of grpc-go.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.len() < 2 {
        return Err(format!("transport: timeout string is too short: {text:?}"));
    }
    if text.len() > LENGTH_MAX {
        return Err(format!("transport: timeout string is too long: {text:?}"));
    }
    let unit: fn(u64) -> Duration = match text.as_bytes()[text.len() - 1] {
        b'H' => |hours| Duration::from_secs(hours * 3600),
        b'M' => |minutes| Duration::from_secs(minutes * 60),
        b'S' => Duration::from_secs,
        b'm' => Duration::from_millis,
        b'u' => Duration::from_micros,
        b'n' => Duration::from_nanos,
        _ => return Err(format!("transport: timeout unit is not recognized: {text:?}")),
    };
    let digits = &text[..text.len() - 1];
    // Rust's parser accepts a sign, Go's ParseUint does not.
    match digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse()) {
        Some(Ok(count)) => Ok(unit(count)),
        _ => Err(format!("strconv.ParseUint: parsing {digits:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn timeouts_of_all_units_are_parsed() {
        assert_eq!(parse("4999m"), Ok(Duration::from_millis(4999)));
        assert_eq!(parse("99999999H"), Ok(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse("1M"), Ok(Duration::from_secs(60)));
        assert_eq!(parse("0n"), Ok(Duration::ZERO));
    }

    #[test]
    fn malformed_timeouts_are_refused_with_the_texts_of_grpc_go() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error("m"), "transport: timeout string is too short: \"m\"");
        assert_eq!(error("123456789m"), "transport: timeout string is too long: \"123456789m\"");
        assert_eq!(error("12x"), "transport: timeout unit is not recognized: \"12x\"");
        assert_eq!(error("+1m"), "strconv.ParseUint: parsing \"+1\": invalid syntax");
    }

    #[tokio::test(start_paused = true)]
    async fn work_beyond_the_deadline_is_dropped() {
        let never = std::future::pending::<Result<(), Status>>();
        let seven = || Box::pin(async { Ok::<_, Status>(7) });
        let ended = Deadline::after(Duration::from_secs(5)).limit(pin!(never)).await;
        assert_eq!(ended, Err(Status::DEADLINE_EXCEEDED));
        assert_eq!(Deadline::after(Duration::MAX).limit(seven().as_mut()).await, Ok(7));
        let late = Deadline::after(Duration::ZERO);
        assert!(late.has_passed() && !Deadline::default().has_passed());
        assert_eq!(late.limit(seven().as_mut()).await, Err(Status::DEADLINE_EXCEEDED));
        assert_eq!(Deadline::default().limit(seven().as_mut()).await, Ok(7));
    }
}
