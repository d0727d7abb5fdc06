//! Permission checks, request by request.

use proto::command::Command;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    AlarmRequest, Compare, DeleteRangeRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest,
};

use crate::*;

const DENIED: Result<(), Error> = Err(Error::PermissionDenied);
const OLD: Result<(), Error> = Err(Error::AuthOldRevision);
const NO_USER: Result<(), Error> = Err(Error::UserEmpty);

/// Alice may read r, write w, and do both to b. Lease 1 has the keys w and b, 2 has w and a key
/// that alice may not write, 3 has r, 4 none.
struct Access {
    fixture: Fixture,
    leases: Leases,
}

impl Access {
    fn new() -> Access {
        let fixture = Fixture::enabled();
        fixture.grant("ops", READ, b"r", b"").unwrap();
        fixture.grant("ops", WRITE, b"w", b"").unwrap();
        fixture.grant("ops", READWRITE, b"b", b"").unwrap();
        let leases = [(1, vec!["w", "b"]), (2, vec!["w", "other"]), (3, vec!["r"]), (4, vec![])];
        Access { fixture, leases: Leases(leases.into()) }
    }

    fn store(&self) -> &AuthStore {
        &self.fixture.store
    }

    fn alice(&self) -> AuthInfo {
        self.fixture.caller("alice")
    }

    fn apply_as(&self, caller: &AuthInfo, command: &Command) -> Result<(), Error> {
        self.store().check_apply(caller, command, &self.leases)
    }

    fn apply(&self, command: impl Into<Command>) -> Result<(), Error> {
        self.apply_as(&self.alice(), &command.into())
    }

    fn txn(&self, txn: TxnRequest) -> Result<(), Error> {
        let alone = self.store().check_txn(&self.alice(), &txn, &self.leases);
        let applied = self.apply(txn);
        assert_eq!(alone, applied);
        applied
    }

    /// Checks an operation alone, and asserts the same result for it in both branches of a
    /// transaction at several depths.
    fn op(&self, op: Request) -> Result<(), Error> {
        let alone = self.apply(match op.clone() {
            Request::RequestRange(range) => Command::Range(range),
            Request::RequestPut(put) => Command::Put(put),
            Request::RequestDeleteRange(delete) => Command::DeleteRange(delete),
            Request::RequestTxn(txn) => Command::Txn(txn),
        });
        let mut nested = op;
        for depth in 0..4 {
            let ops = vec![RequestOp { request: Some(nested) }];
            let success = TxnRequest { success: ops.clone(), ..Default::default() };
            let failure = TxnRequest { failure: ops, ..Default::default() };
            assert_eq!(self.txn(success), alone, "at depth {depth}");
            assert_eq!(self.txn(failure.clone()), alone, "at depth {depth}");
            nested = Request::RequestTxn(failure);
        }
        alone
    }
}

fn range(key: &'static str, end: &'static str) -> Request {
    Request::RequestRange(RangeRequest {
        key: key.into(),
        range_end: end.into(),
        ..Default::default()
    })
}

fn put(key: &'static str, lease: i64, prev_kv: bool) -> Request {
    Request::RequestPut(PutRequest { key: key.into(), lease, prev_kv, ..Default::default() })
}

fn delete(key: &'static str, end: &'static str, prev_kv: bool) -> Request {
    Request::RequestDeleteRange(DeleteRangeRequest {
        key: key.into(),
        range_end: end.into(),
        prev_kv,
    })
}

#[test]
fn reading_needs_read_and_writing_needs_write() {
    let access = Access::new();
    assert_eq!(
        ["r", "w", "b", "x"].map(|key| access.op(range(key, ""))),
        [Ok(()), DENIED, Ok(()), DENIED]
    );
    let puts = ["r", "w", "b", "x"].map(|key| access.op(put(key, 0, false)));
    assert_eq!(puts, [DENIED, Ok(()), Ok(()), DENIED]);
    let deletes = ["r", "w", "b", "x"].map(|key| access.op(delete(key, "", false)));
    assert_eq!(deletes, puts);
    assert_eq!(access.op(range("b", "s")), DENIED, "more than was granted");
}

