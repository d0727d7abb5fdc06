//! Permissions at apply, and the order of the checks.

use auth::Error;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{AlarmType, InternalRaftRequest as Request, RequestHeader, TxnRequest};
use server::{Refusal, Reply};

use crate::support::member::{as_root, header};
use crate::support::{Member, Setup, requests as req};

/// A member with enabled auth, the user root, and the user alice, who may read and write `[a, c)`.
fn member(setup: Setup) -> Member {
    let mut member = Member::new(setup);
    for request in [
        req::put("a", b"1", 0),
        req::put("x", b"1", 0),
        req::grant(7, 60),
        req::put("x", b"2", 7),
        req::user_add("root"),
        req::user_grant_role("root", "root"),
        req::user_add("alice"),
        req::role_add("ops"),
        req::role_add("web"),
        req::role_grant("ops", "a", "c"),
        req::user_grant_role("alice", "ops"),
        req::auth_enable(),
    ] {
        // With a full quota some replies are refusals, but the requests are applied.
        let _ = member.answer(&request);
    }
    assert!(member.machine.auth().enabled());
    member
}

fn as_user(header: Option<RequestHeader>, request: &Request) -> Request {
    Request { header, ..request.clone() }
}

fn refused(error: Error) -> Result<Reply, Refusal> {
    Err(Refusal::Auth(error))
}

fn nested(op: Op) -> Request {
    let within =
        |op| Op::RequestTxn(TxnRequest { failure: vec![req::op(op)], ..req::txn_of(vec![]) });
    req::txn(req::txn_of(vec![within(within(op))]))
}

#[test]
fn a_user_may_do_only_what_the_roles_permit() {
    let put = |key| Op::RequestPut(req::put_request(key, b"v", 0));
    let leased = Op::RequestPut(req::put_request("a", b"v", 7));
    for (request, allowed) in [
        (req::put("a", b"v", 0), true),
        (req::put("c", b"v", 0), false),
        (req::put("a", b"v", 7), false),
        (req::range("b"), true),
        (req::range("x"), false),
        (req::delete("a", "c"), true),
        (req::delete("a", "d"), false),
        (req::txn(req::txn_of(vec![put("a")])), true),
        (req::txn(req::txn_of(vec![put("a"), put("x")])), false),
        (nested(put("b")), true),
        (nested(put("x")), false),
        (nested(leased), false),
        (req::revoke(7), false),
        (req::grant(8, 60), true),
        (req::compact(2), true),
        (req::raise(1, AlarmType::Nospace), true),
        (req::user_get("alice"), true),
        (req::user_get("root"), false),
        (req::role_get("ops"), true),
        (req::role_get("web"), false),
        (req::user_list(), false),
        (req::user_add("bob"), false),
        (req::auth_disable(), false),
        (req::auth_status(), true),
        (req::authenticate("alice", "t"), true),
    ] {
        let mut member = member(Setup::default());
        let before = (member.machine.store().current(), member.machine.auth().revision());
        let result = member.answer(&as_user(header(&member, "alice"), &request));
        if allowed {
            assert!(result.is_ok(), "{request:?}: {result:?}");
            continue;
        }
        assert_eq!(result, refused(Error::PermissionDenied), "{request:?}");
        let after = (member.machine.store().current(), member.machine.auth().revision());
        assert_eq!(after, before, "{request:?}");
        let by_root = member.answer(&as_user(as_root(&member), &request));
        assert!(by_root.is_ok(), "{request:?} by root: {by_root:?}");
    }
}

/// Users and roles may change between the authentication of a request and its apply.
#[test]
fn a_request_with_a_stale_auth_revision_is_refused() {
    let mut member = member(Setup::default());
    let revision = member.machine.auth().revision();
    let put = req::put("a", b"v", 0);
    let at = |user: &str, auth_revision| {
        Some(RequestHeader { id: 1, username: user.to_owned(), auth_revision })
    };
    for (header, wanted) in [
        (at("root", revision), None),
        (at("root", revision - 1), Some(Error::AuthOldRevision)),
        (at("alice", revision - 1), Some(Error::AuthOldRevision)),
        (at("alice", 0), Some(Error::UserEmpty)),
        (at("", revision), Some(Error::PermissionDenied)),
        (at("unknown", revision), Some(Error::PermissionDenied)),
        (None, Some(Error::UserEmpty)),
        (at("alice", revision + 1), None),
        (at("alice", u64::MAX), None),
    ] {
        let result = member.answer(&as_user(header.clone(), &put)).err();
        assert_eq!(result, wanted.map(Refusal::Auth), "{header:?}");
    }
    let before = header(&member, "alice");
    member.answer(&as_user(as_root(&member), &req::user_add("bob"))).unwrap();
    assert_eq!(member.answer(&as_user(before, &put)), refused(Error::AuthOldRevision));
}

