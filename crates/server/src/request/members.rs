//! Members: added, removed, promoted, moved, listed.
//!
//! A change is asked about three times. Before it is proposed: whether whoever asks may, and whether the cluster would keep its quorum
//! (`--strict-reconfig-check`). By consensus: one change at a time. And as it is applied, by every member alike: whether it makes sense.
//!
//! Compat: as in etcd, the headers of these answers have no revision.

use std::time::Duration;

use membership::reconfig::{self, Health, UnsafeReconfig};
use membership::{Change, ConfChangeRefusal, Member, RaftAttributes};
use proto::etcdserverpb as pb;
use types::MemberId;

use super::Credentials;
use super::leader::Leader;
use crate::error::Error;
use crate::server::Server;
use crate::transport::AskError;
use crate::units::unix_seconds;

/// How long to wait before the leader is looked for again.
const RETRY: Duration = Duration::from_millis(50);

impl Server {
    /// Adds a member. Where it is reached was checked before.
    pub async fn member_add(
        &self,
        who: &Credentials,
        r: pb::MemberAddRequest,
    ) -> Result<pb::MemberAddResponse, Error> {
        self.check_admin(who).await?;
        let pb::MemberAddRequest { mut peer_urls, is_learner } = r;
        peer_urls.sort_unstable();
        let member = Member::to_add(peer_urls, is_learner, unix_seconds(&**self.clock()));
        self.if_strict("add", member.id, |server| server.may_add(is_learner))?;
        if !is_learner && !self.transport().reaches_others() {
            self.state().cluster.now().check_peer_urls(&member)?;
            return Err(Error::Alone);
        }
        let members = shown(self.change_members(Change::Add(member.clone())).await?);
        let header = Some(self.header_without_revision());
        Ok(pb::MemberAddResponse { header, member: Some(member.into()), members })
    }

    /// Removes a member, for good.
    pub async fn member_remove(
        &self,
        who: &Credentials,
        r: pb::MemberRemoveRequest,
    ) -> Result<pb::MemberRemoveResponse, Error> {
        self.check_admin(who).await?;
        let id = MemberId(r.id);
        self.if_strict("remove", id, |server| server.may_remove(id))?;
        let members = shown(self.change_members(Change::Remove(id)).await?);
        Ok(pb::MemberRemoveResponse { header: Some(self.header_without_revision()), members })
    }

    /// Changes where a member is reached by others.
    pub async fn member_update(
        &self,
        who: &Credentials,
        r: pb::MemberUpdateRequest,
    ) -> Result<pb::MemberUpdateResponse, Error> {
        self.check_admin(who).await?;
        let raft = RaftAttributes { peer_urls: r.peer_urls, is_learner: false };
        let member = Member { id: MemberId(r.id), raft, ..Member::default() };
        let members = shown(self.change_members(Change::Update(member)).await?);
        Ok(pb::MemberUpdateResponse { header: Some(self.header_without_revision()), members })
    }

    /// Makes a voter of a learner that has nearly all of the leader's log. Only the leader knows that.
    pub async fn member_promote(
        &self,
        who: &Credentials,
        r: pb::MemberPromoteRequest,
    ) -> Result<pb::MemberPromoteResponse, Error> {
        self.check_admin(who).await?;
        let members = shown(self.promote(who, MemberId(r.id)).await?);
        Ok(pb::MemberPromoteResponse { header: Some(self.header_without_revision()), members })
    }

    /// Makes a voter of a learner, here or where the leader is.
    pub(super) async fn promote(
        &self,
        who: &Credentials,
        id: MemberId,
    ) -> Result<Vec<Member>, Error> {
        let deadline = self.deadline();
        loop {
            match self.promote_here(id).await {
                Err(Error::NotLeader) => {}
                promoted => {
                    self.count_promotion(&promoted);
                    return promoted;
                }
            }
            if let Leader::Elsewhere(leader) = self.find_leader(deadline).await? {
                let asked = self.transport().ask_to_promote(
                    &leader,
                    id,
                    who.token.clone(),
                    self.left(deadline),
                );
                match asked.await {
                    Ok(members) => return Ok(members),
                    Err(AskError::Members(refused)) => return Err(refused.into()),
                    Err(AskError::Unsafe(refused)) => return Err(refused.into()),
                    Err(error) => {
                        tracing::warn!(%error, leader = %leader.id, "failed to have the leader promote a learner");
                    }
                }
            }
            self.pause(RETRY, deadline).await?;
        }
    }

