//! Tests of the public interface.
//!
//! | file | subject |
//! | --- | --- |
//! | `etcd` | requests get the same replies and bytes as from etcd |
//! | `store` | users, roles and revisions, rule by rule |
//! | `access` | permission checks, request by request |
//! | `model` | permissions compared with a set of keys; no request panics |
//! | `scripts` | golden scripts: `testdata/scripts` |
//! | `tokens` | simple and signed tokens, exchanged with etcd |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod access;
mod etcd;
mod model;
mod scripts;
mod store;
mod tokens;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::{AuthInfo, AuthStore, Cost, Error, LeaseKeys, Tokens};
use backend::schema::Bucket;
use backend::{Backend, Config, Read, Tx};
use bytes::Bytes;
use env::{SimClock, SimDisk};
use proto::authpb::permission::Type;
use proto::authpb::{Permission, UserAddOptions};
use proto::etcdserverpb as pb;
use types::LeaseId;

/// A store on a simulated disk, with a clock that tests advance.
struct Fixture {
    clock: SimClock,
    backend: Backend,
    store: AuthStore,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(Tokens::simple(Duration::ZERO))
    }

    fn with(tokens: Tokens) -> Fixture {
        let clock = SimClock::default();
        let disk = Arc::new(SimDisk::new(0));
        let backend =
            Backend::open(disk, Arc::new(clock.clone()), Path::new("db"), Config::default())
                .unwrap();
        let store = AuthStore::new(tokens, Arc::new(clock.clone()), Cost::new(auth::COST_MIN));
        let fixture = Fixture { clock, backend, store };
        fixture.apply(AuthStore::start).unwrap();
        fixture
    }

    /// Has the users root and alice, alice with the role ops, and authentication enabled.
    fn enabled() -> Fixture {
        Fixture::new().with_users()
    }

    fn with_users(self) -> Fixture {
        self.user_add("root").unwrap();
        self.user_grant_role("root", "root").unwrap();
        self.user_add("alice").unwrap();
        self.role_add("ops").unwrap();
        self.user_grant_role("alice", "ops").unwrap();
        self.apply(AuthStore::enable).unwrap();
        self
    }

    /// Applies a change in a transaction, like a log entry.
    fn apply<T>(&self, change: impl FnOnce(&AuthStore, &mut Tx<'_>) -> T) -> T {
        let mut tx = self.backend.begin();
        let result = change(&self.store, &mut tx);
        tx.commit().unwrap();
        result
    }

    /// Opens another store from the same database.
    fn reread(&self) -> AuthStore {
        let clock = Arc::new(self.clock.clone());
        let store = AuthStore::new(Tokens::simple(Duration::ZERO), clock, self.store.cost());
        store.restore(&self.backend.view()).unwrap();
        store
    }

    fn user_add(&self, name: &str) -> Result<(), Error> {
        // The hash of "secret", made by Go.
        const HASH: &str =
            "JDJhJDA0JEdPbGdUNVdYSDhQbkJwTVVkY0lEUHVqY0hWckNrdXVsbUlZTXZ4NUlhL2pGeUQ4L3dNSG51";
        self.user_add_with(name, HASH, None)
    }

    fn user_add_with(
        &self,
        name: &str,
        hashed: &str,
        options: Option<UserAddOptions>,
    ) -> Result<(), Error> {
        let request = pb::AuthUserAddRequest {
            name: name.into(),
            hashed_password: hashed.into(),
            options,
            ..Default::default()
        };
        self.apply(|store, tx| store.user_add(tx, &request)).map(drop)
    }

    fn user_delete(&self, name: &str) -> Result<(), Error> {
        let request = pb::AuthUserDeleteRequest { name: name.into() };
        self.apply(|store, tx| store.user_delete(tx, &request)).map(drop)
    }

    fn user_change_password(&self, name: &str, hashed: &str) -> Result<(), Error> {
        let request = pb::AuthUserChangePasswordRequest {
            name: name.into(),
            hashed_password: hashed.into(),
            ..Default::default()
        };
        self.apply(|store, tx| store.user_change_password(tx, &request)).map(drop)
    }

    fn user_grant_role(&self, user: &str, role: &str) -> Result<(), Error> {
        let request = pb::AuthUserGrantRoleRequest { user: user.into(), role: role.into() };
        self.apply(|store, tx| store.user_grant_role(tx, &request)).map(drop)
    }

    fn user_revoke_role(&self, name: &str, role: &str) -> Result<(), Error> {
        let request = pb::AuthUserRevokeRoleRequest { name: name.into(), role: role.into() };
        self.apply(|store, tx| store.user_revoke_role(tx, &request)).map(drop)
    }

    fn role_add(&self, name: &str) -> Result<(), Error> {
        let request = pb::AuthRoleAddRequest { name: name.into() };
        self.apply(|store, tx| store.role_add(tx, &request)).map(drop)
    }

    fn role_delete(&self, role: &str) -> Result<(), Error> {
        let request = pb::AuthRoleDeleteRequest { role: role.into() };
        self.apply(|store, tx| store.role_delete(tx, &request)).map(drop)
    }

    fn grant(&self, role: &str, perm_type: i32, key: &[u8], end: &[u8]) -> Result<(), Error> {
        let perm = permission(perm_type, key, end);
        let request = pb::AuthRoleGrantPermissionRequest { name: role.into(), perm: Some(perm) };
        self.apply(|store, tx| store.role_grant_permission(tx, &request)).map(drop)
    }

    fn revoke(&self, role: &str, key: &[u8], end: &[u8]) -> Result<(), Error> {
        let request = pb::AuthRoleRevokePermissionRequest {
            role: role.into(),
            key: Bytes::copy_from_slice(key),
            range_end: Bytes::copy_from_slice(end),
        };
        self.apply(|store, tx| store.role_revoke_permission(tx, &request)).map(drop)
    }

    fn roles_of(&self, user: &str) -> Result<Vec<String>, Error> {
        self.store
            .user_get(&pb::AuthUserGetRequest { name: user.into() })
            .map(|response| response.roles)
    }

    fn permissions_of(&self, role: &str) -> Result<Vec<Permission>, Error> {
        self.store
            .role_get(&pb::AuthRoleGetRequest { role: role.into() })
            .map(|response| response.perm)
    }

    /// Returns a user authenticated at the current revision.
    fn caller(&self, name: &str) -> AuthInfo {
        AuthInfo { username: name.into(), revision: self.store.revision() }
    }

    /// Returns all items of a bucket.
    fn bucket(&self, bucket: Bucket) -> Vec<(Bytes, Bytes)> {
        let view = self.backend.view();
        let items = view.all(bucket).unwrap().map(Result::unwrap);
        items.map(|item| (item.key.into_bytes(), item.value.into_bytes())).collect()
    }
}

const READ: i32 = Type::Read as i32;
const WRITE: i32 = Type::Write as i32;
const READWRITE: i32 = Type::Readwrite as i32;

fn permission(perm_type: i32, key: &[u8], end: &[u8]) -> Permission {
    Permission {
        perm_type,
        key: Bytes::copy_from_slice(key),
        range_end: Bytes::copy_from_slice(end),
    }
}

/// Leases and their keys.
#[derive(Default)]
struct Leases(BTreeMap<i64, Vec<&'static str>>);

impl LeaseKeys for Leases {
    fn keys_of(&self, id: LeaseId) -> Vec<Bytes> {
        let keys = self.0.get(&id.0).cloned().unwrap_or_default();
        keys.into_iter().map(Bytes::from).collect()
    }
}
