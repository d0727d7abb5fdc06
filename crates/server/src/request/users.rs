//! Users and roles. All of it goes through the log, questions too: so the answer is as of its place there, and whether whoever asks may is decided in one
//! place, as it is applied.
//!
//! Passwords do not go through the log. The member that is asked hashes or compares them, aside, since that takes a twentieth of a second by design:
//!
//! ```text
//!   add alice, "secret" ──► hash ──► log: add alice, base64 of $2a$10$…
//!   authenticate alice, "secret" ──► the same hash at revision 7? ──► log: alice, letters at random ──► token fbCZpKxDEEcsxGSh.41
//!                                         └─── revision 8 by now? compare again ◄──┘
//! ```

use env::OsRandom;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest;

use super::{Answered, Credentials, reply_with_header};
use crate::error::Error;
use crate::server::Server;

/// Requests that go through the log as they are, and whose answers have nothing but a header added.
macro_rules! through_log {
    ($($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident, $field:ident, $kind:ident;)*) => {
        impl Server {
            $(
                $(#[$doc])*
                pub async fn $name(
                    &self,
                    who: &Credentials,
                    r: pb::$request,
                ) -> Result<pb::$response, Error> {
                    let request =
                        InternalRaftRequest { $field: Some(r), ..InternalRaftRequest::default() };
                    reply_with_header!(self, self.log(who, request).await?, $kind)
                }
            )*
        }
    };
}

through_log! {
    /// Begins to ask who asks.
    auth_enable(AuthEnableRequest) -> AuthEnableResponse, auth_enable, AuthEnable;
    /// Stops asking.
    auth_disable(AuthDisableRequest) -> AuthDisableResponse, auth_disable, AuthDisable;
    /// Whether users are asked for.
    auth_status(AuthStatusRequest) -> AuthStatusResponse, auth_status, AuthStatus;
    /// Deletes a user.
    user_delete(AuthUserDeleteRequest) -> AuthUserDeleteResponse, auth_user_delete, AuthUserDelete;
    /// The roles of a user.
    user_get(AuthUserGetRequest) -> AuthUserGetResponse, auth_user_get, AuthUserGet;
    /// All users.
    user_list(AuthUserListRequest) -> AuthUserListResponse, auth_user_list, AuthUserList;
    /// Gives a role to a user.
    user_grant_role(AuthUserGrantRoleRequest) -> AuthUserGrantRoleResponse, auth_user_grant_role, AuthUserGrantRole;
    /// Takes a role from a user.
    user_revoke_role(AuthUserRevokeRoleRequest) -> AuthUserRevokeRoleResponse, auth_user_revoke_role, AuthUserRevokeRole;
    /// Adds a role.
    role_add(AuthRoleAddRequest) -> AuthRoleAddResponse, auth_role_add, AuthRoleAdd;
    /// The permissions of a role.
    role_get(AuthRoleGetRequest) -> AuthRoleGetResponse, auth_role_get, AuthRoleGet;
    /// All roles.
    role_list(AuthRoleListRequest) -> AuthRoleListResponse, auth_role_list, AuthRoleList;
    /// Deletes a role.
    role_delete(AuthRoleDeleteRequest) -> AuthRoleDeleteResponse, auth_role_delete, AuthRoleDelete;
    /// Gives a permission to a role.
    role_grant_permission(AuthRoleGrantPermissionRequest) -> AuthRoleGrantPermissionResponse, auth_role_grant_permission, AuthRoleGrantPermission;
    /// Takes a permission from a role.
    role_revoke_permission(AuthRoleRevokePermissionRequest) -> AuthRoleRevokePermissionResponse, auth_role_revoke_permission, AuthRoleRevokePermission;
}

impl Server {
    /// Adds a user.
    pub async fn user_add(
        &self,
        who: &Credentials,
        mut r: pb::AuthUserAddRequest,
    ) -> Result<pb::AuthUserAddResponse, Error> {
        if !r.options.is_some_and(|options| options.no_password) {
            r.hashed_password = self.hash_password(who, std::mem::take(&mut r.password)).await?;
        }
        let request =
            InternalRaftRequest { auth_user_add: Some(r), ..InternalRaftRequest::default() };
        reply_with_header!(self, self.log(who, request).await?, AuthUserAdd)
    }

    /// Changes the password of a user.
    pub async fn user_change_password(
        &self,
        who: &Credentials,
        mut r: pb::AuthUserChangePasswordRequest,
    ) -> Result<pb::AuthUserChangePasswordResponse, Error> {
        if !r.password.is_empty() {
            r.hashed_password = self.hash_password(who, std::mem::take(&mut r.password)).await?;
        }
        let request = InternalRaftRequest {
            auth_user_change_password: Some(r),
            ..InternalRaftRequest::default()
        };
        reply_with_header!(self, self.log(who, request).await?, AuthUserChangePassword)
    }

    /// Hashes a password for somebody who may set one. Nobody else gets so much work done.
    async fn hash_password(&self, who: &Credentials, password: String) -> Result<String, Error> {
        self.check_admin_of_late(who).await?;
        let cost = self.state().auth.cost();
        let hash = move || auth::hash_password(cost, &password, &mut OsRandom);
        Ok(self.aside(&self.shared.pools.passwords, hash).await??)
    }

    /// Gives a token to a user who knows the password.
    ///
    /// # Errors
    /// No such user, another password, or nobody is asked for any.
    pub async fn authenticate(
        &self,
        r: pb::AuthenticateRequest,
    ) -> Result<pb::AuthenticateResponse, Error> {
        self.linearizable().await?;
        let pb::AuthenticateRequest { name, password } = r;
        loop {
            let checked = self.check_password(&name, &password).await?;
            let answered = self.assign_token(&name).await?;
            if checked == self.state().auth.revision() {
                return reply_with_header!(self, answered, Authenticate);
            }
            // The password may have been changed between the two; then the token is not theirs to have.
            tracing::info!("revision when password checked became stale; retrying");
        }
    }

    /// Returns the revision of users and roles at which the password was that of the user.
    async fn check_password(&self, name: &str, password: &str) -> Result<u64, Error> {
        let (state, user, password) = (self.state(), name.to_owned(), password.to_owned());
        let check = move || state.auth.check_password(&user, &password);
        let checked = self.aside(&self.shared.pools.passwords, check).await?;
        checked.map_err(|error| {
            if error != auth::Error::AuthNotEnabled {
                tracing::warn!(user = name, %error, "invalid authentication was requested");
            }
            error.into()
        })
    }

    async fn assign_token(&self, name: &str) -> Result<Answered, Error> {
        let simple_token = self.state().auth.token_prefix(&mut OsRandom);
        let simple_token = simple_token.map_err(|error| Error::Fault(error.to_string()))?;
        let authenticate = pb::InternalAuthenticateRequest {
            name: name.to_owned(),
            simple_token,
            ..pb::InternalAuthenticateRequest::default()
        };
        let request = InternalRaftRequest {
            authenticate: Some(authenticate),
            ..InternalRaftRequest::default()
        };
        self.log_unasked(request).await
    }
}
