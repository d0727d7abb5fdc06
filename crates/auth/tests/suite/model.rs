//! Permissions compared with a set of keys, and requests that must not panic.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index as Pick, select};
use proto::command::Command;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

use crate::*;

type Range = (Vec<u8>, Vec<u8>);

const LETTERS: [u8; 4] = [0, b'a', b'b', 0xff];
const ROLES: [&str; 2] = ["ops", "web"];

fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(select(&LETTERS[..]), 1..=2)
}

/// Generates a range of a request.
fn range() -> impl Strategy<Value = Range> {
    (key(), prop_oneof![Just(vec![]), Just(vec![0]), key()])
}

/// Returns all keys of one or two letters, and the key right after each. The generated ranges begin
/// and end at such keys only, so these represent all keys.
fn world() -> Vec<Vec<u8>> {
    let one = LETTERS.map(|letter| vec![letter]).into_iter();
    let two = LETTERS.into_iter().flat_map(|a| LETTERS.map(|b| vec![a, b]));
    let keys: Vec<Vec<u8>> = one.chain(two).collect();
    let after = keys.iter().map(|key| [&key[..], &[0]].concat());
    after.chain(keys.clone()).collect()
}

/// Returns the keys of the world that are in a range.
fn keys_in((key, end): &Range) -> BTreeSet<Vec<u8>> {
    let inside = |candidate: &Vec<u8>| match &end[..] {
        [] => candidate == key,
        [0] => candidate >= key,
        _ => candidate >= key && candidate < end,
    };
    world().into_iter().filter(inside).collect()
}

#[derive(Clone, Debug)]
enum Change {
    Grant { role: usize, kind: i32, range: Range },
    Revoke { role: usize, which: Pick },
}

fn change() -> impl Strategy<Value = Change> {
    let grant = (0..2_usize, 0..4_i32, range()).prop_map(|(role, kind, range)| Change::Grant {
        role,
        kind,
        range,
    });
    let revoke =
        (0..2_usize, any::<Pick>()).prop_map(|(role, which)| Change::Revoke { role, which });
    prop_oneof![3 => grant, 1 => revoke]
}

/// Returns alice with two roles, after changes to the roles.
fn changed(changes: Vec<Change>) -> Fixture {
    let fixture = Fixture::enabled();
    fixture.role_add("web").unwrap();
    fixture.user_grant_role("alice", "web").unwrap();
    for change in changes {
        match change {
            Change::Grant { role, kind, range: (key, end) } => {
                let valid = end.is_empty() || end == [0] || key < end;
                assert_eq!(fixture.grant(ROLES[role], kind, &key, &end).is_ok(), valid);
            }
            Change::Revoke { role, which } => {
                let held = fixture.permissions_of(ROLES[role]).unwrap();
                if !held.is_empty() {
                    let Permission { key, range_end, .. } = which.get(&held);
                    fixture.revoke(ROLES[role], key, range_end).unwrap();
                }
            }
        }
    }
    fixture
}

/// Returns the keys that alice may read or write, according to the lists of her roles.
fn granted(fixture: &Fixture, wanted: i32) -> BTreeSet<Vec<u8>> {
    let permissions = ROLES.iter().flat_map(|role| fixture.permissions_of(role).unwrap());
    permissions
        .filter(|permission| [wanted, READWRITE].contains(&permission.perm_type))
        .flat_map(|permission| keys_in(&(permission.key.into(), permission.range_end.into())))
        .collect()
}

/// Returns whether all keys of a range are granted. An empty range is judged by its first key.
fn is_granted(granted: &BTreeSet<Vec<u8>>, range: &Range) -> bool {
    let wanted = keys_in(range);
    if wanted.is_empty() { granted.contains(&range.0) } else { wanted.is_subset(granted) }
}

