//! Executes a command against the state machine.

use backend::Tx;
use backend::schema::version::Version;
use lease::Checkpoint;
use membership::Attributes;
use proto::command::{Command, RaftRequest};
use proto::etcdserverpb as pb;
use proto::membershippb::{
    ClusterMemberAttrSetRequest, ClusterVersionSetRequest, DowngradeInfoSetRequest,
};
use types::{Index, LeaseId, MemberId};

use super::layers::Layers;
use super::outcome::refusal_or_fault;
use super::{Context, Effects, Fault, Refusal, Reply};
use crate::metrics::Executed;
use crate::state::{LessorAdapter, StateMachine};

/// The result of a command: a reply, a refusal that is the same on all members, or a fault of this
/// member.
type Execution = Result<Result<Reply, Refusal>, Fault>;

impl StateMachine {
    /// Executes a command after the checks of its layers.
    pub(super) fn execute(
        &self,
        tx: &mut Tx<'_>,
        request: &RaftRequest,
        context: Context,
        effects: &mut Effects,
    ) -> Execution {
        let layers = Layers::of(&request.command);
        if let Err(refusal) = self.check(request, layers) {
            return Ok(Err(refusal));
        }
        // Before it executes: afterwards the database may have grown.
        let has_space = self.has_space_for(layers);
        let result = self.dispatch(tx, &request.command, context, effects)?;
        Ok(if has_space { result } else { result.and(Err(Refusal::NoSpace)) })
    }

    fn dispatch(
        &self,
        tx: &mut Tx<'_>,
        command: &Command,
        context: Context,
        effects: &mut Effects,
    ) -> Execution {
        let (auth, leases) = (&self.auth, LessorAdapter(&self.lessor));
        match command {
            Command::Range(range) => {
                effects.executed = Executed::range();
                Ok(refusal_or_fault(self.store.range(range))?.map(Reply::Range))
            }
            Command::Put(put) => {
                let counted = |_: &_| Executed::put(put);
                let written = self.store.put(tx, &leases, put);
                Ok(record(effects, written, counted)?.map(Reply::Put))
            }
            Command::DeleteRange(delete) => {
                let counted = |_: &_| Executed::delete_range(delete);
                let written = self.store.delete_range(tx, &leases, delete);
                Ok(record(effects, written, counted)?.map(Reply::DeleteRange))
            }
            Command::Txn(txn) => {
                let skip_ranges = !context.has_waiter;
                let counted = |result: &_| Executed::txn(txn, result, skip_ranges);
                let written = self.store.txn(tx, &leases, txn, skip_ranges);
                Ok(record(effects, written, counted)?.map(Reply::Txn))
            }
            Command::Compaction(compaction) => self.compact(tx, compaction.revision, effects),
            Command::LeaseGrant(grant) => Ok(self.lease_grant(tx, grant)),
            Command::LeaseRevoke(revoke) => self.lease_revoke(tx, revoke, effects),
            Command::LeaseCheckpoint(request) => {
                self.lease_checkpoint(tx, request);
                Ok(Ok(Reply::LeaseCheckpoint))
            }
            Command::Alarm(alarm) => {
                let alarms = self.alarms.apply(tx, alarm);
                Ok(Ok(Reply::Alarm(pb::AlarmResponse { header: None, alarms })))
            }
            Command::Authenticate(request) => {
                // Compat: as on etcd's members, the token carries the index of the entry before
                // this one. All members have to accept the same token.
                let index = Index(context.index.0.saturating_sub(1));
                let token = auth.authenticate(&request.name, &request.simple_token, index);
                reply(token, Reply::Authenticate)
            }
            Command::AuthEnable(_) => reply(auth.enable(tx), Reply::AuthEnable),
            Command::AuthDisable(_) => Ok(Ok(Reply::AuthDisable(auth.disable(tx)))),
            Command::AuthStatus(_) => Ok(Ok(Reply::AuthStatus(auth.status()))),
            Command::AuthUserAdd(add) => reply(auth.user_add(tx, add), Reply::AuthUserAdd),
            Command::AuthUserDelete(delete) => {
                reply(auth.user_delete(tx, delete), Reply::AuthUserDelete)
            }
            Command::AuthUserGet(get) => reply(auth.user_get(get), Reply::AuthUserGet),
            Command::AuthUserChangePassword(change) => {
                reply(auth.user_change_password(tx, change), Reply::AuthUserChangePassword)
            }
            Command::AuthUserGrantRole(grant) => {
                reply(auth.user_grant_role(tx, grant), Reply::AuthUserGrantRole)
            }
            Command::AuthUserRevokeRole(revoke) => {
                reply(auth.user_revoke_role(tx, revoke), Reply::AuthUserRevokeRole)
            }
            Command::AuthUserList(_) => Ok(Ok(Reply::AuthUserList(auth.user_list()))),
            Command::AuthRoleAdd(add) => reply(auth.role_add(tx, add), Reply::AuthRoleAdd),
            Command::AuthRoleDelete(delete) => {
                reply(auth.role_delete(tx, delete), Reply::AuthRoleDelete)
            }
            Command::AuthRoleGet(get) => reply(auth.role_get(get), Reply::AuthRoleGet),
            Command::AuthRoleList(_) => Ok(Ok(Reply::AuthRoleList(auth.role_list()))),
            Command::AuthRoleGrantPermission(grant) => {
                reply(auth.role_grant_permission(tx, grant), Reply::AuthRoleGrantPermission)
            }
            Command::AuthRoleRevokePermission(revoke) => {
                reply(auth.role_revoke_permission(tx, revoke), Reply::AuthRoleRevokePermission)
            }
            Command::ClusterVersionSet(set) => self.set_version(tx, set, effects),
            Command::ClusterMemberAttrSet(set) => self.set_attributes(tx, set, context.index),
            Command::DowngradeInfoSet(DowngradeInfoSetRequest { enabled, ver }) => {
                self.cluster.set_downgrade(tx, enabled.then_some(ver.as_str()))?;
                Ok(Ok(Reply::Empty))
            }
            Command::DowngradeVersionTest(_) => Ok(Ok(Reply::Empty)),
        }
    }

