//! Who may do what as an entry is applied, and in which order things are asked.

use auth::Error;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{AlarmType, InternalRaftRequest as Request, RequestHeader, TxnRequest};
use server::{Refusal, Reply};

use crate::support::member::{as_root, header};
use crate::support::{Member, Setup, requests as of};

/// With users root and alice, who may read and write from `a` to `c`; enabled.
fn member(setup: Setup) -> Member {
    let mut member = Member::new(setup);
    for request in [
        of::put("a", b"1", 0),
        of::put("x", b"1", 0),
        of::grant(7, 60),
        of::put("x", b"2", 7),
        of::user_add("root"),
        of::user_grant_role("root", "root"),
        of::user_add("alice"),
        of::role_add("ops"),
        of::role_add("web"),
        of::role_grant("ops", "a", "c"),
        of::user_grant_role("alice", "ops"),
        of::auth_enable(),
    ] {
        // Without space some of it says no, and does it.
        let _ = member.answer(&request);
    }
    assert!(member.machine.auth.enabled());
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
        |op| Op::RequestTxn(TxnRequest { failure: vec![of::op(op)], ..of::txn_of(vec![]) });
    of::txn(of::txn_of(vec![within(within(op))]))
}

#[test]
fn alice_may_do_what_her_roles_allow() {
    let put = |key| Op::RequestPut(of::put_request(key, b"v", 0));
    let leased = Op::RequestPut(of::put_request("a", b"v", 7));
    for (request, allowed) in [
        (of::put("a", b"v", 0), true),
        (of::put("c", b"v", 0), false),
        (of::put("a", b"v", 7), false),
        (of::range("b"), true),
        (of::range("x"), false),
        (of::delete("a", "c"), true),
        (of::delete("a", "d"), false),
        (of::txn(of::txn_of(vec![put("a")])), true),
        (of::txn(of::txn_of(vec![put("a"), put("x")])), false),
        (nested(put("b")), true),
        (nested(put("x")), false),
        (nested(leased), false),
        (of::revoke(7), false),
        (of::grant(8, 60), true),
        (of::compact(2), true),
        (of::raise(1, AlarmType::Nospace), true),
        (of::user_get("alice"), true),
        (of::user_get("root"), false),
        (of::role_get("ops"), true),
        (of::role_get("web"), false),
        (of::user_list(), false),
        (of::user_add("bob"), false),
        (of::auth_disable(), false),
        (of::auth_status(), true),
        (of::authenticate("alice", "t"), true),
    ] {
        let mut member = member(Setup::default());
        let before = (member.machine.store.current(), member.machine.auth.revision());
        let result = member.answer(&as_user(header(&member, "alice"), &request));
        if allowed {
            assert!(result.is_ok(), "{request:?}: {result:?}");
            continue;
        }
        assert_eq!(result, refused(Error::PermissionDenied), "{request:?}");
        let after = (member.machine.store.current(), member.machine.auth.revision());
        assert_eq!(after, before, "{request:?}");
        let by_root = member.answer(&as_user(as_root(&member), &request));
        assert!(by_root.is_ok(), "{request:?} by root: {by_root:?}");
    }
}

/// Users and roles may change between a request's being authenticated and its being applied.
#[test]
fn what_was_authenticated_before_a_change_is_refused_after_it() {
    let mut member = member(Setup::default());
    let revision = member.machine.auth.revision();
    let put = of::put("a", b"v", 0);
    let at = |user: &str, auth_revision| {
        Some(RequestHeader { id: 1, username: user.to_owned(), auth_revision })
    };
    for (header, wanted) in [
        (at("root", revision), None),
        (at("root", revision - 1), Some(Error::AuthOldRevision)),
        (at("alice", revision - 1), Some(Error::AuthOldRevision)),
        (at("alice", 0), Some(Error::UserEmpty)),
        (at("", revision), Some(Error::PermissionDenied)),
        (at("nobody", revision), Some(Error::PermissionDenied)),
        (None, Some(Error::UserEmpty)),
        (at("alice", revision + 1), None),
        (at("alice", u64::MAX), None),
    ] {
        let result = member.answer(&as_user(header.clone(), &put)).err();
        assert_eq!(result, wanted.map(Refusal::Auth), "{header:?}");
    }
    let before = header(&member, "alice");
    member.answer(&as_user(as_root(&member), &of::user_add("bob"))).unwrap();
    assert_eq!(member.answer(&as_user(before, &put)), refused(Error::AuthOldRevision));
}

