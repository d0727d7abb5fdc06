//! The current users and roles, in memory and in the database.
//!
//! ```text
//!   authUsers   alice → password $2a$10$..., roles [ops, web]   auth   authEnabled  → 01
//!   authRoles   ops   → [READWRITE a..c]                               authRevision → 7 (8 bytes)
//!               web   → [READ k]
//!
//!   in memory   alice   read  a ──► c   k ──► k\0                    merged from all roles
//!                       write a ──► c
//! ```
//!
//! Invariants: memory and database agree, because every change is made to both, database first;
//! merged permissions are derived from users and roles; the roles of a user are sorted by name.

use std::collections::BTreeMap;

use backend::schema::{Bucket, auth};
use backend::{Read, ReadError, Tx};
use bytes::Bytes;
use prost::Message;
use proto::authpb::permission::Type;
use proto::authpb::{Permission, Role, User};

use crate::error::Error;
use crate::interval::Intervals;

/// The user that must exist before authentication is enabled, and the role with all permissions.
pub(crate) const ROOT: &str = "root";

/// Users, roles and the auth revision.
#[derive(Debug, Default)]
pub(crate) struct AuthState {
    pub(crate) enabled: bool,
    pub(crate) revision: u64,
    pub(crate) users: BTreeMap<Bytes, Account>,
    pub(crate) roles: BTreeMap<Bytes, Role>,
}

/// A user with the merged permissions of the user's roles.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) user: User,
    pub(crate) permissions: KeyPermissions,
}

/// The keys that a user may read, and the keys that the user may write.
#[derive(Debug, Default)]
pub(crate) struct KeyPermissions {
    pub(crate) read: Intervals,
    pub(crate) write: Intervals,
}

impl AuthState {
    /// Reads users and roles from the database.
    pub(crate) fn read(from: &impl Read) -> Result<AuthState, ReadError> {
        let roles = read_all(from, Bucket::AuthRoles)?;
        let users: BTreeMap<Bytes, User> = read_all(from, Bucket::AuthUsers)?;
        let users = users.into_iter().map(|(name, user)| (name, Account::new(user, &roles)));
        Ok(AuthState {
            enabled: auth::enabled(from)?,
            revision: auth::revision(from)?,
            users: users.collect(),
            roles,
        })
    }

    pub(crate) fn user(&self, name: &str) -> Option<&User> {
        Some(&self.users.get(name.as_bytes())?.user)
    }

    pub(crate) fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name.as_bytes())
    }

    pub(crate) fn set_enabled(&mut self, tx: &mut Tx<'_>, enabled: bool) {
        auth::set_enabled(tx, enabled);
        self.enabled = enabled;
    }

    /// Increments the auth revision: requests authenticated before have to authenticate again.
    pub(crate) fn next_revision(&mut self, tx: &mut Tx<'_>) {
        self.revision = self.revision.wrapping_add(1);
        auth::set_revision(tx, self.revision);
    }

    /// Adds or replaces a user.
    pub(crate) fn put_user(&mut self, tx: &mut Tx<'_>, user: User) -> Result<(), Error> {
        put(tx, Bucket::AuthUsers, &user.name, &user)?;
        let account = Account::new(user, &self.roles);
        self.users.insert(account.user.name.clone(), account);
        Ok(())
    }

    /// Adds or replaces a role, and merges the permissions of its users again.
    pub(crate) fn put_role(&mut self, tx: &mut Tx<'_>, role: Role) -> Result<(), Error> {
        put(tx, Bucket::AuthRoles, &role.name, &role)?;
        let name = role.name.clone();
        self.roles.insert(name.clone(), role);
        for account in self.users.values_mut().filter(|account| account.holds(&name)) {
            account.permissions = KeyPermissions::merge(&account.user, &self.roles);
        }
        Ok(())
    }

    pub(crate) fn remove_user(&mut self, tx: &mut Tx<'_>, name: &str) -> Option<User> {
        let account = self.users.remove(name.as_bytes())?;
        tx.delete(Bucket::AuthUsers, account.user.name.clone());
        Some(account.user)
    }

    pub(crate) fn remove_role(&mut self, tx: &mut Tx<'_>, name: &str) -> Option<Role> {
        let role = self.roles.remove(name.as_bytes())?;
        tx.delete(Bucket::AuthRoles, role.name.clone());
        Some(role)
    }
}

impl Account {
    fn new(user: User, roles: &BTreeMap<Bytes, Role>) -> Account {
        let permissions = KeyPermissions::merge(&user, roles);
        Account { user, permissions }
    }

    fn holds(&self, role: &[u8]) -> bool {
        self.user.roles.iter().any(|held| held.as_bytes() == role)
    }

    /// Returns whether the user holds the role root.
    pub(crate) fn is_root(&self) -> bool {
        is_root(&self.user)
    }
}

/// Returns whether a user holds the role root.
pub(crate) fn is_root(user: &User) -> bool {
    user.roles.iter().any(|role| role == ROOT)
}

impl KeyPermissions {
    fn merge(user: &User, roles: &BTreeMap<Bytes, Role>) -> KeyPermissions {
        let held = user.roles.iter().filter_map(|role| roles.get(role.as_bytes()));
        let permissions: Vec<&Permission> = held.flat_map(|role| &role.key_permission).collect();
        KeyPermissions {
            read: ranges_of(&permissions, Type::Read),
            write: ranges_of(&permissions, Type::Write),
        }
    }
}

/// Merges the ranges of the permissions of a type or of type `READWRITE`. Unknown types permit
/// nothing.
fn ranges_of(permissions: &[&Permission], wanted: Type) -> Intervals {
    let of_type = |permission: &&&Permission| match Type::try_from(permission.perm_type) {
        Ok(Type::Readwrite) => true,
        Ok(found) => found == wanted,
        Err(_) => false,
    };
    let matching = permissions.iter().filter(of_type);
    Intervals::union(matching.map(|permission| (&permission.key, &permission.range_end)))
}

fn read_all<M: Message + Default>(
    from: &impl Read,
    bucket: Bucket,
) -> Result<BTreeMap<Bytes, M>, ReadError> {
    let mut all = BTreeMap::new();
    for item in from.all(bucket)? {
        let item = item?;
        let message = M::decode(&*item.value)
            .map_err(|error| ReadError::malformed(bucket, &item.key, error.to_string()))?;
        all.insert(item.key.into_bytes(), message);
    }
    Ok(all)
}

/// Writes the record of a user or role. The only error that a request can cause is a long name.
fn put(tx: &mut Tx<'_>, bucket: Bucket, name: &Bytes, value: &impl Message) -> Result<(), Error> {
    tx.put(bucket, name.clone(), value.encode_to_vec()).map_err(|_| Error::NameTooLong)
}
