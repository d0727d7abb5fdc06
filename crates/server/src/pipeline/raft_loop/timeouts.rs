//! Timeouts of proposals and reads, checked once per tick.

use std::time::Duration;

use types::MemberId;

use super::RaftLoop;
use crate::error::Error;

impl RaftLoop {
    /// Fails proposals and reads that are older than the request timeout, and forgets dropped
    /// waiters.
    pub(super) fn expire(&mut self, now: Duration) {
        self.applied.remove_dropped();
        let Some(until) = now.checked_sub(self.context.config.request_timeout()) else { return };
        // The conf change never reached the leader, or the leader ignored it. Its waiter may go on
        // waiting, but later conf changes must not. One that the local leader appended itself will
        // be applied.
        let is_follower = !self.raft.progress.is_leader();
        self.conf_change.take_if(|change| is_follower && change.since <= until);
        let pending = &self.proposals.pending;
        // No leader appeared within the timeout.
        for held in self.held.iter().filter(|held| held.since <= until) {
            pending.fail(held.id, Error::DeadlineExceeded);
        }
        self.held.retain(|held| pending.has_waiter(held.id));
        pending.expire(until, |since| self.timeout_error(since));
        if self.reads.expire(until) {
            tracing::warn!(
                "timed out waiting for read index response (local node might have slow network)"
            );
            self.context.metrics.slow_read_indexes.inc();
        }
    }

    /// Chooses the error for a proposal that timed out, by its probable cause.
    fn timeout_error(&self, since: Duration) -> Error {
        let (progress, config) = (&self.raft.progress, &self.context.config);
        let elected = progress.elected_at();
        let leader_lost = elected.saturating_sub(2 * config.election_timeout());
        if since > leader_lost && since < elected {
            return Error::TimeoutLeaderFail;
        }
        let Some(lead) = progress.leader() else { return Error::Timeout };
        let was_connected =
            |member| self.transport.active_since(member).is_some_and(|active| active < since);
        let is_connected = if lead == self.context.local {
            self.has_quorum(was_connected)
        } else {
            was_connected(lead)
        };
        if is_connected { Error::Timeout } else { Error::TimeoutConnectionLost }
    }

    fn has_quorum(&self, is_connected: impl Fn(MemberId) -> bool) -> bool {
        let members = self.state.get().cluster.now();
        let all = members.members().count();
        let local = self.context.local;
        members.ids().filter(|id| *id == local || is_connected(*id)).count() > all / 2
    }
}
