//! The store: users and roles under a lock, and the tokens of authenticated users.

use std::collections::BTreeSet;
use std::sync::Arc;

use backend::schema::Bucket;
use backend::{Read, ReadError, Tx};
use bytes::Bytes;
use env::{Clock, Random};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use proto::authpb::Permission;
use proto::authpb::permission::Type;
use proto::etcdserverpb as pb;
use types::Index;

use crate::error::Error;
use crate::info::AuthInfo;
use crate::password::{self, Cost};
use crate::state::{Account, AuthState, ROOT, is_root};
use crate::token::Tokens;

/// Users, roles and tokens. One thread changes them when it applies log entries; any number of
/// threads read.
///
/// Methods that change something take the transaction of their log entry. They change memory too
/// before they return; if the transaction is then dropped, [`restore`](AuthStore::restore) makes
/// memory agree with the database again.
#[derive(Debug)]
pub struct AuthStore {
    state: RwLock<AuthState>,
    tokens: Tokens,
    clock: Arc<dyn Clock>,
    cost: Cost,
}

/// Start, restore, enable, disable and status.
impl AuthStore {
    /// Creates a store without users, to be [started](AuthStore::start) or
    /// [restored](AuthStore::restore).
    #[must_use]
    pub fn new(tokens: Tokens, clock: Arc<dyn Clock>, cost: Cost) -> AuthStore {
        AuthStore { state: RwLock::default(), tokens, clock, cost }
    }

    /// Reads the database when a member starts, and creates the buckets and the first revision if
    /// they are missing.
    pub fn start(&self, tx: &mut Tx<'_>) -> Result<(), ReadError> {
        for bucket in [Bucket::Auth, Bucket::AuthUsers, Bucket::AuthRoles] {
            tx.create_bucket(bucket);
        }
        self.restore(tx)?;
        let mut state = self.change();
        if state.revision == 0 {
            state.next_revision(tx);
        }
        Ok(())
    }

    /// Reads the database again, after a snapshot from another member replaced it.
    ///
    /// The tokens of users that still exist with the same password stay valid.
    pub fn restore(&self, from: &impl Read) -> Result<(), ReadError> {
        let restored = AuthState::read(from)?;
        let mut state = self.change();
        let before = std::mem::replace(&mut *state, restored);
        self.tokens.set_enabled(state.enabled);
        let changed = |(name, account): &(Bytes, Account)| {
            let now = state.users.get(name);
            now.is_none_or(|now| now.user.password != account.user.password)
        };
        let changed = before.users.into_iter().filter(changed);
        let changed: BTreeSet<String> =
            changed.map(|(name, _)| String::from_utf8_lossy(&name).into_owned()).collect();
        self.tokens.invalidate(|user| changed.contains(user));
        Ok(())
    }

    /// Enables authentication.
    pub fn enable(&self, tx: &mut Tx<'_>) -> Result<pb::AuthEnableResponse, Error> {
        let mut state = self.change();
        if state.enabled {
            tracing::info!("authentication is already enabled; ignored auth enable request");
            return Ok(pb::AuthEnableResponse::default());
        }
        let root = state.user(ROOT).ok_or(Error::RootUserNotExist)?;
        if !is_root(root) {
            return Err(Error::RootRoleNotExist);
        }
        state.set_enabled(tx, true);
        self.tokens.set_enabled(true);
        tracing::info!("enabled authentication");
        Ok(pb::AuthEnableResponse::default())
    }

    /// Disables authentication and drops all tokens.
    pub fn disable(&self, tx: &mut Tx<'_>) -> pb::AuthDisableResponse {
        let mut state = self.change();
        if state.enabled {
            state.set_enabled(tx, false);
            state.next_revision(tx);
            self.tokens.set_enabled(false);
            tracing::info!("disabled authentication");
        }
        pb::AuthDisableResponse::default()
    }

    /// Returns whether authentication is enabled, and the auth revision.
    #[must_use]
    pub fn status(&self) -> pb::AuthStatusResponse {
        let state = self.state();
        pb::AuthStatusResponse {
            header: None,
            enabled: state.enabled,
            auth_revision: state.revision,
        }
    }

    /// Returns whether authentication is enabled.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.state().enabled
    }

    /// Returns the auth revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    /// Returns the bcrypt cost of new password hashes.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns whether a user holds a role.
    #[must_use]
    pub fn has_role(&self, user: &str, role: &str) -> bool {
        self.state().user(user).is_some_and(|user| user.roles.iter().any(|held| held == role))
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, AuthState> {
        self.state.read()
    }

    fn change(&self) -> RwLockWriteGuard<'_, AuthState> {
        self.state.write()
    }
}

