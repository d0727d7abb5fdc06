//! How long a client waits: `grpc-timeout`.
//!
//! ```text
//!   grpc-timeout: 4999m      4999 milliseconds     H M S m u n, at most eight digits
//! ```

use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::status::Status;

/// Most digits of a timeout, and its unit.
const LENGTH_MAX: usize = 9;

/// Longer than anybody waits: about 136 years, which no clock here reaches.
const LONGEST: Duration = Duration::from_secs(1 << 32);

/// When a client gives up; never, if it does not say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// So long from now.
    pub(crate) fn after(timeout: Duration) -> Deadline {
        Deadline(Some(Instant::now() + timeout.min(LONGEST)))
    }

    /// Does something, unless it takes longer.
    pub(crate) async fn limit<T>(
        self,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        match self.0 {
            None => work.await,
            Some(at) => {
                let done = tokio::time::timeout_at(at, work).await;
                done.unwrap_or(Err(Status::DEADLINE_EXCEEDED))
            }
        }
    }

    /// Has something done when it passes, unless what is returned is dropped before.
    pub(crate) fn when_passed(self, late: impl FnOnce() + Send + 'static) -> Option<Alarm> {
        let at = self.0?;
        let task = tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            late();
        });
        Some(Alarm(task.abort_handle()))
    }
}

/// Something that is to be done at a deadline.
#[derive(Debug)]
pub(crate) struct Alarm(AbortHandle);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the header. Errors are in the words of etcd's gRPC library.
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
    // A sign is no digit, though Rust would take it for one.
    match digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse()) {
        Some(Ok(count)) => Ok(unit(count)),
        _ => Err(format!("strconv.ParseUint: parsing {digits:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read() {
        assert_eq!(parse("4999m"), Ok(Duration::from_millis(4999)));
        assert_eq!(parse("99999999H"), Ok(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse("1M"), Ok(Duration::from_secs(60)));
        assert_eq!(parse("0n"), Ok(Duration::ZERO));
    }

    #[test]
    fn what_is_none_is_refused() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error("m"), "transport: timeout string is too short: \"m\"");
        assert_eq!(error("123456789m"), "transport: timeout string is too long: \"123456789m\"");
        assert_eq!(error("12x"), "transport: timeout unit is not recognized: \"12x\"");
        assert_eq!(error("+1m"), "strconv.ParseUint: parsing \"+1\": invalid syntax");
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_given_up_when_time_is_up() {
        let never = std::future::pending::<Result<(), Status>>();
        let ended = Deadline::after(Duration::from_secs(5)).limit(never).await;
        assert_eq!(ended, Err(Status::DEADLINE_EXCEEDED));
        assert_eq!(Deadline::after(Duration::MAX).limit(async { Ok(7) }).await, Ok(7));
        assert_eq!(Deadline::default().limit(async { Ok(7) }).await, Ok(7));
    }
}
