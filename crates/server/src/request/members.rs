//! Members: added, removed, promoted, updated, listed.
//!
//! A conf change is checked three times: before it is proposed, for permissions and for the quorum
//! (`--strict-reconfig-check`); by Raft, which takes one change at a time; and when it is applied,
//! by every member alike.
//!
//! Compat: as in etcd, the headers of these responses have no revision.

use std::time::Duration;

use membership::reconfig::{self, Health, UnsafeReconfig};
use membership::{Change, ConfChangeRefusal, Member, RaftAttributes};
use proto::etcdserverpb as pb;
use types::MemberId;

use super::Credentials;
use super::leader::Leader;
use crate::error::Error;
use crate::server::Server;
use crate::transport::PeerRequestError;
use crate::units::unix_seconds;

/// The wait before the leader is looked up again.
const RETRY: Duration = Duration::from_millis(50);

impl Server {
    /// Adds a member. The caller has validated its URLs.
    pub async fn member_add(
        &self,
        credentials: &Credentials,
        r: pb::MemberAddRequest,
    ) -> Result<pb::MemberAddResponse, Error> {
        self.check_admin(credentials).await?;
        let pb::MemberAddRequest { mut peer_urls, is_learner } = r;
        peer_urls.sort_unstable();
        let member = Member::to_add(peer_urls, is_learner, unix_seconds(&**self.clock()));
        self.if_strict("add", member.id, |server| server.may_add(is_learner))?;
        if !is_learner && !self.transport().reaches_peers() {
            self.state().cluster.now().check_peer_urls(&member)?;
            return Err(Error::NoPeers);
        }
        let members = to_protobuf(self.change_members(Change::Add(member.clone())).await?);
        let header = Some(self.header_without_revision());
        Ok(pb::MemberAddResponse { header, member: Some(member.into()), members })
    }

    /// Removes a member for good.
    pub async fn member_remove(
        &self,
        credentials: &Credentials,
        r: pb::MemberRemoveRequest,
    ) -> Result<pb::MemberRemoveResponse, Error> {
        self.check_admin(credentials).await?;
        let id = MemberId(r.id);
        self.if_strict("remove", id, |server| server.may_remove(id))?;
        let members = to_protobuf(self.change_members(Change::Remove(id)).await?);
        Ok(pb::MemberRemoveResponse { header: Some(self.header_without_revision()), members })
    }

    /// Changes the peer URLs of a member.
    pub async fn member_update(
        &self,
        credentials: &Credentials,
        r: pb::MemberUpdateRequest,
    ) -> Result<pb::MemberUpdateResponse, Error> {
        self.check_admin(credentials).await?;
        let raft = RaftAttributes { peer_urls: r.peer_urls, is_learner: false };
        let member = Member { id: MemberId(r.id), raft, ..Member::default() };
        let members = to_protobuf(self.change_members(Change::Update(member)).await?);
        Ok(pb::MemberUpdateResponse { header: Some(self.header_without_revision()), members })
    }

    /// Promotes a learner that is nearly up to date with the leader, which only the leader knows.
    pub async fn member_promote(
        &self,
        credentials: &Credentials,
        r: pb::MemberPromoteRequest,
    ) -> Result<pb::MemberPromoteResponse, Error> {
        self.check_admin(credentials).await?;
        let members = to_protobuf(self.promote(credentials, MemberId(r.id)).await?);
        Ok(pb::MemberPromoteResponse { header: Some(self.header_without_revision()), members })
    }

    /// Promotes a learner here or through the leader.
    pub(super) async fn promote(
        &self,
        credentials: &Credentials,
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
            if let Leader::Peer(leader) = self.find_leader(deadline).await? {
                let promotion = self.transport().request_promotion(
                    &leader,
                    id,
                    credentials.token.clone(),
                    self.time_left(deadline),
                );
                match promotion.await {
                    Ok(members) => return Ok(members),
                    Err(PeerRequestError::Members(refused)) => return Err(refused.into()),
                    Err(PeerRequestError::Unsafe(refused)) => return Err(refused.into()),
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

    /// Checks that a learner has enough of the log. Whether the member is a learner is checked when
    /// the change is applied.
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

    /// Lists the members, linearizably or as this member knows them.
    pub async fn member_list(
        &self,
        credentials: &Credentials,
        r: pb::MemberListRequest,
    ) -> Result<pb::MemberListResponse, Error> {
        if r.linearizable {
            self.linearizable().await?;
        }
        self.check_any_user(credentials).await?;
        let header = Some(self.header_without_revision());
        Ok(pb::MemberListResponse { header, members: to_protobuf(self.members()) })
    }

    /// Takes a conf change through the log and returns the members after it.
    ///
    /// Raft takes one change at a time, and ignores one while entries of earlier terms, which may
    /// hold another, are not applied. So this waits for them before it proposes.
    ///
    /// Compat: as in etcd, there is no timeout; without a leader it waits until the client cancels.
    async fn change_members(&self, change: Change) -> Result<Vec<Member>, Error> {
        self.wait_for_leader().await?;
        self.wait_for_raft_applied().await?;
        self.propose_conf_change(&change)?.await?;
        tracing::info!(local_member_id = %self.local(), member = %change.member(), "applied a configuration change through raft");
        Ok(self.members())
    }

    /// Waits until a leader has committed in its term and everything before is applied here.
    async fn wait_for_leader(&self) -> Result<(), Error> {
        loop {
            match self.linearizable().await {
                Err(Error::Timeout | Error::LeaderChanged) => {}
                caught_up => return caught_up,
            }
        }
    }

    /// Waits until Raft knows that the currently committed entries are applied.
    async fn wait_for_raft_applied(&self) -> Result<(), Error> {
        let mut status = self.raft_status().await?.basic;
        let committed = status.hard_state.commit;
        while status.applied < committed {
            self.wait_applied(committed).await?;
            status = self.raft_status().await?.basic;
        }
        Ok(())
    }

    /// Returns the members, sorted by id.
    fn members(&self) -> Vec<Member> {
        self.state().cluster.now().members().cloned().collect()
    }

    /// Runs a check if `--strict-reconfig-check` is set.
    fn if_strict(
        &self,
        change: &str,
        member: MemberId,
        check: impl FnOnce(&Server) -> Result<(), UnsafeReconfig>,
    ) -> Result<(), Error> {
        if !self.config().strict_reconfig_check {
            return Ok(());
        }
        check(self).inspect_err(|error| {
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

/// Converts members for a response.
fn to_protobuf(members: Vec<Member>) -> Vec<pb::Member> {
    members.into_iter().map(pb::Member::from).collect()
}
