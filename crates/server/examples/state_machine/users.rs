//! Requests about users and roles.

use anyhow::Context as _;
use auth::{Cost, hash_password};
use bytes::Bytes;
use prost::Message;
use proto::etcdserverpb as pb;
use server::Reply;

use crate::answer::with_header;
use crate::driver::{Answer, Driver, Frame};

impl Driver {
    pub(crate) fn users(&mut self, frame: &Frame) -> anyhow::Result<Answer> {
        let request = self.request(frame.method, frame.payload.clone())?;
        Ok(self.propose(frame, request)?.map(|(reply, revision)| encode(&reply, revision)))
    }

    fn request(&mut self, method: u8, payload: Bytes) -> anyhow::Result<pb::InternalRaftRequest> {
        let mut all = pb::InternalRaftRequest::default();
        match method {
            20 => all.auth_enable = Some(decode(payload)?),
            21 => all.auth_disable = Some(decode(payload)?),
            22 => all.auth_status = Some(decode(payload)?),
            23 => all.auth_user_add = Some(self.hashed(decode(payload)?)?),
            24 => all.auth_user_get = Some(decode(payload)?),
            25 => all.auth_user_list = Some(decode(payload)?),
            26 => all.auth_user_delete = Some(decode(payload)?),
            27 => all.auth_user_change_password = Some(self.changed(decode(payload)?)?),
            28 => all.auth_user_grant_role = Some(decode(payload)?),
            29 => all.auth_user_revoke_role = Some(decode(payload)?),
            30 => all.auth_role_add = Some(decode(payload)?),
            31 => all.auth_role_get = Some(decode(payload)?),
            32 => all.auth_role_list = Some(decode(payload)?),
            33 => all.auth_role_delete = Some(decode(payload)?),
            34 => all.auth_role_grant_permission = Some(decode(payload)?),
            _ => all.auth_role_revoke_permission = Some(decode(payload)?),
        }
        Ok(all)
    }

    /// Passwords do not go into the log.
    fn hashed(
        &mut self,
        mut add: pb::AuthUserAddRequest,
    ) -> anyhow::Result<pb::AuthUserAddRequest> {
        if !add.options.as_ref().is_some_and(|options| options.no_password) {
            add.hashed_password = self.hash(&add.password)?;
            add.password.clear();
        }
        Ok(add)
    }

    fn changed(
        &mut self,
        mut change: pb::AuthUserChangePasswordRequest,
    ) -> anyhow::Result<pb::AuthUserChangePasswordRequest> {
        // As in etcd, a user that has no password cannot be given one by the hash alone.
        if !change.password.is_empty() {
            change.hashed_password = self.hash(&change.password)?;
            change.password.clear();
        }
        Ok(change)
    }

    fn hash(&mut self, password: &str) -> anyhow::Result<String> {
        hash_password(Cost::new(auth::COST_MIN), password, &mut self.random).context("hash")
    }
}

fn decode<M: Message + Default>(payload: Bytes) -> anyhow::Result<M> {
    Ok(M::decode(payload)?)
}

fn encode(reply: &Reply, revision: i64) -> Bytes {
    match reply {
        Reply::AuthEnable(message) => with_header(revision, message),
        Reply::AuthDisable(message) => with_header(revision, message),
        Reply::AuthStatus(message) => with_header(revision, message),
        Reply::AuthUserAdd(message) => with_header(revision, message),
        Reply::AuthUserDelete(message) => with_header(revision, message),
        Reply::AuthUserGet(message) => with_header(revision, message),
        Reply::AuthUserChangePassword(message) => with_header(revision, message),
        Reply::AuthUserGrantRole(message) => with_header(revision, message),
        Reply::AuthUserRevokeRole(message) => with_header(revision, message),
        Reply::AuthUserList(message) => with_header(revision, message),
        Reply::AuthRoleAdd(message) => with_header(revision, message),
        Reply::AuthRoleDelete(message) => with_header(revision, message),
        Reply::AuthRoleGet(message) => with_header(revision, message),
        Reply::AuthRoleList(message) => with_header(revision, message),
        Reply::AuthRoleGrantPermission(message) => with_header(revision, message),
        Reply::AuthRoleRevokePermission(message) => with_header(revision, message),
        other => unreachable!("{other:?} answers something else"),
    }
}
