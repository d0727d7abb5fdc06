//! Detection of heartbeats that the leader sends too late.
//!
//! ```text
//!   heartbeat every 100 ms      to b   0  100  200  450    250 ms after the last one: 50 ms late
//! ```
//!
//! A late leader, with a slow disk or without CPU time, is about to be deposed.

use std::collections::BTreeMap;
use std::time::Duration;

use types::MemberId;

/// The number of heartbeat intervals that may pass between two heartbeats.
const INTERVALS_MAX: u32 = 2;

/// The time of the last heartbeat to each peer.
#[derive(Debug)]
pub(super) struct HeartbeatMonitor {
    interval: Duration,
    last_sent: BTreeMap<MemberId, Duration>,
}

impl HeartbeatMonitor {
    pub(super) fn new(interval: Duration) -> HeartbeatMonitor {
        HeartbeatMonitor { interval, last_sent: BTreeMap::new() }
    }

    /// Records a heartbeat to a peer. Returns how late it is, if it is.
    pub(super) fn record_sent(&mut self, to: MemberId, now: Duration) -> Option<Duration> {
        let last = self.last_sent.insert(to, now)?;
        let delay = now.saturating_sub(last).checked_sub(self.expected())?;
        Some(delay).filter(|delay| !delay.is_zero())
    }

    /// The longest regular time between two heartbeats.
    pub(super) fn expected(&self) -> Duration {
        INTERVALS_MAX * self.interval
    }

    /// Forgets all peers, because the leader changed.
    pub(super) fn reset(&mut self) {
        self.last_sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_late_after_two_intervals() {
        let ms = Duration::from_millis;
        let mut monitor = HeartbeatMonitor::new(ms(100));
        let (b, c) = (MemberId(0xb), MemberId(0xc));
        let delay = |monitor: &mut HeartbeatMonitor, to, at| monitor.record_sent(to, ms(at));
        assert_eq!(delay(&mut monitor, b, 1000), None, "the first one");
        assert_eq!(delay(&mut monitor, b, 1200), None);
        assert_eq!(delay(&mut monitor, b, 1450), Some(ms(50)));
        assert_eq!(delay(&mut monitor, c, 1450), None, "peers are independent");
        monitor.reset();
        assert_eq!(delay(&mut monitor, b, 9000), None, "the member did not lead in between");
    }
}
