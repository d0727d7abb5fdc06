//! Alarms and the quota: which requests they refuse, and which are applied nevertheless.

use backend::schema::Bucket;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{AlarmMember, AlarmType, InternalRaftRequest as Request, TxnRequest};
use server::{Refusal, Reply};
use types::LeaseId;

use crate::support::observe::{buckets, pairs};
use crate::support::{Member, Setup, requests as req};

const NOSPACE: AlarmType = AlarmType::Nospace;
const CORRUPT: AlarmType = AlarmType::Corrupt;

fn put_op() -> Op {
    Op::RequestPut(req::put_request("k", b"v", 0))
}

fn range_op() -> Op {
    Op::RequestRange(req::range("k").range.unwrap())
}

/// A transaction with a put only in the branch that is not taken.
fn put_in_failure() -> TxnRequest {
    TxnRequest { failure: vec![req::op(put_op())], ..TxnRequest::default() }
}

/// A member with a key and a lease.
fn member(setup: Setup) -> Member {
    let mut member = Member::new(setup);
    for request in [req::put("k", b"1", 0), req::put("k", b"2", 0), req::grant(7, 60)] {
        // With a full quota the reply is a refusal, but the request is applied.
        let _ = member.answer(&request);
    }
    member
}

/// Requests by name, each with the alarms that refuse it: `c` CORRUPT, `s` NOSPACE.
fn requests() -> Vec<(&'static str, &'static str, Request)> {
    let nested = req::txn_of(vec![Op::RequestTxn(put_in_failure())]);
    vec![
        ("range", "c", req::range("k")),
        ("put", "cs", req::put("k", b"3", 0)),
        ("delete", "c", req::delete("k", "")),
        ("txn that puts", "cs", req::txn(req::txn_of(vec![put_op()]))),
        ("txn with a put in the other branch", "cs", req::txn(put_in_failure())),
        ("txn with a nested put", "cs", req::txn(nested)),
        ("txn that reads", "c", req::txn(req::txn_of(vec![range_op()]))),
        ("empty txn", "c", req::txn(TxnRequest::default())),
        ("compaction", "c", req::compact(2)),
        ("grant", "cs", req::grant(8, 60)),
        ("revoke", "c", req::revoke(7)),
        ("checkpoint", "", req::checkpoint(7, 30)),
        ("list alarms", "", req::alarm(AlarmAction::Get, 0, AlarmType::None)),
        ("raise an alarm", "", req::raise(9, NOSPACE)),
        ("add a user", "", req::user_add("alice")),
        ("auth status", "", req::auth_status()),
        ("cluster version", "", req::cluster_version("3.7.0")),
        ("downgrade", "", req::downgrade(Some("3.6.0"))),
    ]
}

#[test]
fn an_alarm_refuses_only_the_requests_it_forbids() {
    for (raised, letter, refusal) in
        [(NOSPACE, 's', Refusal::NoSpace), (CORRUPT, 'c', Refusal::Corrupt)]
    {
        for (name, refused_by, request) in requests() {
            let mut member = member(Setup::default());
            member.answer(&req::raise(1, raised)).unwrap();
            let before = member.machine.backend().view();
            let (result, revision) = (member.answer(&request), member.machine.store().current());
            if !refused_by.contains(letter) {
                assert!(result.is_ok(), "{name} while {raised:?}: {result:?}");
                continue;
            }
            assert_eq!(result, Err(refusal.clone()), "{name} while {raised:?}");
            assert_eq!(revision, 3, "{name} while {raised:?}");
            for bucket in [Bucket::Key, Bucket::Lease, Bucket::Meta] {
                let kept = |pairs: crate::support::observe::Pairs| -> Vec<_> {
                    pairs.into_iter().filter(|(key, _)| key != b"consistent_index").collect()
                };
                let after = pairs(&member.machine.backend().view(), bucket);
                assert_eq!(kept(after), kept(pairs(&before, bucket)), "{name}: {bucket}");
            }
        }
    }
}

#[test]
fn an_alarm_refuses_requests_until_it_is_cleared_for_every_member() {
    let mut member = member(Setup::default());
    let put = req::put("k", b"v", 0);
    for (request, refused) in [
        (req::raise(1, NOSPACE), true),
        (req::raise(2, NOSPACE), true),
        (req::clear(3, NOSPACE), true),
        (req::clear(1, CORRUPT), true),
        (req::clear(1, NOSPACE), true),
        (req::clear(2, NOSPACE), false),
        (req::raise(0, CORRUPT), true),
        (req::raise(2, NOSPACE), true),
        (req::clear(0, CORRUPT), true),
        (req::clear(2, NOSPACE), false),
    ] {
        member.answer(&request).unwrap();
        assert_eq!(member.answer(&put).is_err(), refused, "after {:?}", request.alarm);
        let again = member.reopened().answer(&put);
        assert_eq!(again.is_err(), refused, "after {:?} and a restart", request.alarm);
    }
}

