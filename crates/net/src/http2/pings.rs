//! Limits how often a client may ping.
//!
//! Compat: the rules are those of grpc-go servers, which etcd runs with `PermitWithoutStream` off.
//! A ping that comes too early counts as a strike: less than `min_time` after the previous one, or
//! less than two hours if no call is in flight. If any part of a response was sent since the last
//! ping, a ping is free and clears the strikes. The third strike exceeds the limit.
//!
//! ```text
//!   no call in flight:       ping   ping   ping   ping
//!                            free   1      2      3 → GOAWAY
//!   a call, min_time 5 s:    0 s    5 s    9 s    13 s   17 s
//!                            free   ok     1      2      3 → GOAWAY
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// The number of tolerated strikes.
const STRIKES_MAX: u32 = 2;
/// The least time between pings while no call is in flight.
const IDLE_TIME_MIN: Duration = Duration::from_secs(2 * 60 * 60);

/// The ping history of a client.
#[derive(Debug)]
pub(super) struct Pings {
    min_time: Option<Duration>,
    last: Option<Instant>,
    strikes: u32,
    /// Whether any part of a response was sent since the last ping.
    responded: bool,
}

impl Pings {
    /// Creates the history. Without `min_time`, pings are unlimited.
    pub(super) fn new(min_time: Option<Duration>) -> Self {
        Self { min_time, last: None, strikes: 0, responded: false }
    }

    /// Records that part of a response was sent.
    pub(super) fn on_response(&mut self) {
        self.responded = true;
    }

    /// Records a ping and returns whether it exceeds the limit.
    pub(super) fn on_ping(&mut self, now: Instant, calls_running: bool) -> bool {
        let Some(min_time) = self.min_time else { return false };
        let last = self.last.replace(now);
        if std::mem::take(&mut self.responded) {
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

    /// Returns the first of the pings at these seconds that exceeds the limit.
    fn exceeded_at(calls_running: bool, seconds: &[u64]) -> Option<usize> {
        let (mut pings, start) = (Pings::new(Some(Duration::from_secs(5))), Instant::now());
        seconds.iter().position(|at| pings.on_ping(start + Duration::from_secs(*at), calls_running))
    }

    #[test]
    fn the_fourth_ping_without_a_call_exceeds_the_limit() {
        assert_eq!(exceeded_at(false, &[0, 0, 0, 0]), Some(3));
        assert_eq!(exceeded_at(false, &[0, 1000, 2000, 3000]), Some(3));
        assert_eq!(exceeded_at(false, &[0, 7200, 14400, 21600, 28800]), None);
    }

    #[test]
    fn pings_at_min_time_are_allowed_during_a_call() {
        assert_eq!(exceeded_at(true, &[0, 5, 10, 15, 20, 25]), None);
        assert_eq!(exceeded_at(true, &[0, 5, 9, 13, 17]), Some(4));
        assert_eq!(
            exceeded_at(true, &[0, 4, 100, 104, 200, 204]),
            Some(5),
            "strikes do not expire"
        );
    }

    #[test]
    fn a_response_clears_the_strikes() {
        let (mut pings, now) = (Pings::new(Some(Duration::from_secs(5))), Instant::now());
        for _ in 0..100 {
            assert!(!pings.on_ping(now, false));
            assert!(!pings.on_ping(now, false));
            assert!(!pings.on_ping(now, false));
            pings.on_response();
        }
        // The free ping counts as the previous one.
        assert!(!pings.on_ping(now, false));
        assert!(!pings.on_ping(now, false));
        assert!(!pings.on_ping(now, false));
        assert!(pings.on_ping(now, false));
    }
}
