//! Changes of roles and their permissions.

use backend::Tx;
use bytes::Bytes;
use proto::authpb::{Permission, Role, User};
use proto::etcdserverpb::{
    AuthRoleAddRequest, AuthRoleDeleteRequest, AuthRoleGrantPermissionRequest,
    AuthRoleRevokePermissionRequest,
};

use crate::error::Error;
use crate::interval;
use crate::order;
use crate::state::{AuthState, ROOT};
use crate::users::remove_role;

impl AuthState {
    pub(crate) fn role_add(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthRoleAddRequest,
    ) -> Result<(), Error> {
        if request.name.is_empty() {
            return Err(Error::RoleEmpty);
        }
        if self.role(&request.name).is_some() {
            return Err(Error::RoleAlreadyExist);
        }
        let name = Bytes::from(request.name.clone());
        self.put_role(tx, Role { name, key_permission: Vec::new() })?;
        self.next_revision(tx);
        Ok(())
    }

    /// Deletes a role and revokes it from all users.
    pub(crate) fn role_delete(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthRoleDeleteRequest,
    ) -> Result<(), Error> {
        if self.enabled && request.role == ROOT {
            tracing::error!("the role root cannot be deleted while authentication is enabled");
            return Err(Error::InvalidAuthMgmt);
        }
        self.remove_role(tx, &request.role).ok_or(Error::RoleNotFound)?;
        for user in self.without_role(&request.role) {
            self.put_user(tx, user)?;
        }
        self.next_revision(tx);
        Ok(())
    }

    pub(crate) fn role_grant_permission(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthRoleGrantPermissionRequest,
    ) -> Result<(), Error> {
        let permission = request.perm.as_ref().ok_or(Error::PermissionNotGiven)?;
        if !interval::is_valid(&permission.key, &permission.range_end) {
            return Err(Error::InvalidAuthMgmt);
        }
        let mut role = self.role(&request.name).ok_or(Error::RoleNotFound)?.clone();
        grant(&mut role.key_permission, permission);
        self.put_role(tx, role)?;
        self.next_revision(tx);
        Ok(())
    }

    pub(crate) fn role_revoke_permission(
        &mut self,
        tx: &mut Tx<'_>,
        request: &AuthRoleRevokePermissionRequest,
    ) -> Result<(), Error> {
        let mut role = self.role(&request.role).ok_or(Error::RoleNotFound)?.clone();
        let before = role.key_permission.len();
        role.key_permission
            .retain(|held| held.key != request.key || held.range_end != request.range_end);
        if role.key_permission.len() == before {
            return Err(Error::PermissionNotGranted);
        }
        self.put_role(tx, role)?;
        self.next_revision(tx);
        Ok(())
    }

    /// Returns the users that hold a role, with the role removed.
    fn without_role(&self, role: &str) -> Vec<User> {
        let without = |user: &User| {
            let mut user = user.clone();
            remove_role(&mut user, role).then_some(user)
        };
        self.users.values().filter_map(|account| without(&account.user)).collect()
    }
}

/// Adds a permission, or changes the type of the permission over the same range.
///
/// Compat: as in etcd, only the first permission with the same key is compared. With two ranges
/// that begin at one key, granting the second again adds it again, and revoking it removes both.
fn grant(permissions: &mut Vec<Permission>, granted: &Permission) {
    let first = permissions.partition_point(|held| held.key < granted.key);
    match permissions.get_mut(first) {
        Some(held) if held.key == granted.key && held.range_end == granted.range_end => {
            held.perm_type = granted.perm_type;
        }
        _ => {
            permissions.push(copy_of(granted));
            order::sort_appended(permissions, |permission| &permission.key);
        }
    }
}

/// Copies a permission, so that it does not keep the buffer of the request in memory.
fn copy_of(permission: &Permission) -> Permission {
    Permission {
        perm_type: permission.perm_type,
        key: Bytes::copy_from_slice(&permission.key),
        range_end: Bytes::copy_from_slice(&permission.range_end),
    }
}