/// Passwords and tokens.
impl AuthStore {
    /// Checks the password of a user. Returns the auth revision at which it was valid: if the
    /// revision has moved when the token is assigned, the password may have changed and must be
    /// checked again.
    ///
    /// Takes as long as hashing a password.
    pub fn check_password(&self, name: &str, password: &str) -> Result<u64, Error> {
        let (hash, revision) = self.password_of(name)?;
        if password::verify(password, &hash) {
            return Ok(revision);
        }
        tracing::info!(user = name, "invalid password");
        Err(Error::AuthFailed)
    }

    fn password_of(&self, name: &str) -> Result<(Bytes, u64), Error> {
        let state = self.state();
        if !state.enabled {
            return Err(Error::AuthNotEnabled);
        }
        let user = state.user(name).ok_or(Error::AuthFailed)?;
        if user.options.is_some_and(|options| options.no_password) {
            return Err(Error::NoPasswordUser);
        }
        Ok((user.password.clone(), state.revision))
    }

    /// Draws the random part of a token. The log carries it, so that all members assign the same
    /// token. Empty for signed tokens.
    pub fn token_prefix(&self, random: &mut dyn Random) -> std::io::Result<String> {
        self.tokens.prefix(random)
    }

    /// Assigns a token to a user whose password was checked before. `index` becomes part of a
    /// simple token.
    pub fn authenticate(
        &self,
        name: &str,
        simple_token: &str,
        index: Index,
    ) -> Result<pb::AuthenticateResponse, Error> {
        let state = self.state();
        if !state.enabled {
            return Err(Error::AuthNotEnabled);
        }
        let user = state.user(name).ok_or(Error::AuthFailed)?;
        if user.options.is_some_and(|options| options.no_password) {
            return Err(Error::AuthFailed);
        }
        let info = AuthInfo { username: name.to_owned(), revision: state.revision };
        let token = self.tokens.assign(info, simple_token, index, &*self.clock)?;
        Ok(pb::AuthenticateResponse { header: None, token })
    }

    /// Returns the index of the log entry that assigned a simple token. A member that has not
    /// applied it cannot know the token. `token` is as in
    /// [`info_from_token`](AuthStore::info_from_token).
    ///
    /// The index comes from the client and may never be reached.
    pub fn index_of_token(&self, token: &str) -> Result<Option<Index>, Error> {
        self.tokens.index_of(without_scheme(token)).ok_or(Error::InvalidAuthToken)
    }

    /// Returns the user of a token. `token` is the value of the metadata `token` or
    /// `authorization`, with or without `Bearer`.
    pub fn info_from_token(&self, token: &str) -> Result<AuthInfo, Error> {
        let revision = self.revision();
        self.tokens.info(without_scheme(token), revision, &*self.clock).ok_or_else(|| {
            tracing::warn!("invalid auth token");
            Error::InvalidAuthToken
        })
    }

    /// Returns the user that a certificate names.
    #[must_use]
    pub fn info_from_common_name(&self, common_name: &str) -> AuthInfo {
        AuthInfo { username: common_name.to_owned(), revision: self.revision() }
    }

    /// Returns the user root, for requests of the member itself.
    #[must_use]
    pub fn root_info(&self) -> AuthInfo {
        self.info_from_common_name(ROOT)
    }
}

fn without_scheme(token: &str) -> &str {
    token.strip_prefix("Bearer ").unwrap_or(token)
}

/// Users.
impl AuthStore {
    /// Adds a user.
    pub fn user_add(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthUserAddRequest,
    ) -> Result<pb::AuthUserAddResponse, Error> {
        self.change().user_add(tx, request)?;
        tracing::info!(user = request.name, "added a user");
        Ok(pb::AuthUserAddResponse::default())
    }

    /// Deletes a user and drops the user's tokens.
    pub fn user_delete(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthUserDeleteRequest,
    ) -> Result<pb::AuthUserDeleteResponse, Error> {
        let mut state = self.change();
        state.user_delete(tx, request)?;
        // Under the lock: no reader has seen the new revision, with which an old token would pass.
        self.tokens.invalidate_user(&request.name);
        tracing::info!(user = request.name, "deleted a user");
        Ok(pb::AuthUserDeleteResponse::default())
    }

