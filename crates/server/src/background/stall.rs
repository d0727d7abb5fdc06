//! Detects a disk that hangs, and moves leadership away from it.
//!
//! A write to the log that does not return raises no error, so this task checks its duration.
//!
//! ```text
//!   0 ms     the log writer starts a write                   healthy
//!   1200 ms  "the log write is waiting for the disk"         Server::stalled_for() = 1.2 s;
//!                                                            a leader transfers leadership
//!   9000 ms  "the log write completed after a stall"         healthy
//! ```
//!
//! A leader with such a disk keeps leading, since its heartbeats still work. Its proposals are
//! committed by the other voters alone, and not at all if one of those is missing. So it transfers
//! leadership to the voter with the longest log among the connected and responsive ones.
//!
//! ```text
//!   voter     matched   active    connected since
//!   local     -         -         -                 its disk hangs
//!   2         41        yes       10 s
//!   3         57        yes       80 s              ◄ first; if the transfer fails 2, then 3 again
//! ```
//!
//! While a transfer is pending, nothing can be proposed. So this task attempts one only if the
//! other voters form a quorum without this member, and pauses between attempts. With two voters, or
//! with three of which one is down, nothing can be committed without this disk whichever member
//! leads.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use types::MemberId;

use super::BackgroundTask;
use super::pending_task::{POLL, PendingTask};
use crate::error::Error;
use crate::server::Server;

/// The duration from which a write to the log counts as stalled.
const STALL_MIN: Duration = Duration::from_secs(1);
/// The first and the longest interval at which the end of a write is checked. Most take less than
/// the first.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(64);
/// The interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

impl Server {
    /// Returns how long the current write to the log has been waiting for the disk, if that exceeds
    /// the stall threshold of one second.
    pub fn stalled_for(&self) -> Option<Duration> {
        self.log_busy_for().filter(|time| *time >= STALL_MIN)
    }

    /// Waits for the end of the write to the log that is in progress, if there is one.
    ///
    /// # Errors
    /// The write has stalled, or the member stops.
    pub async fn log_write_completed(&self) -> Result<(), Error> {
        let (mut last, mut pause) = (Duration::ZERO, PAUSE_MIN);
        while let Some(time) = self.log_busy_for() {
            if time >= STALL_MIN {
                let stalled = format!("the log has been waiting for the disk for {time:.1?}");
                return Err(Error::Fault(stalled));
            }
            if time < last {
                // Another write began meanwhile.
                break;
            }
            last = time;
            self.sleep(pause).await?;
            pause = (2 * pause).min(PAUSE_MAX);
        }
        Ok(())
    }
}

/// Logs the beginning and end of a stall, and transfers leadership during one.
#[derive(Debug)]
pub(super) struct Stall {
    server: Server,
    /// The start of the reported stall.
    since: Option<Duration>,
    transfer: LeaderTransfer,
}

/// The transfer of leadership to another member.
#[derive(Debug, Default)]
struct LeaderTransfer {
    /// The raft status, with the log progress of each voter.
    status: PendingTask<Result<raft::Status, Error>>,
    /// The time of the last attempt.
    last: Option<Duration>,
    /// The members that were tried in this round.
    tried: BTreeSet<MemberId>,
}

impl Stall {
    pub(super) fn new(server: Server) -> Stall {
        Stall { server, since: None, transfer: LeaderTransfer::default() }
    }

    /// Transfers leadership to the best candidate, and to the next one if that fails.
    fn resign(&mut self, now: Duration) {
        let (server, transfer) = (&self.server, &mut self.transfer);
        // A failed transfer is given up after an election timeout. The second timeout leaves time
        // for the proposals that were held up.
        let is_soon = |last: Duration| now < last + 2 * server.config().election_timeout();
        if transfer.last.is_some_and(is_soon) {
            return;
        }
        if !transfer.status.is_pending() {
            let server = server.clone();
            transfer.status.begin(async move { server.raft_status().await });
        }
        let Some(Ok(status)) = transfer.status.poll() else { return };
        let active_since = |member| server.transport().active_since(member);
        let Some(next) = successor(&status, active_since, &mut transfer.tried) else { return };
        tracing::warn!(local_member_id = %server.local(), transferee_member_id = %next, "transferring leadership because the disk of the leader hangs");
        server.transfer_leader(next);
        transfer.last = Some(now);
    }

    #[cfg(test)]
    pub(super) fn is_reported(&self) -> bool {
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
            self.transfer = LeaderTransfer::default();
        }
        match (stalled, self.since) {
            (Some(stalled), None) => {
                tracing::warn!(stalled = ?stalled, expected_duration = ?STALL_MIN, "the log write is waiting for the disk");
                self.since = Some(now.saturating_sub(stalled));
            }
            (None, Some(since)) => {
                let took = now.saturating_sub(since);
                tracing::warn!(took = ?took, expected_duration = ?STALL_MIN, "the log write completed after a stall");
                self.since = None;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        now + if self.transfer.status.is_pending() { POLL } else { CHECK_INTERVAL }
    }
}

/// Chooses the next leader: the voter with the longest log among the connected ones that were not
/// tried. Returns `None` if the other voters form no quorum.
fn successor(
    status: &raft::Status,
    active_since: impl Fn(MemberId) -> Option<Duration>,
    tried: &mut BTreeSet<MemberId>,
) -> Option<MemberId> {
    let conf = status.config.to_conf_state();
    // The rank of a voter: its matched index, then the age of its connection. `None` if it cannot
    // lead.
    let rank = |id: MemberId| {
        let progress = status.progress.get(id).filter(|it| it.recent_active && !it.is_learner)?;
        (id != status.basic.id).then_some((progress.matched, Reverse(active_since(id)?), id))
    };
    let is_quorum = |voters: &[MemberId]| {
        let eligible = voters.iter().filter(|id| rank(**id).is_some()).count();
        voters.is_empty() || eligible > voters.len() / 2
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
