//! Users and roles as they are now, in memory and in the database.
//!
//! ```text
//!   authUsers   alice → password $2a$10$..., roles [ops, web]        auth   authEnabled   → 01
//!   authRoles   ops   → [READWRITE a..c]                                    authRevision  → 0000000000000007
//!               web   → [READ k]
//!
//!   in memory   alice   read  a ──► c   k ──► k\0                    merged from her roles
//!                       write a ──► c
//! ```
//!
//! Invariants: memory and database say the same, because whatever changes one changes the other, database first; what is merged
//! follows from users and roles; the roles of a user are sorted by name.

use std::collections::BTreeMap;

use backend::schema::{Bucket, auth};
use backend::{Read, ReadError, Tx};
use bytes::Bytes;
use prost::Message;
use proto::authpb::permission::Type;
use proto::authpb::{Permission, Role, User};

use crate::error::Error;
use crate::interval::Intervals;

/// The user that must be there for authentication to be enabled, and the role that may do everything.
pub(crate) const ROOT: &str = "root";

/// Users and roles.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) enabled: bool,
    pub(crate) revision: u64,
    pub(crate) users: BTreeMap<Bytes, Account>,
    pub(crate) roles: BTreeMap<Bytes, Role>,
}

/// A user, and what the roles of that user add up to.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) user: User,
    pub(crate) granted: Granted,
}

/// The keys that a user may read, and those that the user may write.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    pub(crate) read: Intervals,
    pub(crate) write: Intervals,
}

impl State {
    /// What the database says.
    pub(crate) fn read(from: &impl Read) -> Result<State, ReadError> {
        let roles = read_all(from, Bucket::AuthRoles)?;
        let users: BTreeMap<Bytes, User> = read_all(from, Bucket::AuthUsers)?;
        let users = users.into_iter().map(|(name, user)| (name, Account::new(user, &roles)));
        Ok(State {
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

    /// Says that something has changed: whatever was authenticated before has to be so again.
    pub(crate) fn next_revision(&mut self, tx: &mut Tx<'_>) {
        self.revision = self.revision.wrapping_add(1);
        auth::set_revision(tx, self.revision);
    }

    /// Adds a user, or changes one.
    pub(crate) fn put_user(&mut self, tx: &mut Tx<'_>, user: User) -> Result<(), Error> {
        put(tx, Bucket::AuthUsers, &user.name, &user)?;
        let account = Account::new(user, &self.roles);
        self.users.insert(account.user.name.clone(), account);
        Ok(())
    }

    /// Adds a role, or changes one and with it what its users may do.
    pub(crate) fn put_role(&mut self, tx: &mut Tx<'_>, role: Role) -> Result<(), Error> {
        put(tx, Bucket::AuthRoles, &role.name, &role)?;
        let name = role.name.clone();
        self.roles.insert(name.clone(), role);
        for account in self.users.values_mut().filter(|account| account.holds(&name)) {
            account.granted = Granted::merge(&account.user, &self.roles);
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
        let granted = Granted::merge(&user, roles);
        Account { user, granted }
    }

    fn holds(&self, role: &[u8]) -> bool {
        self.user.roles.iter().any(|held| held.as_bytes() == role)
    }

    /// Whether the user may do everything.
    pub(crate) fn is_root(&self) -> bool {
        is_root(&self.user)
    }
}

/// Whether a user may do everything.
pub(crate) fn is_root(user: &User) -> bool {
    user.roles.iter().any(|role| role == ROOT)
}

impl Granted {
    fn merge(user: &User, roles: &BTreeMap<Bytes, Role>) -> Granted {
        let held = user.roles.iter().filter_map(|role| roles.get(role.as_bytes()));
        let permissions: Vec<&Permission> = held.flat_map(|role| &role.key_permission).collect();
        Granted {
            read: ranges_of(&permissions, Type::Read),
            write: ranges_of(&permissions, Type::Write),
        }
    }
}

/// The keys over which there is a permission of a type, or to read and write. Types that nobody knows permit nothing.
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

/// Writes what is kept under a name. Of all that a database can refuse, only a long name can come from a request.
fn put(tx: &mut Tx<'_>, bucket: Bucket, name: &Bytes, value: &impl Message) -> Result<(), Error> {
    tx.put(bucket, name.clone(), value.encode_to_vec()).map_err(|_| Error::NameTooLong)
}