    /// Changes the password of a user and drops the user's tokens.
    pub fn user_change_password(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthUserChangePasswordRequest,
    ) -> Result<pb::AuthUserChangePasswordResponse, Error> {
        let mut state = self.change();
        state.user_change_password(tx, request)?;
        // Under the lock: no reader has seen the new revision, with which an old token would pass.
        self.tokens.invalidate_user(&request.name);
        tracing::info!(user = request.name, "changed the password of a user");
        Ok(pb::AuthUserChangePasswordResponse::default())
    }

    /// Returns the roles of a user.
    pub fn user_get(
        &self,
        request: &pb::AuthUserGetRequest,
    ) -> Result<pb::AuthUserGetResponse, Error> {
        let state = self.state();
        let user = state.user(&request.name).ok_or(Error::UserNotFound)?;
        Ok(pb::AuthUserGetResponse { header: None, roles: user.roles.clone() })
    }

    /// Returns the names of all users, sorted.
    #[must_use]
    pub fn user_list(&self) -> pb::AuthUserListResponse {
        pb::AuthUserListResponse { header: None, users: names(self.state().users.keys()) }
    }

    /// Grants a role to a user.
    pub fn user_grant_role(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthUserGrantRoleRequest,
    ) -> Result<pb::AuthUserGrantRoleResponse, Error> {
        let (user, role) = (&request.user, &request.role);
        if self.change().user_grant_role(tx, request)? {
            tracing::info!(user, role, "granted a role to a user");
        } else {
            tracing::warn!(user, role, "ignored a grant of a role that the user holds");
        }
        Ok(pb::AuthUserGrantRoleResponse::default())
    }

    /// Revokes a role of a user.
    pub fn user_revoke_role(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthUserRevokeRoleRequest,
    ) -> Result<pb::AuthUserRevokeRoleResponse, Error> {
        self.change().user_revoke_role(tx, request)?;
        tracing::info!(user = request.name, role = request.role, "revoked a role from a user");
        Ok(pb::AuthUserRevokeRoleResponse::default())
    }
}

/// Roles.
impl AuthStore {
    /// Adds a role without permissions.
    pub fn role_add(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthRoleAddRequest,
    ) -> Result<pb::AuthRoleAddResponse, Error> {
        self.change().role_add(tx, request)?;
        tracing::info!(role = request.name, "added a role");
        Ok(pb::AuthRoleAddResponse::default())
    }

    /// Returns the permissions of a role. The role root has all, whatever was granted to it.
    pub fn role_get(
        &self,
        request: &pb::AuthRoleGetRequest,
    ) -> Result<pb::AuthRoleGetResponse, Error> {
        let state = self.state();
        let role = state.role(&request.role).ok_or(Error::RoleNotFound)?;
        let perm =
            if request.role == ROOT { vec![all_keys()] } else { role.key_permission.clone() };
        Ok(pb::AuthRoleGetResponse { header: None, perm })
    }

    /// Returns the names of all roles, sorted.
    #[must_use]
    pub fn role_list(&self) -> pb::AuthRoleListResponse {
        pb::AuthRoleListResponse { header: None, roles: names(self.state().roles.keys()) }
    }

    /// Deletes a role and revokes it from all users.
    pub fn role_delete(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthRoleDeleteRequest,
    ) -> Result<pb::AuthRoleDeleteResponse, Error> {
        self.change().role_delete(tx, request)?;
        tracing::info!(role = request.role, "deleted a role");
        Ok(pb::AuthRoleDeleteResponse::default())
    }

    /// Grants a permission to a role, or changes the type of a permission that it has.
    pub fn role_grant_permission(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthRoleGrantPermissionRequest,
    ) -> Result<pb::AuthRoleGrantPermissionResponse, Error> {
        self.change().role_grant_permission(tx, request)?;
        tracing::info!(role = request.name, "granted a permission to a role");
        Ok(pb::AuthRoleGrantPermissionResponse::default())
    }

    /// Revokes a permission of a role.
    pub fn role_revoke_permission(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthRoleRevokePermissionRequest,
    ) -> Result<pb::AuthRoleRevokePermissionResponse, Error> {
        self.change().role_revoke_permission(tx, request)?;
        tracing::info!(role = request.role, "revoked a permission from a role");
        Ok(pb::AuthRoleRevokePermissionResponse::default())
    }
}

/// Returns the permission of the role root, as etcd writes it.
fn all_keys() -> Permission {
    Permission {
        perm_type: Type::Readwrite.into(),
        key: Bytes::new(),
        range_end: Bytes::from_static(crate::interval::OPEN_END),
    }
}

fn names<'a>(names: impl Iterator<Item = &'a Bytes>) -> Vec<String> {
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}
