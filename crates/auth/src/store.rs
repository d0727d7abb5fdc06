//! The store: users and roles behind a lock, and the tokens of those who have authenticated.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use backend::schema::Bucket;
use backend::{Read, ReadError, Tx};
use bytes::Bytes;
use env::{Clock, Random};
use proto::authpb::Permission;
use proto::authpb::permission::Type;
use proto::etcdserverpb as pb;
use types::Index;

use crate::error::Error;
use crate::info::AuthInfo;
use crate::password::{self, Cost};
use crate::state::{Account, ROOT, State, is_root};
use crate::token::Tokens;

/// Users, roles and tokens. One thread changes them, as log entries are applied; any number ask.
///
/// What changes something takes the transaction of its log entry. It has changed memory as well when it returns, so a transaction that is
/// then given up leaves the two apart: [`restore`](AuthStore::restore) brings them together.
#[derive(Debug)]
pub struct AuthStore {
    state: RwLock<State>,
    tokens: Tokens,
    clock: Arc<dyn Clock>,
    cost: Cost,
}

/// Starting, and what is neither user nor role.
impl AuthStore {
    /// A store without users, until it is [started](AuthStore::start) or [restored](AuthStore::restore).
    #[must_use]
    pub fn new(tokens: Tokens, clock: Arc<dyn Clock>, cost: Cost) -> AuthStore {
        AuthStore { state: RwLock::default(), tokens, clock, cost }
    }

    /// Reads what the database has as a member starts, and makes what it is missing: the buckets, and the first revision.
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

