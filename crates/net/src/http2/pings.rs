//! How often a client may ping.
//!
//! Compat: the rules are those of grpc-go's servers, which etcd runs with `PermitWithoutStream` off. A ping counts as a strike if it
//! comes too early: less than `min_time` after the one before, or less than two hours while no call is running. Whenever something of a
//! response was sent since the last ping, this one is free and earlier strikes are forgotten. The third strike is too many.
//!
//! ```text
//!   no call running:    ping    ping    ping    ping          a call, min_time 5 s:   0 s   5 s   9 s   13 s   17 s
//!                       free    1       2       3 → out                               free  fine  1     2      3 → out
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// Strikes that are forgiven.
const STRIKES_MAX: u32 = 2;
/// The least time between pings while no call is running.
const IDLE_TIME_MIN: Duration = Duration::from_secs(2 * 60 * 60);

/// The pings of one client.
#[derive(Debug)]
pub(super) struct Pings {
    min_time: Option<Duration>,
    last: Option<Instant>,
    strikes: u32,
    /// Whether something of a response was sent since the last ping.
    answered: bool,
}

impl Pings {
    /// Without a least time no ping is one too many.
    pub(super) fn new(min_time: Option<Duration>) -> Self {
        Self { min_time, last: None, strikes: 0, answered: false }
    }

    /// Something of a response was sent.
    pub(super) fn on_response(&mut self) {
        self.answered = true;
    }

    /// A ping came. Whether it was one too many.
    pub(super) fn on_ping(&mut self, now: Instant, calls_running: bool) -> bool {
        let Some(min_time) = self.min_time else { return false };
        let last = self.last.replace(now);
        if std::mem::take(&mut self.answered) {
            self.strikes = 0;
            return false;
        }
        let least = if calls_running { min_time } else { IDLE_TIME_MIN };
        let early = last.is_some_and(|last| now.duration_since(last) < least);
        self.strikes += u32::from(early);
        self.strikes > STRIKES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the pings at these seconds is one too many.
    fn out_at(calls_running: bool, seconds: &[u64]) -> Option<usize> {
        let (mut pings, start) = (Pings::new(Some(Duration::from_secs(5))), Instant::now());
        seconds.iter().position(|at| pings.on_ping(start + Duration::from_secs(*at), calls_running))
    }

    #[test]
    fn the_fourth_ping_without_a_call_is_too_many() {
        assert_eq!(out_at(false, &[0, 0, 0, 0]), Some(3));
        assert_eq!(out_at(false, &[0, 1000, 2000, 3000]), Some(3));
        assert_eq!(out_at(false, &[0, 7200, 14400, 21600, 28800]), None);
    }

    #[test]
    fn during_a_call_pings_may_come_at_the_least_interval() {
        assert_eq!(out_at(true, &[0, 5, 10, 15, 20, 25]), None);
        assert_eq!(out_at(true, &[0, 5, 9, 13, 17]), Some(4));
        assert_eq!(out_at(true, &[0, 4, 100, 104, 200, 204]), Some(5), "strikes are not forgotten");
    }

    #[test]
    fn a_response_wipes_the_slate() {
        let (mut pings, now) = (Pings::new(Some(Duration::from_secs(5))), Instant::now());
        for _ in 0..100 {
            assert!(!pings.on_ping(now, false));
            assert!(!pings.on_ping(now, false));
            assert!(!pings.on_ping(now, false));
            pings.on_response();
        }
        // The one that was free counts as the last.
        assert!(!pings.on_ping(now, false));
        assert!(!pings.on_ping(now, false));
        assert!(!pings.on_ping(now, false));
        assert!(pings.on_ping(now, false));
    }
}