#[test]
fn previous_values_need_read_too() {
    let access = Access::new();
    assert_eq!(["w", "b"].map(|key| access.op(put(key, 0, true))), [DENIED, Ok(())]);
    assert_eq!(["w", "b"].map(|key| access.op(delete(key, "", true))), [DENIED, Ok(())]);
}

#[test]
fn attaching_a_lease_needs_the_permissions_to_revoke_it() {
    let access = Access::new();
    let results = [0, 1, 2, 3, 4, 99].map(|lease| access.op(put("w", lease, false)));
    assert_eq!(results, [Ok(()), Ok(()), DENIED, DENIED, Ok(()), Ok(())]);
    let revoke = |id| access.apply(LeaseRevokeRequest { id });
    assert_eq!([1, 2, 3, 4, 99].map(revoke), [Ok(()), DENIED, DENIED, Ok(()), Ok(())]);
}

#[test]
fn compares_need_read_at_every_depth() {
    let access = Access::new();
    let compare = |key: &'static str, end: &'static str| {
        let compare = Compare { key: key.into(), range_end: end.into(), ..Default::default() };
        access.op(Request::RequestTxn(TxnRequest { compare: vec![compare], ..Default::default() }))
    };
    assert_eq!(["r", "w", "x"].map(|key| compare(key, "")), [Ok(()), DENIED, DENIED]);
    assert_eq!(compare("r", "s"), DENIED);
}

#[test]
fn both_branches_of_a_transaction_are_checked() {
    let access = Access::new();
    let op = |request| vec![RequestOp { request: Some(request) }];
    let good = || op(put("w", 0, false));
    let bad = || op(put("x", 0, false));
    let txn = |success, failure| access.txn(TxnRequest { success, failure, ..Default::default() });
    assert_eq!(txn(good(), good()), Ok(()));
    assert_eq!(txn(bad(), good()), DENIED);
    assert_eq!(txn(good(), bad()), DENIED);
    assert_eq!(txn(vec![RequestOp { request: None }], vec![]), Ok(()), "nothing to be allowed");
}

#[test]
fn a_deep_transaction_is_checked_to_the_bottom() {
    let access = Access::new();
    let nest = |bottom| {
        (0..1000).fold(bottom, |inner, _| {
            let success = vec![RequestOp { request: Some(inner) }];
            Request::RequestTxn(TxnRequest { success, ..Default::default() })
        })
    };
    let check = |request| {
        let Request::RequestTxn(txn) = nest(request) else { unreachable!() };
        access.store().check_txn(&access.alice(), &txn, &access.leases)
    };
    assert_eq!(check(range("r", "")), Ok(()));
    assert_eq!(check(range("x", "")), DENIED);
}

#[test]
fn a_watch_of_a_single_key_grants_exactly_that_key() {
    let access = Access::new();
    let watch = |key: &'static str, end: &'static str| {
        let request =
            WatchCreateRequest { key: key.into(), range_end: end.into(), ..Default::default() };
        access.store().check_watch(&access.alice(), &request)
    };
    assert_eq!(watch("r", ""), Ok(()));
    for (key, end) in [("r", "s"), ("r", "\0"), ("s", ""), ("", ""), ("", "\0"), ("\0", "\0")] {
        assert_eq!(watch(key, end), DENIED, "{key:?} {end:?}");
    }
    access.fixture.grant("ops", READ, b"\0", b"\0").unwrap();
    let everything = WatchCreateRequest { range_end: "\0".into(), ..Default::default() };
    assert_eq!(access.store().check_watch(&access.alice(), &everything), Ok(()));
}

