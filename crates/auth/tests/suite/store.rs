//! Users, roles and revisions, rule by rule.

use backend::schema::{Bucket, auth as schema};
use backend::{PutError, ReadError};
use prost::Message;
use proto::authpb::{Role, User};

use crate::*;

#[test]
fn a_new_store_is_at_the_first_revision_and_disabled() {
    let fixture = Fixture::new();
    let status = fixture.store.status();
    assert_eq!((status.enabled, status.auth_revision), (false, 1));
    assert_eq!(schema::revision(&fixture.backend.view()).unwrap(), 1);
    assert_eq!(fixture.bucket(Bucket::Auth).len(), 1, "authEnabled is written when it is set");
}

#[test]
fn starting_again_changes_nothing() {
    let fixture = Fixture::enabled();
    let before = fixture.store.status();
    fixture.apply(AuthStore::start).unwrap();
    assert_eq!(fixture.store.status(), before);
    assert_eq!(fixture.reread().status(), before);
}

#[test]
fn every_change_except_enable_increments_the_revision() {
    let fixture = Fixture::new();
    let mut last = fixture.store.revision();
    let mut advanced = || {
        let before = std::mem::replace(&mut last, fixture.store.revision());
        last - before
    };
    fixture.user_add("root").unwrap();
    assert_eq!(advanced(), 1);
    fixture.user_grant_role("root", "root").unwrap();
    assert_eq!(advanced(), 1);
    fixture.user_grant_role("root", "root").unwrap();
    assert_eq!(advanced(), 0, "the user has the role already");
    fixture.apply(AuthStore::enable).unwrap();
    fixture.apply(AuthStore::enable).unwrap();
    assert_eq!(advanced(), 0);
    fixture.role_add("ops").unwrap();
    fixture.grant("ops", READ, b"a", b"").unwrap();
    fixture.revoke("ops", b"a", b"").unwrap();
    fixture.role_delete("ops").unwrap();
    assert_eq!(advanced(), 4);
    fixture.user_change_password("root", "").unwrap();
    assert_eq!(advanced(), 1);
    fixture.apply(AuthStore::disable);
    assert_eq!(advanced(), 1);
    fixture.apply(AuthStore::disable);
    assert_eq!(advanced(), 0, "disabled already");
    fixture.user_revoke_role("root", "root").unwrap();
    fixture.user_delete("root").unwrap();
    assert_eq!(advanced(), 2);
}

#[test]
fn a_refused_request_changes_nothing() {
    let fixture = Fixture::enabled();
    let buckets =
        || [Bucket::Auth, Bucket::AuthUsers, Bucket::AuthRoles].map(|b| fixture.bucket(b));
    let (before, revision) = (buckets(), fixture.store.revision());
    let failures = [
        (fixture.user_add(""), Error::UserEmpty),
        (fixture.user_add("alice"), Error::UserAlreadyExist),
        (fixture.user_add_with("bob", "?", None), Error::NoPasswordUser),
        (fixture.user_delete("bob"), Error::UserNotFound),
        (fixture.user_delete("root"), Error::InvalidAuthMgmt),
        (fixture.user_change_password("bob", ""), Error::UserNotFound),
        (fixture.user_change_password("alice", "?"), Error::NoPasswordUser),
        (fixture.user_grant_role("bob", "ops"), Error::UserNotFound),
        (fixture.user_grant_role("alice", "web"), Error::RoleNotFound),
        (fixture.user_revoke_role("bob", "ops"), Error::UserNotFound),
        (fixture.user_revoke_role("alice", "web"), Error::RoleNotGranted),
        (fixture.user_revoke_role("root", "root"), Error::InvalidAuthMgmt),
        (fixture.role_add(""), Error::RoleEmpty),
        (fixture.role_add("ops"), Error::RoleAlreadyExist),
        (fixture.role_delete("web"), Error::RoleNotFound),
        (fixture.role_delete("root"), Error::InvalidAuthMgmt),
        (fixture.grant("web", READ, b"a", b""), Error::RoleNotFound),
        (fixture.grant("ops", READ, b"", b""), Error::InvalidAuthMgmt),
        (fixture.grant("ops", READ, b"b", b"a"), Error::InvalidAuthMgmt),
        (fixture.revoke("web", b"a", b""), Error::RoleNotFound),
        (fixture.revoke("ops", b"a", b""), Error::PermissionNotGranted),
        (fixture.roles_of("bob").map(drop), Error::UserNotFound),
        (fixture.permissions_of("root").map(drop), Error::RoleNotFound),
    ];
    for (at, (result, expected)) in failures.into_iter().enumerate() {
        assert_eq!(result, Err(expected), "{at}");
    }
    let ungiven = proto::etcdserverpb::AuthRoleGrantPermissionRequest::default();
    let ungiven = fixture.apply(|store, tx| store.role_grant_permission(tx, &ungiven));
    assert_eq!(ungiven, Err(Error::PermissionNotGiven));
    assert_eq!((buckets(), fixture.store.revision()), (before, revision));
}

