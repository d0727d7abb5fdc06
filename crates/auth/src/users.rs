//! What is done to users.

use backend::Tx;
use bytes::Bytes;
use proto::authpb::{User, UserAddOptions};
use proto::etcdserverpb::{
    AuthUserAddRequest, AuthUserChangePasswordRequest, AuthUserDeleteRequest,
    AuthUserGrantRoleRequest, AuthUserRevokeRoleRequest,
};

use crate::error::Error;
use crate::password;
use crate::state::{ROOT, State};

impl State {
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
        // Options are always stored, so that a file tells a user from before there were any.
        let options = request.options.unwrap_or_default();
        let given = Given { password: &request.password, hashed: &request.hashed_password };
        let user = User {
            name: Bytes::from(request.name.clone()),
            password: self.password_for(&request.name, Some(&options), &given)?,
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
        let given = Given { password: &request.password, hashed: &request.hashed_password };
        user.password = self.password_for(&request.name, user.options.as_ref(), &given)?;
        self.put_user(tx, user)?;
        self.next_revision(tx);
        Ok(())
    }

    /// Whether a role was added: granting what is held already changes nothing, not even the revision.
    pub(crate) fn user_grant_role(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthUserGrantRoleRequest,
    ) -> Result<bool, Error> {
        let user = self.user(&request.user).ok_or(Error::UserNotFound)?;
        // Compat: as in etcd, the role root can be granted before it is there.
        if request.role != ROOT && self.role(&request.role).is_none() {
            return Err(Error::RoleNotFound);
        }
        let Err(place) = user.roles.binary_search(&request.role) else { return Ok(false) };
        let mut user = user.clone();
        user.roles.insert(place, request.role.clone());
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

    /// What is stored as the password of a user: a hash, or nothing for a user that is known by certificate alone.
    fn password_for(
        &self,
        name: &str,
        options: Option<&UserAddOptions>,
        given: &Given<'_>,
    ) -> Result<Bytes, Error> {
        if options.is_some_and(|options| options.no_password) {
            return Ok(Bytes::new());
        }
        if given.password.is_empty() || !given.hashed.is_empty() {
            return password::decode(given.hashed).ok_or(Error::NoPasswordUser);
        }
        // An entry of the log from before 3.5, when passwords were hashed as they were applied.
        password::hash_at_apply(name, self.revision, given.password).ok_or(Error::NoPasswordUser)
    }
}

/// A password as a request has it. One of the two is empty, or both.
struct Given<'r> {
    password: &'r str,
    hashed: &'r str,
}

/// Takes a role from a user. False if the user did not hold it.
pub(crate) fn remove_role(user: &mut User, role: &str) -> bool {
    let before = user.roles.len();
    user.roles.retain(|held| held != role);
    user.roles.len() != before
}
