//! Where the leader is, whether it still is, and handing leadership on.
//!
//! Some things only the leader knows: how long leases have to live, and how far learners are. They are asked of this member if it leads; otherwise
//! somebody has to be found who does:
//!
//! ```text
//!   led by      this member ─► Here           asked on the spot
//!               another     ─► Elsewhere      to be passed on
//!               nobody      ─► (waits, for as long as a request may take) ─► etcdserver: no leader
//! ```

use std::time::Duration;

use membership::Member;
use types::MemberId;

use super::Credentials;
use crate::error::Error;
use crate::server::Server;

/// Ticks that the raft loop may be late before its word is doubted.
const ACTIVE_TICKS: u32 = 3;

/// Where the leader is.
#[derive(Debug)]
pub(super) enum Leader {
    /// It is this member.
    Here,
    /// It is another.
    Elsewhere(Member),
}

impl Server {
    /// Finds the leader; waits for one until the deadline if there is none.
    pub(super) async fn find_leader(&self, deadline: Duration) -> Result<Leader, Error> {
        loop {
            self.check_running()?;
            if self.is_leader() {
                return Ok(Leader::Here);
            }
            if let Some(leader) = self.leader().filter(|leader| *leader != self.local())
                && let Some(member) = self.state().cluster.now().member(leader)
            {
                return Ok(Leader::Elsewhere(member.clone()));
            }
            self.pause(self.config().heartbeat, deadline).await.map_err(or_no_leader)?;
        }
    }

    /// Passes a question on to the leader.
    ///
    /// Members cannot be asked anything yet, other than by consensus: whoever asked has to turn to the leader.
    pub(super) fn ask_elsewhere<T>(&self, leader: &Member) -> Result<T, Error> {
        tracing::debug!(leader = %leader.id, "only the leader could answer");
        Err(Error::NotLeader)
    }

    /// Whether this member, which takes itself for the leader, is. A member that was paused, or hangs in a write to its disk, may have missed that
    /// there is another; so if the raft loop has not ticked of late, the others are asked.
    pub(super) async fn is_still_leader(&self) -> bool {
        if self.since_tick() < ACTIVE_TICKS * self.config().heartbeat {
            return true;
        }
        if let Err(error) = self.linearizable().await {
            tracing::warn!(%error, "could not find out whether this member still leads");
            return false;
        }
        let leads = self.is_leader();
        if !leads {
            let leader = self.leader().unwrap_or(MemberId(0));
            tracing::warn!(local_member_id = %self.local(), new_lead = %leader, "this member no longer leads");
        }
        leads
    }

    /// Hands leadership to another member. Returns when that leads.
    ///
    /// # Errors
    /// This member does not lead, the other does not vote, or it did not come to pass in time.
    pub async fn move_leader(&self, who: &Credentials, target: u64) -> Result<(), Error> {
        self.check_admin(who).await?;
        if self.leader() != Some(self.local()) {
            return Err(Error::NotLeader);
        }
        self.hand_leadership_to(MemberId(target)).await
    }

    /// Hands leadership to another member, whoever asks.
    ///
    /// # Errors
    /// As for [`Server::move_leader`].
    pub async fn hand_leadership_to(&self, target: MemberId) -> Result<(), Error> {
        let votes = self.state().cluster.now().member(target).is_some_and(Member::is_voter);
        if !votes {
            return Err(Error::BadLeaderTransferee);
        }
        let (began, deadline) = (self.now(), self.deadline());
        tracing::info!(local_member_id = %self.local(), transferee_member_id = %target, "leadership transfer starting");
        self.transfer_leader(target);
        while self.leader() != Some(target) {
            self.pause(self.config().heartbeat, deadline).await.map_err(or_transfer)?;
        }
        let took = self.now().saturating_sub(began);
        tracing::info!(local_member_id = %self.local(), new_leader_member_id = %target, took = ?took, "leadership transfer finished");
        Ok(())
    }
}

fn or_no_leader(error: Error) -> Error {
    if error == Error::Timeout { Error::NoLeader } else { error }
}

fn or_transfer(error: Error) -> Error {
    if error == Error::Timeout { Error::TimeoutLeaderTransfer } else { error }
}