/// Returns whether alice may read a range, and whether she may delete it.
fn answers(store: &AuthStore, caller: &AuthInfo, (key, end): &Range) -> (bool, bool) {
    let (key, range_end) = (Bytes::from(key.clone()), Bytes::from(end.clone()));
    let delete =
        DeleteRangeRequest { key: key.clone(), range_end: range_end.clone(), prev_kv: false };
    let delete = Command::DeleteRange(delete);
    let read = RangeRequest { key, range_end, ..Default::default() };
    (
        store.check_range(caller, &read).is_ok(),
        store.check_apply(caller, &delete, &Leases::default()).is_ok(),
    )
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn a_range_is_permitted_if_all_of_its_keys_are(
        changes in vec(change(), 1..25),
        asked in vec(range(), 1..20),
    ) {
        let fixture = changed(changes);
        let (reread, alice) = (fixture.reread(), fixture.caller("alice"));
        let (readable, writable) = (granted(&fixture, READ), granted(&fixture, WRITE));
        for range in asked {
            let expected = (is_granted(&readable, &range), is_granted(&writable, &range));
            prop_assert_eq!(answers(&fixture.store, &alice, &range), expected, "{:?}", &range);
            prop_assert_eq!(answers(&reread, &alice, &range), expected, "as read from the database");
        }
    }
}

/// Generates names: existing, unknown, empty and long ones.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(vec!["root", "alice", "bob", "ops", "web", ""]).prop_map(str::to_owned),
        1 => ".*",
        1 => Just("n".repeat(auth::NAME_BYTES_MAX + 1)),
    ]
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![vec(any::<u8>(), 0..4), key()].prop_map(Bytes::from)
}

fn op(depth: u32) -> BoxedStrategy<Option<Request>> {
    let range = (bytes(), bytes()).prop_map(|(key, range_end)| {
        Request::RequestRange(RangeRequest { key, range_end, ..Default::default() })
    });
    let put = (bytes(), any::<i64>(), any::<bool>()).prop_map(|(key, lease, prev_kv)| {
        Request::RequestPut(PutRequest { key, lease, prev_kv, ..Default::default() })
    });
    let delete = (bytes(), bytes(), any::<bool>()).prop_map(|(key, range_end, prev_kv)| {
        Request::RequestDeleteRange(DeleteRangeRequest { key, range_end, prev_kv })
    });
    let flat = prop_oneof![range, put, delete];
    if depth == 0 {
        return prop::option::of(flat).boxed();
    }
    let nested = txn(depth - 1).prop_map(Request::RequestTxn);
    prop::option::of(prop_oneof![flat, nested]).boxed()
}

fn txn(depth: u32) -> impl Strategy<Value = TxnRequest> {
    let compare = (bytes(), bytes()).prop_map(|(key, range_end)| Compare {
        key,
        range_end,
        ..Default::default()
    });
    let ops = || vec(op(depth).prop_map(|request| RequestOp { request }), 0..3);
    (vec(compare, 0..3), ops(), ops()).prop_map(|(compare, success, failure)| TxnRequest {
        compare,
        success,
        failure,
    })
}

/// Generates a request that changes users or roles.
fn request() -> impl Strategy<Value = Command> {
    let permission = prop::option::of((any::<i32>(), bytes(), bytes()));
    (0..12, name(), name(), ".{0,80}", bytes(), bytes(), permission, any::<Option<bool>>())
        .prop_map(move |(kind, name, role, text, key, range_end, permission, no_password)| {
            match kind {
                0 => pb::AuthEnableRequest {}.into(),
                1 => pb::AuthDisableRequest {}.into(),
                2 | 3 => Command::AuthUserAdd(pb::AuthUserAddRequest {
                    name,
                    hashed_password: text,
                    options: no_password.map(|no_password| UserAddOptions { no_password }),
                    ..Default::default()
                }),
                4 => pb::AuthUserDeleteRequest { name }.into(),
                5 => Command::AuthUserChangePassword(pb::AuthUserChangePasswordRequest {
                    name,
                    hashed_password: text,
                    ..Default::default()
                }),
                6 => pb::AuthUserGrantRoleRequest { user: name, role }.into(),
                7 => pb::AuthUserRevokeRoleRequest { name, role }.into(),
                8 => pb::AuthRoleAddRequest { name }.into(),
                9 => Command::AuthRoleGrantPermission(pb::AuthRoleGrantPermissionRequest {
                    name,
                    perm: permission
                        .map(|(perm_type, key, end)| crate::permission(perm_type, &key, &end)),
                }),
                10 => pb::AuthRoleDeleteRequest { role }.into(),
                _ => pb::AuthRoleRevokePermissionRequest { role, key, range_end }.into(),
            }
        })
}

