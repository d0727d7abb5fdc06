//! Whether a leader sends its heartbeats on time.
//!
//! ```text
//!   heartbeat every 100 ms        to b  0  100  200  450     250 ms after the one before, 50 ms too late: counted
//! ```
//!
//! A leader that is late, as one with a slow disk or no time of the processor is, is about to be voted out.

use std::collections::BTreeMap;
use std::time::Duration;

use types::MemberId;

/// Intervals that may be between two heartbeats.
const INTERVALS_MAX: u32 = 2;

/// When heartbeats were last sent, by whom they were sent to.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    interval: Duration,
    sent: BTreeMap<MemberId, Duration>,
}

impl Heartbeats {
    pub(crate) fn new(interval: Duration) -> Heartbeats {
        Heartbeats { interval, sent: BTreeMap::new() }
    }

    /// One is sent. Returns by how much it is late, if it is.
    pub(crate) fn send(&mut self, to: MemberId, now: Duration) -> Option<Duration> {
        let before = self.sent.insert(to, now)?;
        let late = now.saturating_sub(before).checked_sub(self.expected())?;
        Some(late).filter(|late| !late.is_zero())
    }

    /// The time that may be between two.
    pub(crate) fn expected(&self) -> Duration {
        INTERVALS_MAX * self.interval
    }

    /// Somebody else leads, or this member does from now on.
    pub(crate) fn forget(&mut self) {
        self.sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_late_after_two_intervals() {
        let ms = Duration::from_millis;
        let mut heartbeats = Heartbeats::new(ms(100));
        let (b, c) = (MemberId(0xb), MemberId(0xc));
        let late = |heartbeats: &mut Heartbeats, to, at| heartbeats.send(to, ms(at));
        assert_eq!(late(&mut heartbeats, b, 1000), None, "there was none before");
        assert_eq!(late(&mut heartbeats, b, 1200), None);
        assert_eq!(late(&mut heartbeats, b, 1450), Some(ms(50)));
        assert_eq!(late(&mut heartbeats, c, 1450), None, "each by itself");
        heartbeats.forget();
        assert_eq!(late(&mut heartbeats, b, 9000), None, "it did not lead meanwhile");
    }
}
