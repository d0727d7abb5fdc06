//! Notices a disk that hangs. A write to the log that does not come back says nothing by itself; so somebody has to look.
//!
//! ```text
//!   0 ms     the log begins to write                         healthy
//!   1200 ms  "the log has been waiting for the disk"         Server::stalled_for() = 1.2 s; whoever leads hands that on
//!   9000 ms  it comes back: "the disk answers again"         healthy
//! ```
//!
//! A leader with such a disk goes on to lead, since it still hears from the others and they from it; what is proposed to it is decided by them alone, and without one of
//! them not at all. So another shall lead: whoever has been connected to it for the longest time.

use std::time::Duration;

use super::Chore;
use crate::server::Server;

/// A write to the log that takes longer than this is one that hangs.
const STALL_MIN: Duration = Duration::from_secs(1);
/// How often somebody looks.
const LOOK: Duration = Duration::from_millis(500);

impl Server {
    /// How long the disk has not answered the log, if that is longer than it should ever take.
    pub fn stalled_for(&self) -> Option<Duration> {
        self.log_busy_for().filter(|time| *time >= STALL_MIN)
    }
}

/// Tells when the disk hangs, and when it does no more.
#[derive(Debug)]
pub(super) struct Stall {
    server: Server,
    /// Since when, if that was told.
    since: Option<Duration>,
    /// When leadership was last handed on, or tried to be.
    resigned: Option<Duration>,
}

impl Stall {
    pub(super) fn new(server: Server) -> Stall {
        Stall { server, since: None, resigned: None }
    }

    /// Has another member lead, and again if it does not come to pass.
    fn resign(&mut self, now: Duration) {
        let server = &self.server;
        let is_soon = |last: Duration| now < last + server.config().election_timeout();
        let may = server.config().features.stalled_leader_transfer && server.is_leader();
        if !may || self.resigned.is_some_and(is_soon) {
            return;
        }
        let Some(next) = server.longest_connected() else { return };
        tracing::warn!(local_member_id = %server.local(), transferee_member_id = %next, "the disk of the leader hangs; leadership shall go to another");
        server.transfer_leader(next);
        self.resigned = Some(now);
    }

    #[cfg(test)]
    pub(super) fn is_told(&self) -> bool {
        self.since.is_some()
    }
}

impl Chore for Stall {
    fn turn(&mut self, now: Duration) -> Duration {
        let stalled = self.server.stalled_for();
        if stalled.is_some() {
            self.resign(now);
        }
        match (stalled, self.since) {
            (Some(stalled), None) => {
                tracing::warn!(stalled = ?stalled, expected_duration = ?STALL_MIN, "the log has been waiting for the disk");
                self.since = Some(now.saturating_sub(stalled));
            }
            (None, Some(since)) => {
                let took = now.saturating_sub(since);
                tracing::warn!(took = ?took, expected_duration = ?STALL_MIN, "the disk answers the log again");
                self.since = None;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        now + LOOK
    }
}
