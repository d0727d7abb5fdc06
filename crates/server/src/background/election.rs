//! The first election need not wait for the whole timeout: a leader, if there is one, would have been heard of as soon as others are connected.
//!
//! ```text
//!   0 ms     a member of three starts                        its election would begin after 1000 to 2000 ms
//!   120 ms   both others are connected, no leader is heard   8 of 10 ticks pass at once: it begins after 200 to 1200 ms
//! ```

use std::time::Duration;

use super::BackgroundTask;
use super::pending_task::NEVER;
use crate::pipeline::raft_loop::Event;
use crate::server::Server;

/// How long connections are waited for. Later there is nothing to gain.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often somebody looks.
const LOOK: Duration = Duration::from_millis(50);
/// Others that must be connected.
const ACTIVE_MIN: usize = 2;
/// Ticks that are left, for a leader to be heard.
const TICKS_LEFT: u32 = 2;

/// Shortens the wait for the first election, once.
#[derive(Debug)]
pub(super) struct FirstElection {
    server: Server,
    until: Duration,
}

impl FirstElection {
    /// None if the flags say that it waits.
    pub(super) fn new(server: Server) -> Option<FirstElection> {
        let config = server.config();
        let is_wanted = config.initial_election_tick_advance && config.election_ticks > TICKS_LEFT;
        let until = server.now() + PATIENCE;
        is_wanted.then_some(FirstElection { server, until })
    }

    fn others(&self) -> usize {
        self.server.state().cluster.now().ids().filter(|id| *id != self.server.local()).count()
    }

    fn active(&self) -> usize {
        let (members, local) = (self.server.state().cluster.now(), self.server.local());
        let others = members.ids().filter(|id| *id != local);
        others.filter(|id| self.server.transport().active_since(*id).is_some()).count()
    }

    fn advance(&self, active: usize) {
        let config = self.server.config();
        let ticks = config.election_ticks - TICKS_LEFT;
        tracing::info!(
            local_member_id = %self.server.local(),
            forward_ticks = ticks,
            forward_duration = ?(config.heartbeat * ticks),
            election_ticks = config.election_ticks,
            election_timeout = ?config.election_timeout(),
            active_remote_members = active,
            "initialized peer connections; fast-forwarding election ticks"
        );
        self.server.inner.raft.push(Event::AdvanceTicks(ticks));
    }
}

impl BackgroundTask for FirstElection {
    fn turn(&mut self, now: Duration) -> Duration {
        if now >= self.until || self.server.leader().is_some() {
            self.until = Duration::ZERO;
            return NEVER;
        }
        if self.others() < ACTIVE_MIN {
            return self.until;
        }
        if !self.server.inner.raft.participates() {
            return now + LOOK;
        }
        let active = self.active();
        if active < ACTIVE_MIN {
            return now + LOOK;
        }
        self.advance(active);
        self.until = Duration::ZERO;
        NEVER
    }
}
