//! Alarms and the quota: what is refused, and what is done all the same.

use backend::schema::Bucket;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{AlarmMember, AlarmType, InternalRaftRequest as Request, TxnRequest};
use server::{Refusal, Reply};
use types::LeaseId;

use crate::support::observe::{buckets, pairs};
use crate::support::{Member, Setup, requests as of};

const NOSPACE: AlarmType = AlarmType::Nospace;
const CORRUPT: AlarmType = AlarmType::Corrupt;

fn put_op() -> Op {
    Op::RequestPut(of::put_request("k", b"v", 0))
}

fn range_op() -> Op {
    Op::RequestRange(of::range("k").range.unwrap())
}

/// A transaction with a put where no comparison leads.
fn put_in_failure() -> TxnRequest {
    TxnRequest { failure: vec![of::op(put_op())], ..TxnRequest::default() }
}

/// A member with a key, a lease and another member.
fn member(setup: Setup) -> Member {
    let mut member = Member::new(setup);
    for request in [of::put("k", b"1", 0), of::put("k", b"2", 0), of::grant(7, 60)] {
        // Without space it says no, and does it.
        let _ = member.answer(&request);
    }
    member
}

/// Interval kind of request that an alarm may have to do with, and what it is refused by: `c` CORRUPT, `s` NOSPACE.
fn requests() -> Vec<(&'static str, &'static str, Request)> {
    let nested = of::txn_of(vec![Op::RequestTxn(put_in_failure())]);
    vec![
        ("range", "c", of::range("k")),
        ("put", "cs", of::put("k", b"3", 0)),
        ("delete", "c", of::delete("k", "")),
        ("txn that puts", "cs", of::txn(of::txn_of(vec![put_op()]))),
        ("txn that could put", "cs", of::txn(put_in_failure())),
        ("txn that could put within", "cs", of::txn(nested)),
        ("txn that reads", "c", of::txn(of::txn_of(vec![range_op()]))),
        ("empty txn", "c", of::txn(TxnRequest::default())),
        ("compaction", "c", of::compact(2)),
        ("grant", "cs", of::grant(8, 60)),
        ("revoke", "c", of::revoke(7)),
        ("checkpoint", "", of::checkpoint(7, 30)),
        ("list of alarms", "", of::alarm(AlarmAction::Get, 0, AlarmType::None)),
        ("another alarm", "", of::raise(9, NOSPACE)),
        ("user", "", of::user_add("alice")),
        ("status of authentication", "", of::auth_status()),
        ("cluster version", "", of::cluster_version("3.7.0")),
        ("downgrade", "", of::downgrade(Some("3.6.0"))),
    ]
}

#[test]
fn an_alarm_refuses_what_it_forbids_and_nothing_else() {
    for (raised, letter, refusal) in
        [(NOSPACE, 's', Refusal::NoSpace), (CORRUPT, 'c', Refusal::Corrupt)]
    {
        for (name, refused_by, request) in requests() {
            let mut member = member(Setup::default());
            member.answer(&of::raise(1, raised)).unwrap();
            let before = member.machine.backend.view();
            let (result, revision) = (member.answer(&request), member.machine.store.current());
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
                let after = pairs(&member.machine.backend.view(), bucket);
                assert_eq!(kept(after), kept(pairs(&before, bucket)), "{name}: {bucket}");
            }
        }
    }
}

#[test]
fn an_alarm_stays_until_it_is_cleared_for_everyone_who_raised_it() {
    let mut member = member(Setup::default());
    let put = of::put("k", b"v", 0);
    for (request, refused) in [
        (of::raise(1, NOSPACE), true),
        (of::raise(2, NOSPACE), true),
        (of::clear(3, NOSPACE), true),
        (of::clear(1, CORRUPT), true),
        (of::clear(1, NOSPACE), true),
        (of::clear(2, NOSPACE), false),
        (of::raise(0, CORRUPT), true),
        (of::raise(2, NOSPACE), true),
        (of::clear(0, CORRUPT), true),
        (of::clear(2, NOSPACE), false),
    ] {
        member.answer(&request).unwrap();
        assert_eq!(member.answer(&put).is_err(), refused, "after {:?}", request.alarm);
        let again = member.reopened().answer(&put);
        assert_eq!(again.is_err(), refused, "after {:?} and a restart", request.alarm);
    }
}

