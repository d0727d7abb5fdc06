//! Time as an argument.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Time since a fixed point; never decreases.
    fn monotonic(&self) -> Duration;

    /// Wall-clock time, which may jump. For display and names, never for measuring durations.
    fn wall(&self) -> SystemTime;

    /// Sleeps.
    fn sleep(&self, time: Duration);
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug)]
pub struct OsClock {
    started: Instant,
}

impl Default for OsClock {
    fn default() -> OsClock {
        OsClock { started: Instant::now() }
    }
}

impl Clock for OsClock {
    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A manual clock: it advances only by calls, sleeping included. Clones share the same time.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    elapsed: Arc<Mutex<Duration>>,
}

impl SimClock {
    /// Moves the time forward.
    pub fn advance(&self, time: Duration) {
        *self.elapsed.lock() += time;
    }
}

impl Clock for SimClock {
    fn monotonic(&self) -> Duration {
        *self.elapsed.lock()
    }

    /// Starts on 2000-01-01 and follows the monotonic time.
    fn wall(&self) -> SystemTime {
        const MILLENNIUM: Duration = Duration::from_secs(946_684_800);
        SystemTime::UNIX_EPOCH + MILLENNIUM + self.monotonic()
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_clock_moves_only_when_advanced() {
        let clock = SimClock::default();
        let other = clock.clone();
        assert_eq!(other.monotonic(), Duration::ZERO);
        clock.sleep(Duration::from_secs(2));
        assert_eq!(other.monotonic(), Duration::from_secs(2));
        assert_eq!(
            other.wall(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_802),
            "the wall clock follows"
        );
    }

    #[test]
    fn the_os_clock_is_monotonic() {
        let clock = OsClock::default();
        let before = clock.monotonic();
        clock.sleep(Duration::from_millis(1));
        assert!(clock.monotonic() >= before + Duration::from_millis(1));
    }
}
