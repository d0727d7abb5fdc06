//! Whether this member is connected to another.
//!
//! Any stream that comes up, in either direction, and any message that is taken makes it active; any that fails makes it inactive. That is coarse, and it is what etcd does:
//! whoever asks wants to know for how long nothing has failed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::{IntCounter, IntGauge};
use types::MemberId;

use crate::metrics::Counts;

/// Whether, and since when, a member is connected.
#[derive(Debug)]
pub(crate) struct Status {
    member: MemberId,
    since: Mutex<Since>,
    active: IntGauge,
    disconnected: IntCounter,
}

/// Since when it is connected.
#[derive(Debug, Default)]
struct Since {
    at: Option<Duration>,
    /// It is no member any more, and whatever works now, of what was under way, says nothing.
    has_ended: bool,
}

/// What failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    /// A way there, such as `pipeline`.
    pub(crate) source: &'static str,
    /// What was to be done, such as `write`.
    pub(crate) action: &'static str,
}

impl Status {
    pub(crate) fn new(member: MemberId, counts: &Counts) -> Status {
        let (active, disconnected) = (counts.active.clone(), counts.disconnected.clone());
        Status { member, since: Mutex::default(), active, disconnected }
    }

    /// Something has worked, at some moment.
    pub(crate) fn activate(&self, now: Duration) {
        let mut since = self.lock();
        if since.at.is_none() && !since.has_ended {
            since.at = Some(now);
            tracing::info!(peer_id = %self.member, "peer became active");
            self.active.inc();
        }
    }

    /// Something has failed.
    pub(crate) fn deactivate(&self, failure: Failure, reason: &dyn std::fmt::Display) {
        let was_active = self.lock().at.take().is_some();
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

    /// It is no member any more.
    pub(crate) fn end(&self) {
        let mut since = self.lock();
        since.has_ended = true;
        if since.at.take().is_some() {
            self.active.dec();
        }
    }

    pub(crate) fn active_since(&self) -> Option<Duration> {
        self.lock().at
    }

    pub(crate) fn is_active(&self) -> bool {
        self.lock().at.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Since> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_member_is_active_since_the_first_thing_that_worked() {
        let counts =
            Metrics::new(&prometheus::Registry::new()).unwrap().of(MemberId(1), MemberId(2));
        let status = Status::new(MemberId(2), &counts);
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
        assert!(!status.is_active(), "it has ended");
        assert_eq!((counts.active.get(), counts.disconnected.get()), (0, 1));
    }
}
