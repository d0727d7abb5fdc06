//! Notices a disk that hangs. A write to the log that does not come back says nothing by itself; so somebody has to look.
//!
//! ```text
//!   0 ms     the log begins to write                         healthy
//!   1200 ms  "the log has been waiting for the disk"         Server::stalled_for() = 1.2 s; whoever leads hands that on
//!   9000 ms  it comes back: "the disk answers again"         healthy
//! ```
//!
//! A leader with such a disk goes on to lead, since it still hears from the others and they from it; what is proposed to it is decided by them alone, and without one of
//! them not at all. So another shall lead: of the voters that are connected and have answered of late, the one that has most of the log.
//!
//! ```text
//!   voters    matched   answers   connected since
//!   local     -         -         -                 its disk hangs
//!   2         41        yes       10 s
//!   3         57        yes       80 s              ◄ the first; if it does not come to lead, then 2, then 3 again
//! ```
//!
//! Until another leads, or the try is given up, nothing can be proposed. So it is not tried unless the others are a quorum without this member, and there is a pause before the
//! next. With two voters, or three of which one is away, nothing can be decided without this disk, whoever leads.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use types::MemberId;

use super::BackgroundTask;
use super::pending_task::{POLL, PendingTask};
use crate::error::Error;
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
    handing_on: HandingOn,
}

/// Leadership on its way to others.
#[derive(Debug, Default)]
struct HandingOn {
    /// Who has how much of the log.
    asking: PendingTask<Result<raft::Status, Error>>,
    /// When it was last tried.
    last: Option<Duration>,
    /// With whom, since all have had their turn.
    tried: BTreeSet<MemberId>,
}

impl Stall {
    pub(super) fn new(server: Server) -> Stall {
        Stall { server, since: None, handing_on: HandingOn::default() }
    }

    /// Has another member lead, and again if it does not come to pass.
    fn resign(&mut self, now: Duration) {
        let (server, handing_on) = (&self.server, &mut self.handing_on);
        // A try that fails is given up after an election timeout; then there is another for what was held up.
        let is_soon = |last: Duration| now < last + 2 * server.config().election_timeout();
        if handing_on.last.is_some_and(is_soon) {
            return;
        }
        if !handing_on.asking.is_under_way() {
            let server = server.clone();
            handing_on.asking.begin(async move { server.raft_status().await });
        }
        let Some(Ok(status)) = handing_on.asking.poll() else { return };
        let active_since = |member| server.transport().active_since(member);
        let Some(next) = successor(&status, active_since, &mut handing_on.tried) else { return };
        tracing::warn!(local_member_id = %server.local(), transferee_member_id = %next, "the disk of the leader hangs; leadership shall go to another");
        server.transfer_leader(next);
        handing_on.last = Some(now);
    }

    #[cfg(test)]
    pub(super) fn is_told(&self) -> bool {
        self.since.is_some()
    }
}

impl BackgroundTask for Stall {
    fn turn(&mut self, now: Duration) -> Duration {
        let stalled = self.server.stalled_for();
        let features = &self.server.config().features;
        if stalled.is_some() && features.stalled_leader_transfer && self.server.is_leader() {
            self.resign(now);
        } else {
            self.handing_on = HandingOn::default();
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
        now + if self.handing_on.asking.is_under_way() { POLL } else { LOOK }
    }
}

/// Who shall lead: the one that has most of the log, of those who are there and were not tried. None if the others are no quorum.
fn successor(
    status: &raft::Status,
    active_since: impl Fn(MemberId) -> Option<Duration>,
    tried: &mut BTreeSet<MemberId>,
) -> Option<MemberId> {
    let conf = status.config.to_conf_state();
    // How much it has, and since when it is connected: all that it takes to be chosen.
    let rank = |id: MemberId| {
        let progress = status.progress.get(id).filter(|it| it.recent_active && !it.is_learner)?;
        (id != status.basic.id).then_some((progress.matched, Reverse(active_since(id)?), id))
    };
    let is_quorum = |voters: &[MemberId]| {
        let there = voters.iter().filter(|id| rank(**id).is_some()).count();
        voters.is_empty() || there > voters.len() / 2
    };
    if !(is_quorum(&conf.voters) && is_quorum(&conf.voters_outgoing)) {
        return None;
    }
    let best = |tried: &BTreeSet<MemberId>| {
        conf.voters.iter().filter(|id| !tried.contains(id)).filter_map(|id| rank(*id)).max()
    };
    let (_, _, next) = best(tried).or_else(|| {
        tried.clear();
        best(tried)
    })?;
    tried.insert(next);
    Some(next)
}