#[test]
fn alarm_requests_return_the_alarms_that_etcd_returns() {
    use AlarmAction::{Activate, Deactivate, Get};
    const NONE: AlarmType = AlarmType::None;
    let alarm = |member_id, alarm: AlarmType| AlarmMember { member_id, alarm: alarm.into() };
    let mut member = Member::new(Setup::default());
    let cases = [
        ((Get, 0, NONE), vec![]),
        ((Activate, 1, NOSPACE), vec![alarm(1, NOSPACE)]),
        ((Activate, 1, NOSPACE), vec![alarm(1, NOSPACE)]),
        ((Activate, 2, CORRUPT), vec![alarm(2, CORRUPT)]),
        ((Activate, 0, CORRUPT), vec![alarm(0, CORRUPT)]),
        ((Activate, 3, NONE), vec![]),
        ((Get, 0, NONE), vec![alarm(1, NOSPACE), alarm(0, CORRUPT), alarm(2, CORRUPT)]),
        ((Get, 9, NOSPACE), vec![alarm(1, NOSPACE)]),
        ((Deactivate, 2, NOSPACE), vec![]),
        ((Deactivate, 1, NONE), vec![]),
        ((Deactivate, 2, CORRUPT), vec![alarm(2, CORRUPT)]),
        ((Get, 0, CORRUPT), vec![alarm(0, CORRUPT)]),
    ];
    for ((action, id, kind), wanted) in cases {
        let Ok(Reply::Alarm(response)) = member.answer(&req::alarm(action, id, kind)) else {
            panic!("unexpected reply to {action:?} {id} {kind:?}");
        };
        assert_eq!(response.alarms, wanted, "{action:?} {id} {kind:?}");
        assert_eq!(member.reopened().machine.alarms().get(0), member.machine.alarms().get(0));
    }
}

#[test]
fn unknown_alarm_actions_and_types_do_not_stop_the_member() {
    let mut member = Member::new(Setup::default());
    let mut request = req::raise(1, NOSPACE);
    request.alarm.as_mut().unwrap().action = 77;
    assert_eq!(member.answer(&request), Ok(Reply::Alarm(Default::default())));
    request.alarm.as_mut().unwrap().action = AlarmAction::Activate.into();
    request.alarm.as_mut().unwrap().alarm = -5;
    member.answer(&request).unwrap();
    assert_eq!(
        member.reopened().machine.alarms().get(0),
        [AlarmMember { member_id: 1, alarm: -5 }]
    );
    member.answer(&req::put("k", b"v", 0)).expect("an unknown alarm refuses no puts");
}

/// Tells whether a request was applied.
type IsApplied = fn(&Member) -> bool;

#[test]
fn a_request_beyond_the_quota_is_refused_but_applied() {
    let full = Setup { quota: 1, ..Setup::default() };
    let cases: [(&str, Request, IsApplied); 4] = [
        ("put", req::put("k", b"3", 0), |it| it.machine.store().current() == 4),
        ("txn", req::txn(req::txn_of(vec![put_op()])), |it| it.machine.store().current() == 4),
        ("txn with a put in the other branch", req::txn(put_in_failure()), |it| {
            it.machine.store().current() == 3
        }),
        ("grant", req::grant(8, 60), |it| it.machine.lessor().contains(LeaseId(8))),
    ];
    for (name, request, is_applied) in cases {
        let mut member = member(full);
        let outcome = member.apply_next(&request);
        assert_eq!(outcome.result, Some(Err(Refusal::NoSpace)), "{name}");
        assert_eq!(outcome.revision, member.machine.store().current(), "{name}");
        assert!(is_applied(&member) && is_applied(&member.reopened()), "{name} was not applied");
        let unlimited = {
            let mut unlimited = self::member(Setup::default());
            unlimited.answer(&request).unwrap();
            buckets(&unlimited.machine.backend().view())
        };
        assert_eq!(buckets(&member.machine.backend().view()), unlimited, "{name}");
        assert_eq!(member.machine.alarms().get(0), [], "the alarm is raised by another entry");
    }
}

#[test]
fn requests_that_need_no_space_pass_a_full_quota() {
    let mut member = member(Setup { quota: 1, ..Setup::default() });
    for request in [
        req::txn(req::txn_of(vec![range_op()])),
        req::txn(TxnRequest::default()),
        req::delete("k", ""),
        req::compact(2),
        req::revoke(7),
        req::user_add("alice"),
        req::raise(1, NOSPACE),
    ] {
        assert!(member.answer(&request).is_ok(), "{request:?}");
    }
}

/// The quota is checked last: a request refused for another reason takes no space.
#[test]
fn other_refusals_take_precedence_over_the_quota() {
    let mut member = member(Setup { quota: 1, ..Setup::default() });
    let unknown_lease = Err(Refusal::Keys(mvcc::Error::LeaseNotFound));
    assert_eq!(member.answer(&req::put("k", b"v", 9)), unknown_lease);
    assert_eq!(member.answer(&req::grant(7, 60)), Err(Refusal::Grant(lease::GrantError::Exists)));
}

/// A request passes if the current size of the file and its cost together are below the quota.
#[test]
fn the_quota_is_compared_with_the_size_of_the_file_and_the_cost() {
    let request = req::put("key", b"value", 0);
    const COST: i64 = 256 + 3 + 5;
    let size = i64::try_from(Member::new(Setup::default()).machine.backend().size()).unwrap();
    for (quota, wanted) in [(size + COST + 1, true), (size + COST, false), (0, true), (-1, true)] {
        let mut member = Member::new(Setup { quota, ..Setup::default() });
        assert_eq!(member.answer(&request).is_ok(), wanted, "quota {quota}");
    }
}
