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

use super::Credentials;
use crate::error::Error;
use crate::propose::typed::AppliedReply;
use crate::server::Server;

/// Declares requests that go through the log unchanged.
macro_rules! through_log {
    ($($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident;)*) => {
        impl Server {
            $(
                $(#[$doc])*
                pub async fn $name(
                    &self,
                    who: &Credentials,
                    r: pb::$request,
                ) -> Result<pb::$response, Error> {
                    self.log_for_response(who, r).await
                }
            )*
        }
    };
}

through_log! {
    /// Begins to ask who asks.
    auth_enable(AuthEnableRequest) -> AuthEnableResponse;
    /// Stops asking.
    auth_disable(AuthDisableRequest) -> AuthDisableResponse;
    /// Whether users are asked for.
    auth_status(AuthStatusRequest) -> AuthStatusResponse;
    /// Deletes a user.
    user_delete(AuthUserDeleteRequest) -> AuthUserDeleteResponse;
    /// The roles of a user.
    user_get(AuthUserGetRequest) -> AuthUserGetResponse;
    /// All users.
    user_list(AuthUserListRequest) -> AuthUserListResponse;
    /// Gives a role to a user.
    user_grant_role(AuthUserGrantRoleRequest) -> AuthUserGrantRoleResponse;
    /// Takes a role from a user.
    user_revoke_role(AuthUserRevokeRoleRequest) -> AuthUserRevokeRoleResponse;
    /// Adds a role.
    role_add(AuthRoleAddRequest) -> AuthRoleAddResponse;
    /// The permissions of a role.
    role_get(AuthRoleGetRequest) -> AuthRoleGetResponse;
    /// All roles.
    role_list(AuthRoleListRequest) -> AuthRoleListResponse;
    /// Deletes a role.
    role_delete(AuthRoleDeleteRequest) -> AuthRoleDeleteResponse;
    /// Gives a permission to a role.
    role_grant_permission(AuthRoleGrantPermissionRequest) -> AuthRoleGrantPermissionResponse;
    /// Takes a permission from a role.
    role_revoke_permission(AuthRoleRevokePermissionRequest) -> AuthRoleRevokePermissionResponse;
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
        self.log_for_response(who, r).await
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
        self.log_for_response(who, r).await
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
            if answered.result.is_err() || checked == self.state().auth.revision() {
                return self.with_header(answered);
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

    async fn assign_token(
        &self,
        name: &str,
    ) -> Result<AppliedReply<pb::AuthenticateResponse>, Error> {
        let simple_token = self.state().auth.token_prefix(&mut OsRandom);
        let simple_token = simple_token.map_err(|error| Error::Fault(error.to_string()))?;
        let authenticate = pb::InternalAuthenticateRequest {
            name: name.to_owned(),
            simple_token,
            ..pb::InternalAuthenticateRequest::default()
        };
        self.propose(authenticate)?.await
    }
}