    fn count_promotion(&self, promoted: &Result<Vec<Member>, Error>) {
        let metrics = self.metrics();
        match promoted {
            Ok(_) => metrics.learner_promote_successes.inc(),
            Err(error) => {
                metrics.learner_promote_failures.with_label_values(&[&error.to_string()]).inc();
            }
        }
    }

    async fn promote_here(&self, id: MemberId) -> Result<Vec<Member>, Error> {
        self.check_learner(id).await?;
        self.if_strict("promote", id, |server| {
            reconfig::may_promote(&server.state().cluster.now())
        })?;
        self.change_members(Change::Promote(id)).await
    }

    /// Whether a learner has enough of the log. Whether it is one at all is found out when the change is applied.
    async fn check_learner(&self, id: MemberId) -> Result<(), Error> {
        self.catch_up().await?;
        let progress = self.raft_status().await?.progress;
        let leader = progress.get(self.local()).ok_or(Error::NotLeader)?;
        let learner = progress.get(id).ok_or(ConfChangeRefusal::IdNotFound)?;
        reconfig::learner_is_ready(learner.matched, leader.matched).inspect_err(|error| {
            tracing::error!(member = %id, learner = %learner.matched, leader = %leader.matched, %error, "rejecting promote learner");
        })?;
        Ok(())
    }

    /// All members: as this one knows them, or with whatever was decided when it was asked.
    pub async fn member_list(
        &self,
        who: &Credentials,
        r: pb::MemberListRequest,
    ) -> Result<pb::MemberListResponse, Error> {
        if r.linearizable {
            self.linearizable().await?;
        }
        self.check_any_user(who).await?;
        let header = Some(self.header_without_revision());
        Ok(pb::MemberListResponse { header, members: shown(self.members()) })
    }

    /// Takes a change through the log. Returns all members after it.
    ///
    /// Consensus takes one change at a time. It passes over one that comes before all is applied that may be another, from before there was a
    /// leader. So that is waited for before a change is proposed.
    ///
    /// Compat: as in etcd, all of this takes as long as whoever asked cares to wait. Without a leader that is until they give up.
    async fn change_members(&self, change: Change) -> Result<Vec<Member>, Error> {
        self.leader_catches_up().await?;
        self.consensus_catches_up().await?;
        self.propose_conf_change(&change)?.await?;
        tracing::info!(local_member_id = %self.local(), member = %change.member(), "applied a configuration change through raft");
        Ok(self.members())
    }

    /// Waits until there is a leader that has committed something, and all from before is applied here.
    async fn leader_catches_up(&self) -> Result<(), Error> {
        loop {
            match self.linearizable().await {
                Err(Error::Timeout | Error::LeaderChanged) => {}
                caught_up => return caught_up,
            }
        }
    }

    /// Waits until consensus has heard that what is committed by now is applied.
    async fn consensus_catches_up(&self) -> Result<(), Error> {
        let mut status = self.raft_status().await?.basic;
        let committed = status.hard_state.commit;
        while status.applied < committed {
            self.wait_applied(committed).await?;
            status = self.raft_status().await?.basic;
        }
        Ok(())
    }

    /// In the order of their ids.
    fn members(&self) -> Vec<Member> {
        self.state().cluster.now().members().cloned().collect()
    }

    /// Asks whether a change is safe, if that is to be asked.
    fn if_strict(
        &self,
        change: &str,
        member: MemberId,
        ask: impl FnOnce(&Server) -> Result<(), UnsafeReconfig>,
    ) -> Result<(), Error> {
        if !self.config().strict_reconfig_check {
            return Ok(());
        }
        ask(self).inspect_err(|error| {
            tracing::warn!(local_member_id = %self.local(), %member, %error, "rejecting member {change} request");
        })?;
        Ok(())
    }

    fn may_add(&self, is_learner: bool) -> Result<(), UnsafeReconfig> {
        let (membership, local) = (self.state().cluster.now(), self.local());
        let connected_for = |id| self.connected_for(id);
        Health { membership: &membership, local, connected_for }.may_add(is_learner)
    }

    fn may_remove(&self, id: MemberId) -> Result<(), UnsafeReconfig> {
        let (membership, local) = (self.state().cluster.now(), self.local());
        let connected_for = |id| self.connected_for(id);
        Health { membership: &membership, local, connected_for }.may_remove(id)
    }

    fn connected_for(&self, member: MemberId) -> Option<Duration> {
        let since = self.transport().active_since(member)?;
        Some(self.now().saturating_sub(since))
    }
}

/// Members as clients see them.
fn shown(members: Vec<Member>) -> Vec<pb::Member> {
    members.into_iter().map(pb::Member::from).collect()
}
