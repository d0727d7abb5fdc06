//! Changes of users.

use backend::Tx;
use bytes::Bytes;
use proto::authpb::{User, UserAddOptions};
use proto::etcdserverpb::{
    AuthUserAddRequest, AuthUserChangePasswordRequest, AuthUserDeleteRequest,
    AuthUserGrantRoleRequest, AuthUserRevokeRoleRequest,
};

use crate::error::Error;
use crate::password;
use crate::state::{AuthState, ROOT};

impl AuthState {
    pub(crate) fn user_add(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthUserAddRequest,
    ) -> Result<(), Error> {
        if request.name.is_empty() {
            return Err(Error::UserEmpty);
        }
        if self.user(&request.name).is_some() {
            return Err(Error::UserAlreadyExist);
        }
        // Options are always stored: only users from before options existed have none.
        let options = request.options.unwrap_or_default();
        let request_password =
            RequestPassword { password: &request.password, hashed: &request.hashed_password };
        let user = User {
            name: Bytes::from(request.name.clone()),
            password: self.password_for(&request.name, Some(&options), &request_password)?,
            roles: Vec::new(),
            options: Some(options),
        };
        self.put_user(tx, user)?;
        self.next_revision(tx);
        Ok(())
    }

    pub(crate) fn user_delete(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthUserDeleteRequest,
    ) -> Result<(), Error> {
        if self.enabled && request.name == ROOT {
            tracing::error!("the user root cannot be deleted while authentication is enabled");
            return Err(Error::InvalidAuthMgmt);
        }
        self.remove_user(tx, &request.name).ok_or(Error::UserNotFound)?;
        self.next_revision(tx);
        Ok(())
    }

    pub(crate) fn user_change_password(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthUserChangePasswordRequest,
    ) -> Result<(), Error> {
        let mut user = self.user(&request.name).ok_or(Error::UserNotFound)?.clone();
        let request_password =
            RequestPassword { password: &request.password, hashed: &request.hashed_password };
        user.password =
            self.password_for(&request.name, user.options.as_ref(), &request_password)?;
        self.put_user(tx, user)?;
        self.next_revision(tx);
        Ok(())
    }

    /// Returns whether the role was added. Granting a role that the user holds changes nothing, not
    /// even the auth revision.
    pub(crate) fn user_grant_role(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthUserGrantRoleRequest,
    ) -> Result<bool, Error> {
        let user = self.user(&request.user).ok_or(Error::UserNotFound)?;
        // Compat: as in etcd, the role root can be granted before it exists.
        if request.role != ROOT && self.role(&request.role).is_none() {
            return Err(Error::RoleNotFound);
        }
        let Err(position) = user.roles.binary_search(&request.role) else { return Ok(false) };
        let mut user = user.clone();
        user.roles.insert(position, request.role.clone());
        self.put_user(tx, user)?;
        self.next_revision(tx);
        Ok(true)
    }

    pub(crate) fn user_revoke_role(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthUserRevokeRoleRequest,
    ) -> Result<(), Error> {
        if self.enabled && request.name == ROOT && request.role == ROOT {
            tracing::error!("the user root cannot lose the role root");
            return Err(Error::InvalidAuthMgmt);
        }
        let mut user = self.user(&request.name).ok_or(Error::UserNotFound)?.clone();
        if !remove_role(&mut user, &request.role) {
            return Err(Error::RoleNotGranted);
        }
        self.put_user(tx, user)?;
        self.next_revision(tx);
        Ok(())
    }

    /// Returns the stored form of a password: a hash, or nothing for a user that authenticates by
    /// certificate only.
    fn password_for(
        &self,
        name: &str,
        options: Option<&UserAddOptions>,
        request_password: &RequestPassword<'_>,
    ) -> Result<Bytes, Error> {
        if options.is_some_and(|options| options.no_password) {
            return Ok(Bytes::new());
        }
        if request_password.password.is_empty() || !request_password.hashed.is_empty() {
            return password::decode(request_password.hashed).ok_or(Error::NoPasswordUser);
        }
        // An entry from before 3.5, when members hashed passwords while applying.
        password::hash_at_apply(name, self.revision, request_password.password)
            .ok_or(Error::NoPasswordUser)
    }
}

/// The password fields of a request. At least one of them is empty.
struct RequestPassword<'r> {
    password: &'r str,
    hashed: &'r str,
}

/// Removes a role of a user. Returns whether the user held it.
pub(crate) fn remove_role(user: &mut User, role: &str) -> bool {
    let before = user.roles.len();
    user.roles.retain(|held| held != role);
    user.roles.len() != before
}
