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
use membership::reconfig::UnsafeReconfig;
use types::MemberId;

use super::Credentials;
use crate::error::Error;
use crate::server::Server;

/// The part of an election timeout for which a leader is sure of itself: the clocks of others may be faster.
const MANDATE_SHARE: u32 = 2;

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

    /// Whether this member, which takes itself for the leader, is, and has applied all that earlier leaders left behind. A member that was paused, is cut off, or hangs
    /// in a write to its disk may have missed that there is another. So the others are asked, unless they were a moment ago.
    ///
    /// ```text
    ///   asked ───────► a majority follows ─────────────────────────────────────► somebody else may stand for election
    ///     │◄── it is sure that nobody else leads ──►│                              │
    ///     │◄────────────────── election timeout, on the fastest clock ────────────►│
    /// ```
    pub(super) async fn is_still_leader(&self) -> bool {
        let (progress, asked) = (&self.shared.progress, self.now());
        if progress.rules_alone() || progress.leads_for_sure(asked) {
            return true;
        }
        let term = self.term();
        if let Err(error) = self.linearizable().await {
            tracing::warn!(%error, "could not find out whether this member still leads");
            return false;
        }
        let leads = self.is_leader() && self.term() == term;
        if leads {
            progress.confirm(term, asked, self.config().election_timeout() / MANDATE_SHARE);
        }
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

    /// Hands leadership on before the member ends, so that nobody has to find out that it is gone. Does nothing if it does not lead, or is the only one to vote.
    ///
    /// # Errors
    /// There is nobody to hand it to, or it did not come to pass in time.
    pub async fn resign(&self) -> Result<(), Error> {
        let local = self.local();
        if !self.is_leader() {
            tracing::info!(local_member_id = %local, current_leader_member_id = %self.leader().unwrap_or(MemberId(0)), "skipped leadership transfer; local server is not leader");
            return Ok(());
        }
        if self.state().cluster.now().voters().count() < 2 {
            tracing::info!(local_member_id = %local, "skipped leadership transfer for single voting member cluster");
            return Ok(());
        }
        let next = self.longest_connected().ok_or(UnsafeReconfig::Unhealthy)?;
        self.hand_leadership_to(next).await
    }

    /// The voter, other than this one, that has been connected for the longest time.
    pub(crate) fn longest_connected(&self) -> Option<MemberId> {
        let members = self.state().cluster.now();
        let others = members.voters().map(|member| member.id).filter(|id| *id != self.local());
        let connected = others.filter_map(|id| Some((self.transport().active_since(id)?, id)));
        connected.min().map(|(_, id)| id)
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