#[test]
fn error_texts_are_etcds() {
    for (error, text) in [
        (Error::RootUserNotExist, "auth: root user does not exist"),
        (Error::RootRoleNotExist, "auth: root user does not have root role"),
        (Error::UserAlreadyExist, "auth: user already exists"),
        (Error::UserEmpty, "auth: user name is empty"),
        (Error::UserNotFound, "auth: user not found"),
        (Error::RoleAlreadyExist, "auth: role already exists"),
        (Error::RoleNotFound, "auth: role not found"),
        (Error::RoleEmpty, "auth: role name is empty"),
        (Error::PermissionNotGiven, "auth: permission not given"),
        (Error::AuthFailed, "auth: authentication failed, invalid user ID or password"),
        (
            Error::NoPasswordUser,
            "auth: authentication failed, password was given for no password user",
        ),
        (Error::PermissionDenied, "auth: permission denied"),
        (Error::RoleNotGranted, "auth: role is not granted to the user"),
        (Error::PermissionNotGranted, "auth: permission is not granted to the role"),
        (Error::AuthNotEnabled, "auth: authentication is not enabled"),
        (Error::AuthOldRevision, "auth: revision in header is old"),
        (Error::InvalidAuthToken, "auth: invalid auth token"),
        (Error::InvalidAuthMgmt, "auth: invalid auth management"),
        (Error::VerifyOnly, "auth: token signing attempted with verify-only key"),
        (Error::NameTooLong, "auth: name is longer than 32768 bytes"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn enabling_needs_the_user_root_with_the_role_root() {
    let fixture = Fixture::new();
    let enable = || fixture.apply(AuthStore::enable).map(drop);
    assert_eq!(enable(), Err(Error::RootUserNotExist));
    fixture.user_add("root").unwrap();
    assert_eq!(enable(), Err(Error::RootRoleNotExist));
    fixture.user_grant_role("root", "root").unwrap();
    assert_eq!(enable(), Ok(()));
    assert!(schema::enabled(&fixture.backend.view()).unwrap());
    assert!(fixture.reread().enabled());
}

#[test]
fn the_role_root_has_all_permissions_whatever_was_granted() {
    let fixture = Fixture::new();
    fixture.role_add("root").unwrap();
    fixture.grant("root", READ, b"a", b"").unwrap();
    let everything = permission(READWRITE, b"", b"\0");
    assert_eq!(fixture.permissions_of("root").unwrap(), [everything]);
}

#[test]
fn deleting_a_role_revokes_it_from_its_users() {
    let fixture = Fixture::enabled();
    fixture.role_add("web").unwrap();
    fixture.user_grant_role("alice", "web").unwrap();
    assert_eq!(fixture.roles_of("alice").unwrap(), ["ops", "web"], "sorted");
    fixture.role_delete("ops").unwrap();
    assert_eq!(fixture.roles_of("alice").unwrap(), ["web"]);
    assert!(!fixture.store.has_role("alice", "ops"));
    assert!(fixture.store.has_role("alice", "web"));
    assert!(fixture.reread().has_role("alice", "web"));
}

#[test]
fn granting_a_range_again_changes_its_type() {
    let fixture = Fixture::enabled();
    fixture.grant("ops", READ, b"b", b"c").unwrap();
    fixture.grant("ops", READ, b"a", b"").unwrap();
    fixture.grant("ops", WRITE, b"b", b"c").unwrap();
    let expected = [permission(READ, b"a", b""), permission(WRITE, b"b", b"c")];
    assert_eq!(fixture.permissions_of("ops").unwrap(), expected, "sorted by key");
}

/// Compat: a quirk of etcd that all members have to share.
#[test]
fn granting_the_second_of_two_ranges_from_one_key_adds_it_again() {
    let fixture = Fixture::enabled();
    fixture.grant("ops", READ, b"a", b"b").unwrap();
    fixture.grant("ops", READ, b"a", b"c").unwrap();
    fixture.grant("ops", WRITE, b"a", b"c").unwrap();
    let ends = |permissions: Vec<Permission>| -> Vec<(i32, Bytes)> {
        permissions.into_iter().map(|p| (p.perm_type, p.range_end)).collect()
    };
    let held = ends(fixture.permissions_of("ops").unwrap());
    assert_eq!(held, [(READ, "b".into()), (READ, "c".into()), (WRITE, "c".into())]);
    fixture.revoke("ops", b"a", b"c").unwrap();
    assert_eq!(ends(fixture.permissions_of("ops").unwrap()), [(READ, "b".into())]);
}

#[test]
fn users_and_roles_are_stored_as_etcd_stores_them() {
    let fixture = Fixture::new();
    fixture.user_add_with("u", "aGFzaA==", None).unwrap();
    fixture.user_add_with("v", "", Some(UserAddOptions { no_password: true })).unwrap();
    fixture.role_add("r").unwrap();
    fixture.grant("r", READWRITE, b"k", b"\0").unwrap();
    fixture.user_grant_role("u", "r").unwrap();
    let users = fixture.bucket(Bucket::AuthUsers);
    assert_eq!(users[0].1, &b"\x0a\x01u\x12\x04hash\x1a\x01r\x22\x00"[..]);
    assert_eq!(users[1].1, &b"\x0a\x01v\x22\x02\x08\x01"[..]);
    let roles = fixture.bucket(Bucket::AuthRoles);
    assert_eq!(
        roles,
        [("r".into(), Bytes::from(&b"\x0a\x01r\x12\x08\x08\x02\x12\x01k\x1a\x01\x00"[..]))]
    );
}

#[test]
fn a_plain_password_of_an_old_entry_is_hashed_while_applying() {
    let hashes = || {
        let fixture = Fixture::enabled();
        let request = pb::AuthUserAddRequest {
            name: "old".into(),
            password: "plain".into(),
            ..Default::default()
        };
        fixture.apply(|store, tx| store.user_add(tx, &request)).unwrap();
        assert!(fixture.store.check_password("old", "plain").is_ok());
        fixture.bucket(Bucket::AuthUsers)
    };
    assert_eq!(hashes(), hashes(), "the same on every member");
}

#[test]
fn check_password_accepts_only_the_right_password() {
    let fixture = Fixture::enabled();
    let no_password = UserAddOptions { no_password: true };
    fixture.user_add_with("cert", "", Some(no_password)).unwrap();
    fixture.user_add_with("empty", "", None).unwrap();
    let check = |name, password| fixture.store.check_password(name, password);
    assert_eq!(check("alice", "secret"), Ok(fixture.store.revision()));
    assert_eq!(check("alice", "wrong"), Err(Error::AuthFailed));
    assert_eq!(check("unknown", "secret"), Err(Error::AuthFailed), "the same as a wrong password");
    assert_eq!(check("cert", "secret"), Err(Error::NoPasswordUser));
    assert_eq!(check("empty", ""), Err(Error::AuthFailed), "an empty hash matches no password");
    fixture.apply(AuthStore::disable);
    let disabled = fixture.store.check_password("alice", "secret");
    assert_eq!(disabled, Err(Error::AuthNotEnabled));
}

#[test]
fn a_name_longer_than_a_database_key_is_refused() {
    let fixture = Fixture::new();
    let (longest, longer) =
        ("n".repeat(auth::NAME_BYTES_MAX), "n".repeat(auth::NAME_BYTES_MAX + 1));
    assert_eq!(fixture.user_add(&longest), Ok(()));
    assert_eq!(fixture.role_add(&longest), Ok(()));
    assert_eq!(fixture.user_add(&longer), Err(Error::NameTooLong));
    assert_eq!(fixture.role_add(&longer), Err(Error::NameTooLong));
    assert_eq!(fixture.store.user_list().users.len(), 1);
    let refused = fixture.apply(|_, tx| tx.put(Bucket::AuthUsers, longer, "x"));
    assert_eq!(refused, Err(PutError::KeyTooLarge));
}

#[test]
fn a_damaged_user_or_role_is_a_read_error() {
    for bucket in [Bucket::AuthUsers, Bucket::AuthRoles] {
        let fixture = Fixture::new();
        fixture.apply(|_, tx| tx.put(bucket, "bad", &b"\xff\xff"[..])).unwrap();
        let error = fixture.store.restore(&fixture.backend.view()).unwrap_err();
        assert!(matches!(error, ReadError::Malformed { bucket: b, .. } if b == bucket), "{error}");
    }
}

#[test]
fn restore_replaces_users_roles_and_revision() {
    let (one, other) = (Fixture::enabled(), Fixture::new());
    one.grant("ops", READ, b"a", b"c").unwrap();
    other.store.restore(&one.backend.view()).unwrap();
    assert_eq!(other.store.status(), one.store.status());
    let range = pb::RangeRequest { key: "b".into(), ..Default::default() };
    let caller = one.caller("alice");
    assert_eq!(other.store.check_range(&caller, &range), Ok(()));
    assert!(User::decode(&*one.bucket(Bucket::AuthUsers)[0].1).is_ok());
    assert!(Role::decode(&*one.bucket(Bucket::AuthRoles)[0].1).is_ok());
}
