//! Limits log lines for events that may occur thousands of times per second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The least time between two log lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Allows one log line per interval and counts the suppressed ones.
#[derive(Debug, Default)]
pub(crate) struct LogRateLimiter(Mutex<LimiterState>);

#[derive(Debug, Default)]
struct LimiterState {
    last: Option<Instant>,
    suppressed: u64,
}

impl LogRateLimiter {
    /// Records an event. If it should be logged, returns the number of events suppressed since the
    /// last log line.
    pub(crate) fn record(&self) -> Option<u64> {
        let mut state = self.0.lock();
        if state.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_events_are_logged_once_per_interval() {
        let limiter = LogRateLimiter::default();
        assert_eq!(limiter.record(), Some(0));
        assert_eq!((limiter.record(), limiter.record()), (None, None));
        limiter.0.lock().last = Some(Instant::now() - 2 * INTERVAL);
        assert_eq!(limiter.record(), Some(2));
    }
}
