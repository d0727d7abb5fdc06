//! Time as an argument.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Tells the time, and waits.
pub trait Clock: Send + Sync + Debug {
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;

    /// The date, which may jump. For people and for names, never for deciding how long something took.
    fn wall(&self) -> SystemTime;

    /// Lets time pass.
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

/// A clock that stands still until it is moved. Sleeping moves it. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    elapsed: Arc<Mutex<Duration>>,
}

impl SimClock {
    /// Moves the time on.
    pub fn advance(&self, time: Duration) {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }
}

impl Clock for SimClock {
    fn monotonic(&self) -> Duration {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts at the turn of the millennium, and runs with the monotonic time.
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
    fn a_simulated_clock_moves_when_moved() {
        let clock = SimClock::default();
        let other = clock.clone();
        assert_eq!(other.monotonic(), Duration::ZERO);
        clock.sleep(Duration::from_secs(2));
        assert_eq!(other.monotonic(), Duration::from_secs(2));
        assert_eq!(
            other.wall(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_802),
            "the date runs along"
        );
    }

    #[test]
    fn the_machines_clock_does_not_go_back() {
        let clock = OsClock::default();
        let before = clock.monotonic();
        clock.sleep(Duration::from_millis(1));
        assert!(clock.monotonic() >= before + Duration::from_millis(1));
    }
}
