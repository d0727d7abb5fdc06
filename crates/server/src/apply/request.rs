//! Carrying out a request.

use backend::Tx;
use backend::schema::version::Version;
use lease::Checkpoint;
use membership::Attributes;
use proto::etcdserverpb::{
    AlarmResponse, InternalRaftRequest, LeaseCheckpointRequest, LeaseGrantRequest,
    LeaseRevokeRequest,
};
use proto::membershippb::{
    ClusterMemberAttrSetRequest, ClusterVersionSetRequest, DowngradeInfoSetRequest,
};
use types::{Index, LeaseId, MemberId};

use super::outcome::keys;
use super::{Context, Done, Fault, Refusal, Reply};
use crate::metrics::Executed;
use crate::state::{Attached, StateMachine};

/// What a request came to: refused by every member alike, or by this one alone.
type Carried = Result<Result<Reply, Refusal>, Fault>;

impl StateMachine {
    /// Carries out a request, through all layers.
    pub(super) fn carry_out(
        &self,
        tx: &mut Tx<'_>,
        request: &InternalRaftRequest,
        context: Context,
        done: &mut Done,
    ) -> Carried {
        if let Some(published) = self.publish(tx, request, context, done)? {
            return Ok(Ok(published));
        }
        if let Err(refusal) = self.check(request) {
            return Ok(Err(refusal));
        }
        let has_space = self.has_space_for(request);
        let result = match self.keys(tx, request, context, done)? {
            Some(result) => result,
            None => match self.leases(tx, request, done)? {
                Some(result) => result,
                None => self.others(tx, request, context)?,
            },
        };
        Ok(if has_space { result } else { result.and(Err(Refusal::NoSpace)) })
    }

    /// What members publish about themselves and the cluster. Nobody is asked whether they may.
    fn publish(
        &self,
        tx: &mut Tx<'_>,
        request: &InternalRaftRequest,
        context: Context,
        done: &mut Done,
    ) -> Result<Option<Reply>, Fault> {
        let InternalRaftRequest {
            cluster_version_set,
            cluster_member_attr_set,
            downgrade_info_set,
            downgrade_version_test,
            ..
        } = request;
        if let Some(set) = cluster_version_set {
            self.set_version(tx, set, done)?;
        } else if let Some(set) = cluster_member_attr_set {
            self.set_attributes(tx, set, context.index)?;
        } else if let Some(DowngradeInfoSetRequest { enabled, ver }) = downgrade_info_set {
            self.cluster.set_downgrade(tx, enabled.then_some(ver.as_str()))?;
        } else if downgrade_version_test.is_none() {
            return Ok(None);
        }
        Ok(Some(Reply::Nothing))
    }

    fn set_version(
        &self,
        tx: &mut Tx<'_>,
        set: &ClusterVersionSetRequest,
        done: &mut Done,
    ) -> Result<(), Fault> {
        let before: Option<Version> = self.cluster.set_version(tx, &set.ver)?;
        done.lowered = before.is_some_and(|before| self.cluster.now().version() < Some(before));
        Ok(())
    }

    fn set_attributes(
        &self,
        tx: &mut Tx<'_>,
        set: &ClusterMemberAttrSetRequest,
        index: Index,
    ) -> Result<(), Fault> {
        let attributes = set.member_attributes.clone().ok_or(Fault::Unknown(index))?;
        let attributes = Attributes { name: attributes.name, client_urls: attributes.client_urls };
        Ok(self.cluster.update_attributes(tx, MemberId(set.member_id), attributes)?)
    }

    /// What is about keys; none if it is not.
    fn keys(
        &self,
        tx: &mut Tx<'_>,
        request: &InternalRaftRequest,
        context: Context,
        done: &mut Done,
    ) -> Result<Option<Result<Reply, Refusal>>, Fault> {
        let InternalRaftRequest { range, put, delete_range, txn, compaction, .. } = request;
        if let Some(range) = range {
            done.executed = Executed::range();
            return Ok(Some(keys(self.store.range(range))?.map(Reply::Range)));
        }
        if put.is_none() && delete_range.is_none() && txn.is_none() {
            let Some(compaction) = compaction else { return Ok(None) };
            let ticket = keys(self.store.compact(tx, compaction.revision))?;
            if ticket.is_ok() {
                // Compat: etcd reads a key to learn of the revision.
                done.executed = Executed::range();
            }
            return Ok(Some(ticket.map(Reply::Compaction)));
        }
        let leases = Attached(&self.lessor);
        let mut write = self.store.write(tx, &leases);
        let result = if let Some(put) = put {
            write.put(put).map(Reply::Put)
        } else if let Some(delete) = delete_range {
            write.delete_range(delete).map(Reply::DeleteRange)
        } else if let Some(txn) = txn {
            write.txn(txn, !context.waits).map(Reply::Txn)
        } else {
            unreachable!("one of them is there")
        };
        done.changes = Some(write.finish());
        if let Ok(reply) = &result {
            done.executed = executed(request, reply, !context.waits);
        }
        keys(result).map(Some)
    }

    /// What is about leases; none if it is not.
    fn leases(
        &self,
        tx: &mut Tx<'_>,
        request: &InternalRaftRequest,
        done: &mut Done,
    ) -> Result<Option<Result<Reply, Refusal>>, Fault> {
        let InternalRaftRequest { lease_grant, lease_revoke, lease_checkpoint, .. } = request;
        if let Some(grant) = lease_grant {
            return Ok(Some(self.grant(tx, grant)));
        }
        if let Some(revoke) = lease_revoke {
            return self.revoke(tx, revoke, done).map(Some);
        }
        if let Some(checkpoints) = lease_checkpoint {
            self.checkpoint(tx, checkpoints);
            return Ok(Some(Ok(Reply::LeaseCheckpoint)));
        }
        Ok(None)
    }