/// Compat: as in etcd, the auth revision of a request that changes users or roles is not checked,
/// only the current role of its user.
#[test]
fn changes_of_users_and_roles_need_the_role_root() {
    let mut member = member(Setup::default());
    let at = |user: &str, auth_revision| {
        Some(RequestHeader { id: 1, username: user.to_owned(), auth_revision })
    };
    for (header, wanted) in [
        (None, Err(Error::UserEmpty)),
        (at("", 99), Err(Error::UserEmpty)),
        (at("unknown", 99), Err(Error::UserNotFound)),
        (at("alice", 99), Err(Error::PermissionDenied)),
        (at("root", 0), Ok(())),
    ] {
        let result = member.answer(&as_user(header.clone(), &req::role_add("new")));
        assert_eq!(result.map(drop), wanted.map_err(Refusal::Auth), "{header:?}");
    }
}

/// The order is CORRUPT, NOSPACE, permissions, quota. The test removes one cause after the other.
#[test]
fn checks_run_in_the_order_of_etcd() {
    let mut member = member(Setup { quota: 1, ..Setup::default() });
    let put = req::put("x", b"v", 99);
    let by_alice = |member: &Member| as_user(header(member, "alice"), &put);
    member.answer(&req::raise(1, AlarmType::Nospace)).unwrap();
    member.answer(&req::raise(1, AlarmType::Corrupt)).unwrap();
    assert_eq!(member.answer(&by_alice(&member)), Err(Refusal::Corrupt));
    member.answer(&req::clear(1, AlarmType::Corrupt)).unwrap();
    assert_eq!(member.answer(&by_alice(&member)), Err(Refusal::NoSpace));
    member.answer(&req::clear(1, AlarmType::Nospace)).unwrap();
    assert_eq!(member.answer(&by_alice(&member)), refused(Error::PermissionDenied));
    let by_root = as_user(as_root(&member), &put);
    assert_eq!(member.answer(&by_root), Err(Refusal::Keys(mvcc::Error::LeaseNotFound)));
    assert_eq!(member.machine.store().current(), 4, "refused requests change nothing");
    let good = as_user(as_root(&member), &req::put("x", b"v", 0));
    assert_eq!(member.answer(&good), Err(Refusal::NoSpace), "beyond the quota, but applied");
    assert_eq!(member.machine.store().current(), 5);
}

#[test]
fn cluster_requests_need_no_permission_and_pass_all_alarms() {
    let mut member = member(Setup::default());
    member.answer(&req::raise(1, AlarmType::Corrupt)).unwrap();
    member.answer(&req::raise(1, AlarmType::Nospace)).unwrap();
    let add = membership::Change::Add(req::member(7, "m7", false));
    let entry = member.next_raw(raft::EntryType::ConfChange, req::conf_change(&add, 1));
    member.apply(&entry).unwrap();
    for request in
        [req::cluster_version("3.6.0"), req::downgrade(Some("3.5.0")), req::attributes(7, "m7")]
    {
        assert_eq!(member.answer(&request), Ok(Reply::Empty), "{request:?}");
    }
    let now = member.machine.cluster().now();
    assert_eq!(now.member(types::MemberId(7)).unwrap().attributes.name, "m7");
}

/// All members must build the same token. Compat: as in etcd, it contains the applied index before
/// the entry, because that of the entry is set later.
#[test]
fn a_simple_token_contains_the_index_before_its_entry() {
    let mut member = member(Setup::default());
    for _ in 0..3 {
        let before = member.applied().0;
        let Ok(Reply::Authenticate(response)) = member.answer(&req::authenticate("alice", "abc"))
        else {
            panic!("alice is not authenticated");
        };
        assert_eq!(response.token, format!("abc.{before}"));
        let auth = member.machine.auth();
        assert_eq!(auth.info_from_token(&response.token).unwrap().username, "alice");
        assert_eq!(auth.index_of_token(&response.token), Ok(Some(before)));
    }
    assert_eq!(member.answer(&req::authenticate("unknown", "abc")), refused(Error::AuthFailed));
    member.answer(&as_user(as_root(&member), &req::auth_disable())).unwrap();
    assert_eq!(member.answer(&req::authenticate("alice", "abc")), refused(Error::AuthNotEnabled));
}
