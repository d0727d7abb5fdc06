//! Users and roles. All requests go through the log, reads too, so that the apply layer is the only
//! place that checks permissions.
//!
//! Passwords do not go through the log. The member that receives the request hashes or verifies
//! them on a pool, since that takes about 50 ms by design:
//!
//! ```text
//!   add alice, "secret" ─► hash ─► log: add alice, base64 of $2a$10$…
//!   authenticate alice, "secret" ─► verify at auth revision 7 ─► log: alice, letters ─► token
//!                                         └─── auth revision 8 by now? verify again ◄┘
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
                    credentials: &Credentials,
                    r: pb::$request,
                ) -> Result<pb::$response, Error> {
                    self.response_for(credentials, r).await
                }
            )*
        }
    };
}

through_log! {
    /// Enables authentication.
    auth_enable(AuthEnableRequest) -> AuthEnableResponse;
    /// Disables authentication.
    auth_disable(AuthDisableRequest) -> AuthDisableResponse;
    /// Returns whether authentication is enabled.
    auth_status(AuthStatusRequest) -> AuthStatusResponse;
    /// Deletes a user.
    user_delete(AuthUserDeleteRequest) -> AuthUserDeleteResponse;
    /// Returns the roles of a user.
    user_get(AuthUserGetRequest) -> AuthUserGetResponse;
    /// Lists the users.
    user_list(AuthUserListRequest) -> AuthUserListResponse;
    /// Grants a role to a user.
    user_grant_role(AuthUserGrantRoleRequest) -> AuthUserGrantRoleResponse;
    /// Revokes a role of a user.
    user_revoke_role(AuthUserRevokeRoleRequest) -> AuthUserRevokeRoleResponse;
    /// Adds a role.
    role_add(AuthRoleAddRequest) -> AuthRoleAddResponse;
    /// Returns the permissions of a role.
    role_get(AuthRoleGetRequest) -> AuthRoleGetResponse;
    /// Lists the roles.
    role_list(AuthRoleListRequest) -> AuthRoleListResponse;
    /// Deletes a role.
    role_delete(AuthRoleDeleteRequest) -> AuthRoleDeleteResponse;
    /// Grants a permission to a role.
    role_grant_permission(AuthRoleGrantPermissionRequest) -> AuthRoleGrantPermissionResponse;
    /// Revokes a permission of a role.
    role_revoke_permission(AuthRoleRevokePermissionRequest) -> AuthRoleRevokePermissionResponse;
}

impl Server {
    /// Adds a user.
    pub async fn user_add(
        &self,
        credentials: &Credentials,
        mut r: pb::AuthUserAddRequest,
    ) -> Result<pb::AuthUserAddResponse, Error> {
        if !r.options.is_some_and(|options| options.no_password) {
            r.hashed_password =
                self.hash_password(credentials, std::mem::take(&mut r.password)).await?;
        }
        self.response_for(credentials, r).await
    }

    /// Changes the password of a user.
    pub async fn user_change_password(
        &self,
        credentials: &Credentials,
        mut r: pb::AuthUserChangePasswordRequest,
    ) -> Result<pb::AuthUserChangePasswordResponse, Error> {
        if !r.password.is_empty() {
            r.hashed_password =
                self.hash_password(credentials, std::mem::take(&mut r.password)).await?;
        }
        self.response_for(credentials, r).await
    }

    /// Hashes a password. Only for the role root, since it is expensive.
    async fn hash_password(
        &self,
        credentials: &Credentials,
        password: String,
    ) -> Result<String, Error> {
        self.check_admin_linearizable(credentials).await?;
        let cost = self.state().auth.cost();
        let hash = move || auth::hash_password(cost, &password, &mut OsRandom);
        Ok(self.run_blocking(&self.inner.pools.passwords, hash).await??)
    }

    /// Checks a password and assigns a token.
    ///
    /// # Errors
    /// Unknown user, wrong password, or authentication is disabled.
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
            // The password may have changed in between, and the token must not be handed out.
            tracing::info!("revision when password checked became stale; retrying");
        }
    }

    /// Returns the auth revision at which the password was valid.
    async fn check_password(&self, name: &str, password: &str) -> Result<u64, Error> {
        let (state, user, password) = (self.state(), name.to_owned(), password.to_owned());
        let check = move || state.auth.check_password(&user, &password);
        let checked = self.run_blocking(&self.inner.pools.passwords, check).await?;
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