    fn compact(&self, tx: &mut Tx<'_>, revision: i64, effects: &mut Effects) -> Execution {
        let ticket = refusal_or_fault(self.store.compact(tx, revision))?;
        if ticket.is_ok() {
            // Compat: etcd reads a key to learn the revision, and counts that.
            effects.executed = Executed::range();
        }
        Ok(ticket.map(Reply::Compaction))
    }

    fn lease_grant(
        &self,
        tx: &mut Tx<'_>,
        grant: &pb::LeaseGrantRequest,
    ) -> Result<Reply, Refusal> {
        let ttl = self.lessor.grant(tx, LeaseId(grant.id), grant.ttl, self.now())?;
        let response = pb::LeaseGrantResponse { id: grant.id, ttl, ..Default::default() };
        Ok(Reply::LeaseGrant(response))
    }

    /// Deletes the keys of the lease in key order, at one revision.
    fn lease_revoke(
        &self,
        tx: &mut Tx<'_>,
        revoke: &pb::LeaseRevokeRequest,
        effects: &mut Effects,
    ) -> Execution {
        let keys = match self.lessor.revoke(tx, LeaseId(revoke.id)) {
            Ok(keys) => keys,
            Err(error) => return Ok(Err(error.into())),
        };
        let leases = LessorAdapter(&self.lessor);
        let mut write = self.store.write(tx, &leases);
        write.delete_keys(&keys)?;
        effects.changes = Some(write.finish());
        effects.executed = Executed::revoke(keys.len());
        Ok(Ok(Reply::LeaseRevoke(pb::LeaseRevokeResponse::default())))
    }

    fn lease_checkpoint(&self, tx: &mut Tx<'_>, request: &pb::LeaseCheckpointRequest) {
        let version = self.cluster.now().version();
        for checkpoint in &request.checkpoints {
            let checkpoint =
                Checkpoint { id: LeaseId(checkpoint.id), remaining_ttl: checkpoint.remaining_ttl };
            self.lessor.checkpoint(tx, checkpoint, version, self.now());
        }
    }

    fn set_version(
        &self,
        tx: &mut Tx<'_>,
        set: &ClusterVersionSetRequest,
        effects: &mut Effects,
    ) -> Execution {
        let before: Option<Version> = self.cluster.set_version(tx, &set.ver)?;
        effects.version_lowered =
            before.is_some_and(|before| self.cluster.now().version() < Some(before));
        Ok(Ok(Reply::Empty))
    }

    fn set_attributes(
        &self,
        tx: &mut Tx<'_>,
        set: &ClusterMemberAttrSetRequest,
        index: Index,
    ) -> Execution {
        let attributes = set.member_attributes.clone().ok_or(Fault::Unknown(index))?;
        let attributes = Attributes { name: attributes.name, client_urls: attributes.client_urls };
        self.cluster.update_attributes(tx, MemberId(set.member_id), attributes)?;
        Ok(Ok(Reply::Empty))
    }
}

/// Keeps the changes of a write for its commit; `counted` describes a successful one for the
/// metrics.
fn record<T>(
    effects: &mut Effects,
    write: mvcc::Write<T>,
    counted: impl FnOnce(&T) -> Executed,
) -> Result<Result<T, Refusal>, Fault> {
    effects.changes = Some(write.changes);
    if let Ok(value) = &write.result {
        effects.executed = counted(value);
    }
    refusal_or_fault(write.result)
}

/// The result of a command about users and roles.
fn reply<T>(result: Result<T, auth::Error>, reply: fn(T) -> Reply) -> Execution {
    Ok(result.map(reply).map_err(Refusal::from))
}