/// Applies one of the commands that [`request`] generates.
fn apply(fixture: &Fixture, command: &Command) -> Result<(), Error> {
    let mut result = Ok(());
    fixture.apply(|store, tx| {
        result = match command {
            Command::AuthEnable(_) => store.enable(tx).map(drop),
            Command::AuthDisable(_) => {
                store.disable(tx);
                Ok(())
            }
            Command::AuthUserAdd(r) => store.user_add(tx, r).map(drop),
            Command::AuthUserDelete(r) => store.user_delete(tx, r).map(drop),
            Command::AuthUserChangePassword(r) => store.user_change_password(tx, r).map(drop),
            Command::AuthUserGrantRole(r) => store.user_grant_role(tx, r).map(drop),
            Command::AuthUserRevokeRole(r) => store.user_revoke_role(tx, r).map(drop),
            Command::AuthRoleAdd(r) => store.role_add(tx, r).map(drop),
            Command::AuthRoleDelete(r) => store.role_delete(tx, r).map(drop),
            Command::AuthRoleGrantPermission(r) => store.role_grant_permission(tx, r).map(drop),
            Command::AuthRoleRevokePermission(r) => store.role_revoke_permission(tx, r).map(drop),
            other => panic!("{other:?} does not change users or roles"),
        };
    });
    result
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn memory_and_database_agree_after_any_requests(requests in vec(request(), 1..30)) {
        let (fixture, twin) = (Fixture::enabled(), Fixture::enabled());
        for request in &requests {
            prop_assert_eq!(apply(&fixture, request), apply(&twin, request));
        }
        let (store, reread) = (&fixture.store, fixture.reread());
        prop_assert_eq!(store.status(), reread.status());
        prop_assert_eq!(store.user_list(), reread.user_list());
        for name in store.user_list().users {
            let request = pb::AuthUserGetRequest { name };
            let roles = store.user_get(&request).unwrap().roles;
            prop_assert!(roles.is_sorted());
            prop_assert_eq!(roles, reread.user_get(&request).unwrap().roles);
        }
        for role in store.role_list().roles {
            let request = pb::AuthRoleGetRequest { role };
            let permissions = store.role_get(&request).unwrap().perm;
            prop_assert!(permissions.is_sorted_by_key(|permission| &permission.key));
            prop_assert_eq!(permissions, reread.role_get(&request).unwrap().perm);
        }
    }

    #[test]
    fn root_may_execute_any_transaction_and_a_user_without_roles_none(txn in txn(3), lease in any::<i64>()) {
        let fixture = Fixture::enabled();
        let leases = Leases([(lease, vec!["a"])].into());
        let check = |caller: &AuthInfo| fixture.store.check_txn(caller, &txn, &leases);
        prop_assert_eq!(check(&fixture.caller("root")), Ok(()));
        let (no_user, alice) = (check(&AuthInfo::default()), check(&fixture.caller("alice")));
        prop_assert_eq!(no_user.is_ok(), alice.is_ok(), "alice has no permissions");
    }

}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn no_token_and_no_key_file_panics(token in ".{0,60}", file in vec(any::<u8>(), 0..200), pem in any::<bool>()) {
        let fixture = Fixture::enabled();
        prop_assert!(fixture.store.info_from_token(&token).is_err());
        let _ = fixture.store.index_of_token(&token);
        let file = if pem { in_pem(&file) } else { file };
        for method in ["RS256", "ES512", "EdDSA"] {
            for half in ["pub-key", "priv-key"] {
                let options = format!("jwt,sign-method={method},{half}=k");
                let tokens = Tokens::parse(&options, Duration::ZERO, |_| Ok(file.clone()));
                prop_assert!(tokens.is_err());
            }
        }
        let options = format!("jwt,sign-method=HS256,priv-key=k,{token}");
        let _ = Tokens::parse(&options, Duration::ZERO, |_| Ok(file.clone()));
        let secret = Tokens::parse("jwt,sign-method=HS256,priv-key=k", Duration::ZERO, |_| Ok(vec![1]));
        let fixture = Fixture::with(secret.unwrap()).with_users();
        prop_assert!(fixture.store.info_from_token(&token).is_err());
    }
}

fn in_pem(bytes: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    let body = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("-----BEGIN KEY-----\n{body}\n-----END KEY-----\n").into_bytes()
}
