//! Conf changes: an applied one updates the voters; a refused one reaches consensus with node id 0.

use backend::schema::meta;
use membership::{Change, ConfChangeRefusal};
use raft::EntryType;
use server::Applied;
use types::MemberId;

use crate::support::observe::buckets;
use crate::support::{Member, Setup, requests as req};

/// A member of a cluster with voters 1 and 2 and learner 3, from which 4 was removed.
fn member() -> Member {
    let mut member = Member::new(Setup::default());
    let changes = [
        Change::Add(req::member(1, "m1", false)),
        Change::Add(req::member(2, "m2", false)),
        Change::Add(req::member(3, "m3", true)),
        Change::Add(req::member(4, "m4", false)),
        Change::Remove(MemberId(4)),
    ];
    for change in changes {
        let (result, _) = apply(&mut member, &change);
        result.unwrap();
    }
    member
}

fn apply(
    member: &mut Member,
    change: &Change,
) -> (Result<(), ConfChangeRefusal>, Option<MemberId>) {
    let entry = member.next_raw(EntryType::ConfChange, req::conf_change(change, 77));
    match member.apply(&entry).unwrap() {
        Applied::ConfChange { id: 77, result, removed } => (result, removed),
        other => panic!("{change:?} was applied as {other:?}"),
    }
}

#[test]
fn an_accepted_conf_change_reaches_consensus_and_the_database() {
    let cases = [
        (Change::Add(req::member(5, "m5", false)), &[1_u64, 2, 5][..], &[3_u64][..], None),
        (Change::Promote(MemberId(3)), &[1, 2, 3], &[], None),
        (Change::Remove(MemberId(2)), &[1], &[3], Some(2)),
        (Change::Remove(MemberId(1)), &[2], &[3], Some(1)),
        (Change::Remove(MemberId(3)), &[1, 2], &[], Some(3)),
        (Change::Update(req::member(2, "elsewhere", false)), &[1, 2], &[3], None),
    ];
    for (change, voters, learners, removed) in cases {
        let mut member = member();
        assert_eq!(apply(&mut member, &change), (Ok(()), removed.map(MemberId)), "{change:?}");
        let (index, recorded) = member.voters.changes.last().unwrap().clone();
        assert_eq!((index, recorded), (member.applied().0, change.to_conf_change(Some(77))));
        let again = member.reopened();
        let conf = meta::conf_state(&again.machine.backend().view()).unwrap().unwrap();
        assert_eq!((&conf.voters[..], &conf.learners[..]), (voters, learners), "{change:?}");
        assert_eq!(again.machine.cluster().now(), member.machine.cluster().now(), "{change:?}");
    }
}

#[test]
fn a_refused_conf_change_reaches_consensus_with_node_id_zero() {
    let cases = [
        (Change::Add(req::member(1, "new", false)), ConfChangeRefusal::IdExists),
        (Change::Add(req::member(4, "new", false)), ConfChangeRefusal::IdRemoved),
        (Change::Add(req::member(5, "m1", false)), ConfChangeRefusal::PeerUrlExists),
        (Change::Add(req::member(5, "m5", true)), ConfChangeRefusal::TooManyLearners),
        (Change::Promote(MemberId(1)), ConfChangeRefusal::MemberNotLearner),
        (Change::Promote(MemberId(9)), ConfChangeRefusal::IdNotFound),
        (Change::Remove(MemberId(9)), ConfChangeRefusal::IdNotFound),
        (Change::Remove(MemberId(4)), ConfChangeRefusal::IdRemoved),
        (Change::Update(req::member(2, "m1", false)), ConfChangeRefusal::PeerUrlExists),
        (Change::Update(req::member(9, "m9", false)), ConfChangeRefusal::IdNotFound),
    ];
    for (change, refused) in cases {
        let mut member = member();
        let mut before = buckets(&member.machine.backend().view());
        let known = member.machine.cluster().now();
        assert_eq!(apply(&mut member, &change), (Err(refused), None), "{change:?}");
        let (index, recorded) = member.voters.changes.last().unwrap().clone();
        let mut ignored = change.to_conf_change(Some(77));
        ignored.node_id = Some(0);
        assert_eq!((index, recorded), (member.applied().0, ignored), "{change:?}");
        assert_eq!(member.machine.cluster().now(), known, "{change:?}");
        // Only the consistent index is written, not the conf state.
        let mut after = buckets(&member.machine.backend().view());
        for side in [&mut before, &mut after] {
            let meta = side.get_mut("meta").unwrap();
            meta.retain(|(key, _)| key != meta::CONSISTENT_INDEX);
        }
        assert_eq!(after, before, "{change:?}");
        assert_eq!(member.applied().0, types::Index(6));
    }
}

#[test]
fn a_refused_first_conf_change_does_not_save_the_conf_state() {
    let mut member = Member::new(Setup::default());
    let (result, _) = apply(&mut member, &Change::Remove(MemberId(1)));
    assert_eq!(result, Err(ConfChangeRefusal::IdNotFound));
    assert_eq!(meta::conf_state(&member.machine.backend().view()).unwrap(), None);
    assert_eq!(member.voters.changes.len(), 1);
}