#[test]
fn lease_keep_alive_needs_write_and_time_to_live_needs_read() {
    let access = Access::new();
    let alice = access.alice();
    let renew = |id| access.store().check_lease_renew(Some(&alice), LeaseId(id), &access.leases);
    assert_eq!([1, 2, 3, 4, 99].map(renew), [Ok(()), DENIED, DENIED, Ok(()), Ok(())]);
    let keys = |id, keys| {
        let request = LeaseTimeToLiveRequest { id, keys };
        access.store().check_lease_time_to_live(Some(&alice), &request, &access.leases).map(drop)
    };
    assert_eq!([1, 2, 3, 4].map(|id| keys(id, true)), [DENIED, DENIED, Ok(()), Ok(())]);
    assert_eq!([1, 2, 3, 4].map(|id| keys(id, false)), [Ok(()), Ok(()), Ok(()), Ok(())]);
    let list = |ids: &[i64]| {
        let ids = ids.iter().copied().map(LeaseId);
        access.store().check_lease_leases(Some(&alice), ids, &access.leases)
    };
    assert_eq!([list(&[3, 4]), list(&[3, 1])], [Ok(()), DENIED]);
    let root = access.fixture.caller("root");
    let all = [1, 2, 3, 4].map(LeaseId);
    assert_eq!(access.store().check_lease_leases(Some(&root), all, &access.leases), Ok(()));
    assert_eq!(access.store().check_lease_leases(None, all, &access.leases), NO_USER);
    assert_eq!(access.store().check_lease_renew(None, LeaseId(4), &access.leases), NO_USER);
}

#[test]
fn a_revision_check_fails_after_users_or_roles_changed() {
    let access = Access::new();
    let (store, alice) = (access.store(), access.alice());
    let request = LeaseTimeToLiveRequest { id: 3, keys: true };
    let revision = store.check_lease_time_to_live(Some(&alice), &request, &access.leases).unwrap();
    assert_eq!((store.check_revision(revision), store.check_unchanged(&alice)), (Ok(()), Ok(())));
    access.fixture.role_add("another").unwrap();
    assert_eq!((store.check_revision(revision), store.check_unchanged(&alice)), (OLD, OLD));
    assert_eq!(
        store.check_unchanged(&AuthInfo::default()),
        Ok(()),
        "a request without a user has no revision"
    );
}

#[test]
fn a_request_authenticated_before_a_change_is_refused() {
    let access = Access::new();
    let request = Command::Range(RangeRequest { key: "r".into(), ..Default::default() });
    let as_of = |revision| access.apply_as(&AuthInfo { revision, ..access.alice() }, &request);
    let now = access.store().revision();
    assert_eq!(as_of(now), Ok(()));
    assert_eq!(as_of(now - 1), OLD);
    assert_eq!(as_of(0), NO_USER);
    assert_eq!(as_of(now + 1), Ok(()), "this member is behind the proposing one");
    let root = AuthInfo { revision: now - 1, ..access.fixture.caller("root") };
    assert_eq!(access.apply_as(&root, &request), OLD, "root too");
    assert_eq!(access.apply_as(&access.fixture.caller("ghost"), &request), DENIED);
}

#[test]
fn all_checks_pass_while_authentication_is_disabled() {
    let access = Access::new();
    access.fixture.apply(AuthStore::disable);
    let (store, no_user) = (access.store(), AuthInfo::default());
    let success = vec![RequestOp { request: Some(put("x", 2, true)) }];
    let request = Command::Txn(TxnRequest { success, ..Default::default() });
    assert_eq!(access.apply_as(&no_user, &request), Ok(()));
    assert_eq!(store.check_admin(None), Ok(()));
    assert_eq!(store.check_any_user(None), Ok(()));
    assert_eq!(store.check_lease_renew(None, LeaseId(2), &access.leases), Ok(()));
    assert_eq!(store.check_lease_leases(None, [LeaseId(2)], &access.leases), Ok(()));
}

