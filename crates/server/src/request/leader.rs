//! Finding the leader, confirming leadership, and transferring it.
//!
//! Only the leader knows the remaining TTLs of leases and the progress of learners. Such requests
//! are answered locally or forwarded:
//!
//! ```text
//!   leader is   this member ─► Local          answered locally
//!               another     ─► Peer           forwarded
//!               unknown     ─► waits up to the request timeout ─► etcdserver: no leader
//! ```

use std::time::Duration;

use membership::Member;
use membership::reconfig::UnsafeReconfig;
use types::MemberId;

use super::Credentials;
use crate::error::Error;
use crate::server::Server;

/// The divisor of the election timeout that gives the leader lease: other clocks may run faster.
const LEADER_LEASE_SHARE: u32 = 2;

/// The location of the leader.
#[derive(Debug)]
pub(super) enum Leader {
    /// This member leads.
    Local,
    /// Another member leads.
    Peer(Member),
}

impl Server {
    /// Finds the leader, waiting until the deadline for one.
    pub(super) async fn find_leader(&self, deadline: Duration) -> Result<Leader, Error> {
        loop {
            self.check_running()?;
            if self.is_leader() {
                return Ok(Leader::Local);
            }
            if let Some(leader) = self.leader().filter(|leader| *leader != self.local())
                && let Some(member) = self.state().cluster.now().member(leader)
            {
                return Ok(Leader::Peer(member.clone()));
            }
            self.pause(self.config().heartbeat, deadline).await.map_err(or_no_leader)?;
        }
    }

    /// Confirms that this member still leads and has applied everything from earlier leaders. A
    /// member that was paused, is partitioned or hangs in a disk write may not know of a new
    /// leader. So it queries a quorum, unless its leader lease is still valid.
    ///
    /// ```text
    ///   request ► a quorum confirms ─────────────────────► another member may campaign
    ///     │◄──────── leader lease ────────►│                 │
    ///     │◄────── election timeout, on the fastest clock ──►│
    /// ```
    pub(super) async fn is_still_leader(&self) -> bool {
        let (progress, requested) = (&self.inner.raft.progress, self.now());
        if progress.is_sole_leader() || progress.has_leader_lease(requested) {
            return true;
        }
        let term = self.term();
        if let Err(error) = self.linearizable().await {
            tracing::warn!(%error, "failed to confirm leadership");
            return false;
        }
        let leads = self.is_leader() && self.term() == term;
        if leads {
            progress.extend_leader_lease(
                term,
                requested,
                self.config().election_timeout() / LEADER_LEASE_SHARE,
            );
        }
        if !leads {
            let leader = self.leader().unwrap_or(MemberId(0));
            tracing::warn!(local_member_id = %self.local(), new_lead = %leader, "this member no longer leads");
        }
        leads
    }

    /// Transfers leadership to another member. Returns when that member leads.
    ///
    /// # Errors
    /// This member does not lead, the other is not a voter, or the transfer timed out.
    pub async fn move_leader(&self, credentials: &Credentials, target: u64) -> Result<(), Error> {
        self.check_admin(credentials).await?;
        if self.leader() != Some(self.local()) {
            return Err(Error::NotLeader);
        }
        self.transfer_leadership_to(MemberId(target)).await
    }

    /// Transfers leadership before the member shuts down, so that the others need not wait for an
    /// election timeout. Does nothing if it does not lead or is the only voter.
    ///
    /// # Errors
    /// No other voter is connected, or the transfer timed out.
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
        self.transfer_leadership_to(next).await
    }

    /// Returns the other voter that has been connected for the longest time.
    pub(crate) fn longest_connected(&self) -> Option<MemberId> {
        let members = self.state().cluster.now();
        let others = members.voters().map(|member| member.id).filter(|id| *id != self.local());
        let connected = others.filter_map(|id| Some((self.transport().active_since(id)?, id)));
        connected.min().map(|(_, id)| id)
    }

    /// Transfers leadership without checking permissions.
    ///
    /// # Errors
    /// As for [`Server::move_leader`].
    pub async fn transfer_leadership_to(&self, target: MemberId) -> Result<(), Error> {
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