    fn grant(&self, tx: &mut Tx<'_>, grant: &LeaseGrantRequest) -> Result<Reply, Refusal> {
        let ttl = self.lessor.grant(tx, LeaseId(grant.id), grant.ttl, self.now())?;
        Ok(Reply::LeaseGrant { id: grant.id, ttl })
    }

    /// Deletes the keys of the lease in the order of the keys, in one revision.
    fn revoke(&self, tx: &mut Tx<'_>, revoke: &LeaseRevokeRequest, done: &mut Done) -> Carried {
        let attached = match self.lessor.revoke(tx, LeaseId(revoke.id)) {
            Ok(attached) => attached,
            Err(error) => return Ok(Err(error.into())),
        };
        let leases = Attached(&self.lessor);
        let mut write = self.store.write(tx, &leases);
        write.delete_keys(&attached)?;
        done.changes = Some(write.finish());
        done.executed = Executed::revoke(attached.len());
        Ok(Ok(Reply::LeaseRevoke))
    }

    fn checkpoint(&self, tx: &mut Tx<'_>, request: &LeaseCheckpointRequest) {
        let version = self.cluster.now().version();
        for checkpoint in &request.checkpoints {
            let checkpoint =
                Checkpoint { id: LeaseId(checkpoint.id), remaining_ttl: checkpoint.remaining_ttl };
            self.lessor.checkpoint(tx, checkpoint, version, self.now());
        }
    }

    /// What is about alarms, or users and roles.
    fn others(&self, tx: &mut Tx<'_>, request: &InternalRaftRequest, context: Context) -> Carried {
        let auth = &self.auth;
        Ok(if let Some(alarm) = &request.alarm {
            let alarms = self.alarms.apply(tx, alarm);
            Ok(Reply::Alarm(AlarmResponse { header: None, alarms }))
        } else if let Some(request) = &request.authenticate {
            // Compat: the token carries the index of the entry before, as on etcd's members: all of them are to know the same token.
            let index = Index(context.index.0.saturating_sub(1));
            let token = auth.authenticate(&request.name, &request.simple_token, index);
            token.map(Reply::Authenticate).map_err(Refusal::from)
        } else {
            return self.change_users(tx, request, context);
        })
    }

    fn change_users(
        &self,
        tx: &mut Tx<'_>,
        request: &InternalRaftRequest,
        context: Context,
    ) -> Carried {
        let auth = &self.auth;
        let result = if request.auth_enable.is_some() {
            auth.enable(tx).map(Reply::AuthEnable)
        } else if request.auth_disable.is_some() {
            Ok(Reply::AuthDisable(auth.disable(tx)))
        } else if request.auth_status.is_some() {
            Ok(Reply::AuthStatus(auth.status()))
        } else if let Some(request) = &request.auth_user_add {
            auth.user_add(tx, request).map(Reply::AuthUserAdd)
        } else if let Some(request) = &request.auth_user_delete {
            auth.user_delete(tx, request).map(Reply::AuthUserDelete)
        } else if let Some(request) = &request.auth_user_get {
            auth.user_get(request).map(Reply::AuthUserGet)
        } else if let Some(request) = &request.auth_user_change_password {
            auth.user_change_password(tx, request).map(Reply::AuthUserChangePassword)
        } else if let Some(request) = &request.auth_user_grant_role {
            auth.user_grant_role(tx, request).map(Reply::AuthUserGrantRole)
        } else if let Some(request) = &request.auth_user_revoke_role {
            auth.user_revoke_role(tx, request).map(Reply::AuthUserRevokeRole)
        } else if request.auth_user_list.is_some() {
            Ok(Reply::AuthUserList(auth.user_list()))
        } else if let Some(request) = &request.auth_role_add {
            auth.role_add(tx, request).map(Reply::AuthRoleAdd)
        } else if let Some(request) = &request.auth_role_delete {
            auth.role_delete(tx, request).map(Reply::AuthRoleDelete)
        } else if let Some(request) = &request.auth_role_get {
            auth.role_get(request).map(Reply::AuthRoleGet)
        } else if request.auth_role_list.is_some() {
            Ok(Reply::AuthRoleList(auth.role_list()))
        } else if let Some(request) = &request.auth_role_grant_permission {
            auth.role_grant_permission(tx, request).map(Reply::AuthRoleGrantPermission)
        } else if let Some(request) = &request.auth_role_revoke_permission {
            auth.role_revoke_permission(tx, request).map(Reply::AuthRoleRevokePermission)
        } else {
            return Err(Fault::Unknown(context.index));
        };
        Ok(result.map_err(Refusal::from))
    }
}

/// What was carried out on keys, to be counted.
fn executed(request: &InternalRaftRequest, reply: &Reply, skipped_ranges: bool) -> Executed {
    let InternalRaftRequest { put, delete_range, txn, .. } = request;
    match (put, delete_range, txn, reply) {
        (Some(put), ..) => Executed::put(put),
        (_, Some(delete), ..) => Executed::delete_range(delete),
        (.., Some(txn), Reply::Txn(result)) => Executed::txn(txn, result, skipped_ranges),
        _ => Executed::default(),
    }
}