#[test]
fn requests_about_alarms_are_answered_as_in_etcd() {
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
        let Ok(Reply::Alarm(response)) = member.answer(&of::alarm(action, id, kind)) else {
            panic!("{action:?} {id} {kind:?} is answered with something else");
        };
        assert_eq!(response.alarms, wanted, "{action:?} {id} {kind:?}");
        assert_eq!(member.reopened().machine.alarms.get(0), member.machine.alarms.get(0));
    }
}

#[test]
fn an_action_or_a_kind_that_nobody_knows_is_no_reason_to_stop() {
    let mut member = Member::new(Setup::default());
    let mut request = of::raise(1, NOSPACE);
    request.alarm.as_mut().unwrap().action = 77;
    assert_eq!(member.answer(&request), Ok(Reply::Alarm(Default::default())));
    request.alarm.as_mut().unwrap().action = AlarmAction::Activate.into();
    request.alarm.as_mut().unwrap().alarm = -5;
    member.answer(&request).unwrap();
    assert_eq!(member.reopened().machine.alarms.get(0), [AlarmMember { member_id: 1, alarm: -5 }]);
    member.answer(&of::put("k", b"v", 0)).expect("nothing that we know is forbidden");
}

/// What is there to be seen of a request that was carried out.
type Done = fn(&Member) -> bool;

#[test]
fn what_finds_no_space_as_it_is_applied_is_applied() {
    let full = Setup { quota: 1, ..Setup::default() };
    let cases: [(&str, Request, Done); 4] = [
        ("put", of::put("k", b"3", 0), |it| it.machine.store.current() == 4),
        ("txn", of::txn(of::txn_of(vec![put_op()])), |it| it.machine.store.current() == 4),
        ("txn that only could", of::txn(put_in_failure()), |it| it.machine.store.current() == 3),
        ("grant", of::grant(8, 60), |it| it.machine.lessor.contains(LeaseId(8))),
    ];
    for (name, request, done) in cases {
        let mut member = member(full);
        let outcome = member.apply_next(&request);
        assert_eq!(outcome.result, Some(Err(Refusal::NoSpace)), "{name}");
        assert_eq!(outcome.revision, member.machine.store.current(), "{name}");
        assert!(done(&member) && done(&member.reopened()), "{name} was not done");
        let roomy = {
            let mut roomy = self::member(Setup::default());
            roomy.answer(&request).unwrap();
            buckets(&roomy.machine.backend.view())
        };
        assert_eq!(buckets(&member.machine.backend.view()), roomy, "{name}");
        assert_eq!(member.machine.alarms.get(0), [], "raising the alarm is another entry");
    }
}

#[test]
fn what_takes_no_space_needs_none() {
    let mut member = member(Setup { quota: 1, ..Setup::default() });
    for request in [
        of::txn(of::txn_of(vec![range_op()])),
        of::txn(TxnRequest::default()),
        of::delete("k", ""),
        of::compact(2),
        of::revoke(7),
        of::user_add("alice"),
        of::raise(1, NOSPACE),
    ] {
        assert!(member.answer(&request).is_ok(), "{request:?}");
    }
}

/// The quota speaks last: what was refused for another reason took no space.
#[test]
fn a_request_that_fails_otherwise_does_not_say_that_there_is_no_space() {
    let mut member = member(Setup { quota: 1, ..Setup::default() });
    let unknown_lease = Err(Refusal::Keys(mvcc::Error::LeaseNotFound));
    assert_eq!(member.answer(&of::put("k", b"v", 9)), unknown_lease);
    assert_eq!(member.answer(&of::grant(7, 60)), Err(Refusal::Grant(lease::GrantError::Exists)));
}

/// Available is what is less than the quota, with the size that the file has now.
#[test]
fn the_quota_is_held_against_the_size_of_the_file() {
    let request = of::put("key", b"value", 0);
    const COST: i64 = 256 + 3 + 5;
    let size = i64::try_from(Member::new(Setup::default()).machine.backend.size()).unwrap();
    for (quota, wanted) in [(size + COST + 1, true), (size + COST, false), (0, true), (-1, true)] {
        let mut member = Member::new(Setup { quota, ..Setup::default() });
        assert_eq!(member.answer(&request).is_ok(), wanted, "quota {quota}");
    }
}