/// Changes of users are for the role root as it is now: of which revision the request is does not matter, as in etcd.
#[test]
fn changes_of_users_are_for_the_role_root() {
    let mut member = member(Setup::default());
    let at = |user: &str, auth_revision| {
        Some(RequestHeader { id: 1, username: user.to_owned(), auth_revision })
    };
    for (header, wanted) in [
        (None, Err(Error::UserEmpty)),
        (at("", 99), Err(Error::UserEmpty)),
        (at("nobody", 99), Err(Error::UserNotFound)),
        (at("alice", 99), Err(Error::PermissionDenied)),
        (at("root", 0), Ok(())),
    ] {
        let result = member.answer(&as_user(header.clone(), &of::role_add("new")));
        assert_eq!(result.map(drop), wanted.map_err(Refusal::Auth), "{header:?}");
    }
}

/// Corrupt before no space before rights before the quota; each is seen once the one before it is gone.
#[test]
fn checks_come_in_etcds_order() {
    let mut member = member(Setup { quota: 1, ..Setup::default() });
    let put = of::put("x", b"v", 99);
    let by_alice = |member: &Member| as_user(header(member, "alice"), &put);
    member.answer(&of::raise(1, AlarmType::Nospace)).unwrap();
    member.answer(&of::raise(1, AlarmType::Corrupt)).unwrap();
    assert_eq!(member.answer(&by_alice(&member)), Err(Refusal::Corrupt));
    member.answer(&of::clear(1, AlarmType::Corrupt)).unwrap();
    assert_eq!(member.answer(&by_alice(&member)), Err(Refusal::NoSpace));
    member.answer(&of::clear(1, AlarmType::Nospace)).unwrap();
    assert_eq!(member.answer(&by_alice(&member)), refused(Error::PermissionDenied));
    let by_root = as_user(as_root(&member), &put);
    assert_eq!(member.answer(&by_root), Err(Refusal::Keys(mvcc::Error::LeaseNotFound)));
    assert_eq!(member.machine.store.current(), 4, "nothing of it was done");
    let good = as_user(as_root(&member), &of::put("x", b"v", 0));
    assert_eq!(member.answer(&good), Err(Refusal::NoSpace), "and it was done:");
    assert_eq!(member.machine.store.current(), 5);
}

/// What members publish about themselves is asked of nobody.
#[test]
fn what_members_publish_needs_no_rights_and_no_alarm_forbids_it() {
    let mut member = member(Setup::default());
    member.answer(&of::raise(1, AlarmType::Corrupt)).unwrap();
    member.answer(&of::raise(1, AlarmType::Nospace)).unwrap();
    let add = membership::Change::Add(of::member(7, "m7", false));
    let entry = member.next_raw(raft::EntryType::ConfChange, of::conf_change(&add, 1));
    member.apply(&entry).unwrap();
    for request in
        [of::cluster_version("3.6.0"), of::downgrade(Some("3.5.0")), of::attributes(7, "m7")]
    {
        assert_eq!(member.answer(&request), Ok(Reply::Empty), "{request:?}");
    }
    let now = member.machine.cluster.now();
    assert_eq!(now.member(types::MemberId(7)).unwrap().attributes.name, "m7");
}

/// All members make the same token, and etcd's take the index that was applied before: the entry's own is not yet.
#[test]
fn a_token_carries_the_index_of_the_entry_before() {
    let mut member = member(Setup::default());
    for _ in 0..3 {
        let before = member.applied().0;
        let Ok(Reply::Authenticate(response)) = member.answer(&of::authenticate("alice", "abc"))
        else {
            panic!("alice is not let in");
        };
        assert_eq!(response.token, format!("abc.{before}"));
        let auth = &member.machine.auth;
        assert_eq!(auth.info_from_token(&response.token).unwrap().username, "alice");
        assert_eq!(auth.index_of_token(&response.token), Ok(Some(before)));
    }
    assert_eq!(member.answer(&of::authenticate("nobody", "abc")), refused(Error::AuthFailed));
    member.answer(&as_user(as_root(&member), &of::auth_disable())).unwrap();
    assert_eq!(member.answer(&of::authenticate("alice", "abc")), refused(Error::AuthNotEnabled));
}