    /// Reads what the database has, in place of what was known: after a snapshot from another member.
    ///
    /// Tokens stay valid for those who are still there with the same password.
    pub fn restore(&self, from: &impl Read) -> Result<(), ReadError> {
        let restored = State::read(from)?;
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

    /// Begins to ask who asks.
    pub fn enable(&self, tx: &mut Tx<'_>) -> Result<pb::AuthEnableResponse, Error> {
        let mut state = self.change();
        if state.enabled {
            tracing::info!("authentication is enabled already");
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

    /// Stops asking, and forgets all tokens.
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

    /// Whether users are asked for, and the revision.
    #[must_use]
    pub fn status(&self) -> pb::AuthStatusResponse {
        let state = self.state();
        pb::AuthStatusResponse {
            header: None,
            enabled: state.enabled,
            auth_revision: state.revision,
        }
    }

    /// Whether users are asked for.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.state().enabled
    }

    /// How often users and roles have changed.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    /// What a hash of a password is to cost.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Whether a user holds a role.
    #[must_use]
    pub fn has_role(&self, user: &str, role: &str) -> bool {
        self.state().user(user).is_some_and(|user| user.roles.iter().any(|held| held == role))
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who asks.
impl AuthStore {
    /// Whether a password is that of a user. Returns the revision of what was looked at: if it has moved by the time that a token was
    /// assigned, the password may be another, and is to be checked again.
    ///
    /// Takes as long as hashing a password takes.
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

    /// What a request to authenticate carries through the log, so that all members make the same token: letters at random, or nothing
    /// if tokens are not made of them.
    pub fn token_prefix(&self, random: &mut dyn Random) -> std::io::Result<String> {
        self.tokens.prefix(random)
    }

    /// Assigns a token to a user whose password was checked before. `index` is that of the log entry.
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

    /// The log entry that must have been applied here before a token can be known, if tokens are of that kind. `token` is as in
    /// [`info_from_token`](AuthStore::info_from_token).
    ///
    /// It comes from outside, and may be one that never is.
    pub fn index_of_token(&self, token: &str) -> Result<Option<Index>, Error> {
        self.tokens.index_of(without_scheme(token)).ok_or(Error::InvalidAuthToken)
    }

    /// Whose token this is: the value of the metadata `token` or `authorization`, with or without the word `Bearer`.
    pub fn info_from_token(&self, token: &str) -> Result<AuthInfo, Error> {
        let revision = self.revision();
        self.tokens.info(without_scheme(token), revision, &*self.clock).ok_or_else(|| {
            tracing::warn!("invalid auth token");
            Error::InvalidAuthToken
        })
    }

    /// The user that a certificate names.
    #[must_use]
    pub fn info_from_common_name(&self, common_name: &str) -> AuthInfo {
        AuthInfo { username: common_name.to_owned(), revision: self.revision() }
    }

    /// The user root, for what the member does by itself.
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

    /// Deletes a user, and forgets the tokens of that user.
    pub fn user_delete(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthUserDeleteRequest,
    ) -> Result<pb::AuthUserDeleteResponse, Error> {
        let mut state = self.change();
        state.user_delete(tx, request)?;
        // Under the lock: nobody has seen the new revision, with which an old token would pass.
        self.tokens.invalidate_user(&request.name);
        tracing::info!(user = request.name, "deleted a user");
        Ok(pb::AuthUserDeleteResponse::default())
    }

    /// Changes the password of a user, and forgets the tokens of that user.
    pub fn user_change_password(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthUserChangePasswordRequest,
    ) -> Result<pb::AuthUserChangePasswordResponse, Error> {
        let mut state = self.change();
        state.user_change_password(tx, request)?;
        // Under the lock: nobody has seen the new revision, with which an old token would pass.
        self.tokens.invalidate_user(&request.name);
        tracing::info!(user = request.name, "changed the password of a user");
        Ok(pb::AuthUserChangePasswordResponse::default())
    }

    /// The roles of a user.
    pub fn user_get(
        &self,
        request: &pb::AuthUserGetRequest,
    ) -> Result<pb::AuthUserGetResponse, Error> {
        let state = self.state();
        let user = state.user(&request.name).ok_or(Error::UserNotFound)?;
        Ok(pb::AuthUserGetResponse { header: None, roles: user.roles.clone() })
    }

    /// The names of all users, in order.
    #[must_use]
    pub fn user_list(&self) -> pb::AuthUserListResponse {
        pb::AuthUserListResponse { header: None, users: names(self.state().users.keys()) }
    }

    /// Gives a role to a user.
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

    /// Takes a role from a user.
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

    /// The permissions of a role. Those of root are everything, whatever was granted to it.
    pub fn role_get(
        &self,
        request: &pb::AuthRoleGetRequest,
    ) -> Result<pb::AuthRoleGetResponse, Error> {
        let state = self.state();
        let role = state.role(&request.role).ok_or(Error::RoleNotFound)?;
        let perm =
            if request.role == ROOT { vec![everything()] } else { role.key_permission.clone() };
        Ok(pb::AuthRoleGetResponse { header: None, perm })
    }

    /// The names of all roles, in order.
    #[must_use]
    pub fn role_list(&self) -> pb::AuthRoleListResponse {
        pb::AuthRoleListResponse { header: None, roles: names(self.state().roles.keys()) }
    }

    /// Deletes a role, and takes it from all users.
    pub fn role_delete(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthRoleDeleteRequest,
    ) -> Result<pb::AuthRoleDeleteResponse, Error> {
        self.change().role_delete(tx, request)?;
        tracing::info!(role = request.role, "deleted a role");
        Ok(pb::AuthRoleDeleteResponse::default())
    }

    /// Gives a permission to a role, or changes the type of one that it has.
    pub fn role_grant_permission(
        &self,
        tx: &mut Tx<'_>,
        request: &pb::AuthRoleGrantPermissionRequest,
    ) -> Result<pb::AuthRoleGrantPermissionResponse, Error> {
        self.change().role_grant_permission(tx, request)?;
        tracing::info!(role = request.name, "granted a permission to a role");
        Ok(pb::AuthRoleGrantPermissionResponse::default())
    }

    /// Takes a permission from a role.
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

/// What the role root may do, as etcd writes it.
fn everything() -> Permission {
    Permission {
        perm_type: Type::Readwrite.into(),
        key: Bytes::new(),
        range_end: Bytes::from_static(crate::interval::OPEN_END),
    }
}

fn names<'a>(names: impl Iterator<Item = &'a Bytes>) -> Vec<String> {
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}
