//! Whether a peer is active.
//!
//! A stream that is established in either direction, and a message that is accepted, make the peer
//! active; any failure makes it inactive. Compat: as in etcd; callers use it to learn for how long
//! nothing has failed.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{IntCounter, IntGauge};
use types::MemberId;

use crate::metrics::PeerMetrics;

/// Whether, and since when, a peer is active.
#[derive(Debug)]
pub(crate) struct PeerStatus {
    member: MemberId,
    since: Mutex<Since>,
    active: IntGauge,
    disconnected: IntCounter,
}

/// The time since which a peer is active.
#[derive(Debug, Default)]
struct Since {
    at: Option<Duration>,
    /// Set when the peer was removed: late successes no longer count.
    is_removed: bool,
}

/// The operation that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    /// The channel, such as `pipeline`.
    pub(crate) source: &'static str,
    /// The action, such as `write`.
    pub(crate) action: &'static str,
}

impl PeerStatus {
    pub(crate) fn new(member: MemberId, counts: &PeerMetrics) -> PeerStatus {
        let (active, disconnected) = (counts.active.clone(), counts.disconnected.clone());
        PeerStatus { member, since: Mutex::default(), active, disconnected }
    }

    /// Records a success at a time of the member's clock.
    pub(crate) fn activate(&self, now: Duration) {
        let mut since = self.since.lock();
        if since.at.is_none() && !since.is_removed {
            since.at = Some(now);
            tracing::info!(peer_id = %self.member, "peer became active");
            self.active.inc();
        }
    }

    /// Records a failure.
    pub(crate) fn deactivate(&self, failure: Failure, reason: &dyn std::fmt::Display) {
        let was_active = self.since.lock().at.take().is_some();
        let Failure { source, action } = failure;
        let error = format!("failed to {action} {} on {source} ({reason})", self.member);
        if was_active {
            tracing::warn!(peer_id = %self.member, error, "peer became inactive (message send to peer failed)");
            self.active.dec();
            self.disconnected.inc();
        } else {
            tracing::debug!(peer_id = %self.member, error, "peer deactivated again");
        }
    }

    /// Records that the peer was removed.
    pub(crate) fn end(&self) {
        let mut since = self.since.lock();
        since.is_removed = true;
        if since.at.take().is_some() {
            self.active.dec();
        }
    }

    pub(crate) fn active_since(&self) -> Option<Duration> {
        self.since.lock().at
    }

    pub(crate) fn is_active(&self) -> bool {
        self.since.lock().at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_peer_is_active_since_the_first_success_after_a_failure() {
        let counts =
            Metrics::new(&prometheus::Registry::new()).unwrap().of(MemberId(1), MemberId(2));
        let status = PeerStatus::new(MemberId(2), &counts);
        let failure = Failure { source: "pipeline", action: "write" };
        status.deactivate(failure, &"no route");
        assert_eq!((status.active_since(), counts.disconnected.get()), (None, 0));

        let second = Duration::from_secs(1);
        status.activate(second);
        status.activate(2 * second);
        assert_eq!((status.active_since(), counts.active.get()), (Some(second), 1));
        status.deactivate(failure, &"reset");
        assert_eq!((status.active_since(), counts.active.get()), (None, 0));
        assert_eq!(counts.disconnected.get(), 1);
        status.activate(3 * second);
        assert_eq!(status.active_since(), Some(3 * second));
        status.end();
        assert!(!status.is_active());
        status.activate(4 * second);
        assert!(!status.is_active(), "a removed peer stays inactive");
        assert_eq!((counts.active.get(), counts.disconnected.get()), (0, 1));
    }
}