#[test]
fn changes_of_users_and_roles_need_the_role_root() {
    let access = Access::new();
    let (root, alice) = (access.fixture.caller("root"), access.alice());
    for (at, request) in management().iter().enumerate() {
        assert_eq!(access.apply_as(&root, request), Ok(()), "{at}");
        assert_eq!(access.apply_as(&alice, request), DENIED, "{at}");
        assert_eq!(access.apply_as(&AuthInfo::default(), request), NO_USER, "{at}");
        let ghost = access.fixture.caller("ghost");
        assert_eq!(access.apply_as(&ghost, request), Err(Error::UserNotFound), "{at}");
    }
    let check = |name| access.store().check_admin(Some(&access.fixture.caller(name)));
    assert_eq!([check("root"), check("alice")], [Ok(()), DENIED]);
    assert_eq!(access.store().check_admin(None), NO_USER);
    access.fixture.user_grant_role("alice", "root").unwrap();
    assert_eq!(check("alice"), Ok(()), "it is the role that counts");
}

/// Returns each command that needs the role root when it is applied.
fn management() -> [Command; 13] {
    [
        Command::AuthEnable(Default::default()),
        Command::AuthDisable(Default::default()),
        Command::AuthUserAdd(Default::default()),
        Command::AuthUserDelete(Default::default()),
        Command::AuthUserChangePassword(Default::default()),
        Command::AuthUserGrantRole(Default::default()),
        Command::AuthUserRevokeRole(Default::default()),
        Command::AuthRoleAdd(Default::default()),
        Command::AuthRoleGrantPermission(Default::default()),
        Command::AuthRoleRevokePermission(Default::default()),
        Command::AuthRoleDelete(Default::default()),
        Command::AuthUserList(Default::default()),
        Command::AuthRoleList(Default::default()),
    ]
}

#[test]
fn a_user_may_read_itself_and_its_roles() {
    let access = Access::new();
    access.fixture.role_add("web").unwrap();
    let user_get = |name: &str| access.apply(pb::AuthUserGetRequest { name: name.into() });
    assert_eq!([user_get("alice"), user_get("root")], [Ok(()), DENIED]);
    let role_get = |role: &str| access.apply(pb::AuthRoleGetRequest { role: role.into() });
    assert_eq!([role_get("ops"), role_get("web")], [Ok(()), DENIED]);
}

#[test]
fn authenticate_needs_no_user_and_alarm_list_needs_any_user() {
    let access = Access::new();
    let open = [Command::Authenticate(Default::default()), Command::AuthStatus(Default::default())];
    for request in &open {
        assert_eq!(access.apply_as(&AuthInfo::default(), request), Ok(()));
    }
    let (store, alice) = (access.store(), access.alice());
    assert_eq!([store.check_any_user(Some(&alice)), store.check_any_user(None)], [Ok(()), NO_USER]);
    let alarm = |caller, action: i32| {
        store.check_alarm(caller, &AlarmRequest { action, ..Default::default() })
    };
    let [get, activate, deactivate] =
        [AlarmAction::Get, AlarmAction::Activate, AlarmAction::Deactivate].map(i32::from);
    assert_eq!([alarm(Some(&alice), get), alarm(None, get)], [Ok(()), NO_USER]);
    let root = access.fixture.caller("root");
    for action in [activate, deactivate, 99] {
        assert_eq!(alarm(Some(&alice), action), DENIED);
        assert_eq!(alarm(Some(&root), action), Ok(()));
    }
}

#[test]
fn the_user_travels_in_the_request_header() {
    let info = AuthInfo { username: "alice".into(), revision: 7 };
    let mut header = pb::RequestHeader { id: 5, ..Default::default() };
    info.write_to(&mut header);
    assert_eq!(header, pb::RequestHeader { id: 5, username: "alice".into(), auth_revision: 7 });
    assert_eq!(AuthInfo::from_header(Some(&header)), info);
    assert_eq!(AuthInfo::from_header(None), AuthInfo::default());
}
