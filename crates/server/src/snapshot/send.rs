//! Snapshots that are on their way to other members. Until they have arrived, and for a while after, the log keeps what comes behind them: whoever gets one goes on
//! from there.

use std::collections::BTreeSet;
use std::time::Duration;

use types::MemberId;

/// Snapshots that may be under way at once.
pub(crate) const IN_FLIGHT_MAX: usize = 16;
/// How long a member that got one may take to ask for what comes behind it.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// What is on its way.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    to: BTreeSet<MemberId>,
    kept_until: Duration,
}

impl Sending {
    /// Begins to send one. False if there are too many, or one is on its way there.
    pub(crate) fn begin(&mut self, to: MemberId) -> bool {
        self.to.len() < IN_FLIGHT_MAX && self.to.insert(to)
    }

    /// One has arrived, or has not.
    pub(crate) fn end(&mut self, to: MemberId, arrived: bool, now: Duration) {
        if self.to.remove(&to) && arrived {
            self.kept_until = now + KEPT_FOR;
        }
    }

    /// Whether the log may be shortened.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        self.to.is_empty() && now >= self.kept_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_log_stays_while_a_snapshot_is_under_way_and_a_while_after() {
        let mut sending = Sending::default();
        assert!(sending.is_over(Duration::ZERO));
        assert!(sending.begin(MemberId(2)) && sending.begin(MemberId(3)));
        assert!(!sending.begin(MemberId(2)), "one is on its way there");
        sending.end(MemberId(2), false, SECOND);
        assert!(!sending.is_over(SECOND), "another is under way");
        sending.end(MemberId(3), true, SECOND);
        assert!(!sending.is_over(30 * SECOND));
        assert!(sending.is_over(31 * SECOND));
        sending.end(MemberId(3), true, 32 * SECOND);
        assert!(sending.is_over(32 * SECOND), "of which nobody knows");
    }

    #[test]
    fn few_are_under_way_at_once() {
        let mut sending = Sending::default();
        let begun = (0..20).filter(|member| sending.begin(MemberId(*member))).count();
        assert_eq!(begun, IN_FLIGHT_MAX);
    }
}
