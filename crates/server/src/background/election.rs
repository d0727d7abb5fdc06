//! Shortens the wait for the first election after a start.
//!
//! Once peers are connected, an existing leader's heartbeat would have arrived within a few
//! heartbeat intervals, so the member need not wait for the whole election timeout.
//!
//! ```text
//!   0 ms     a member of three starts                its election timeout is 1000 to 2000 ms
//!   120 ms   both peers are connected, no leader     skips 8 of 10 ticks: 200 to 1200 ms
//! ```

use std::time::Duration;

use super::BackgroundTask;
use super::pending_task::NEVER;
use crate::pipeline::raft_loop::Event;
use crate::server::Server;

/// The time to wait for connections. Later than that, skipping ticks gains nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The number of peers that must be connected.
const ACTIVE_MIN: usize = 2;
/// The ticks that are not skipped, so that a heartbeat of a leader can arrive.
const TICKS_LEFT: u32 = 2;

/// Advances the election ticks once, as soon as peers are connected.
#[derive(Debug)]
pub(super) struct FirstElection {
    server: Server,
    until: Duration,
}

impl FirstElection {
    /// Returns `None` if the flags disable it.
    pub(super) fn new(server: Server) -> Option<FirstElection> {
        let config = server.config();
        let is_wanted = config.initial_election_tick_advance && config.election_ticks > TICKS_LEFT;
        let until = server.now() + CONNECT_TIMEOUT;
        is_wanted.then_some(FirstElection { server, until })
    }

    fn peer_count(&self) -> usize {
        self.server.state().cluster.now().ids().filter(|id| *id != self.server.local()).count()
    }

    fn active_peer_count(&self) -> usize {
        let (members, local) = (self.server.state().cluster.now(), self.server.local());
        let peers = members.ids().filter(|id| *id != local);
        peers.filter(|id| self.server.transport().active_since(*id).is_some()).count()
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
        if self.peer_count() < ACTIVE_MIN {
            return self.until;
        }
        if !self.server.inner.raft.participates() {
            return now + CHECK_INTERVAL;
        }
        let active = self.active_peer_count();
        if active < ACTIVE_MIN {
            return now + CHECK_INTERVAL;
        }
        self.advance(active);
        self.until = Duration::ZERO;
        NEVER
    }
}
