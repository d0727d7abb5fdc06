//! Whatever is in the log: no panic, and memory and database agree.

use bytes::Bytes;
use membership::Change;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;
use proto::etcdserverpb::InternalRaftRequest as Request;
use proto::raftpb::ConfChange;
use raft::EntryType;
use types::MemberId;

use crate::exercise::{Item, Life, Tally, exercise};
use crate::support::arbitrary::request;
use crate::support::{Setup, requests as of};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn entry(request: &Request, waits: bool) -> Item {
    Item::Entry { kind: EntryType::Normal, data: request.encode_to_vec().into(), waits }
}

/// A change of members that can be decoded, and what comes with it perhaps not.
fn conf_change() -> impl Strategy<Value = Item> {
    let change = (0..5_u64, 0..5_u64, any::<bool>()).prop_flat_map(|(id, host, learner)| {
        let member = of::member(id, &format!("m{host}"), learner);
        let changes = vec![
            Change::Add(member.clone()),
            Change::Promote(MemberId(id)),
            Change::Remove(MemberId(id)),
            Change::Update(member),
        ];
        select(changes)
    });
    let odd = prop_oneof![
        12 => Just(None),
        1 => Just(Some(ConfChange { r#type: Some(9), ..ConfChange::default() })),
        1 => Just(Some(ConfChange::default())),
    ];
    (change, odd).prop_map(|(change, odd)| {
        let change = odd.unwrap_or_else(|| change.to_conf_change(Some(1)));
        let data = Bytes::from(change.encode_to_vec());
        Item::Entry { kind: EntryType::ConfChange, data, waits: true }
    })
}

fn item() -> impl Strategy<Value = Item> {
    let normal = (request(), prop::bool::weighted(0.8)).prop_map(|(it, waits)| entry(&it, waits));
    prop_oneof![20 => normal, 2 => conf_change(), 2 => Just(Item::Turn), 1 => Just(Item::Restart)]
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn any_request_leaves_memory_and_database_in_agreement(items in vec(item(), 1..30)) {
        let mut life = Life::new(Setup::default());
        for item in &items {
            life.step(item);
            life.assert_agrees();
        }
    }

    #[test]
    fn any_bytes_are_applied_refused_or_told_of(
        data in vec(vec(any::<u8>(), 0..40), 1..20),
        kind in select(&[EntryType::Normal, EntryType::ConfChange, EntryType::ConfChangeV2][..]),
    ) {
        let mut life = Life::new(Setup::default());
        for data in data {
            life.step(&Item::Entry { kind, data: data.into(), waits: true });
        }
        life.assert_agrees();
    }

    /// What is nearly a request gets further than what is none.
    #[test]
    fn damaged_requests_are_applied_refused_or_told_of(
        requests in vec((request(), any::<prop::sample::Index>(), any::<u8>()), 1..30),
    ) {
        let mut life = Life::new(Setup::default());
        for (request, at, byte) in requests {
            let mut data = request.encode_to_vec();
            if !data.is_empty() {
                let at = at.index(data.len().min(60));
                data[at] = byte;
            }
            life.step(&Item::Entry { kind: EntryType::Normal, data: data.into(), waits: true });
        }
        life.assert_agrees();
    }

    #[test]
    fn any_input_of_the_fuzzer_is_survived(input in vec(any::<u8>(), 0..200)) {
        exercise(&input);
    }
}

/// What is made up must get somewhere, or it shows nothing.
#[test]
fn requests_that_are_made_up_are_of_all_sorts() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sum = Tally::default();
    for _ in 0..30 {
        let mut life = Life::new(Setup::default());
        for item in vec(item(), 30).new_tree(&mut runner).unwrap().current() {
            life.step(&item);
        }
        sum.done += life.tally.done;
        sum.refused += life.tally.refused;
        sum.faults += life.tally.faults;
    }
    assert!(sum.done > 250 && sum.refused > 150 && sum.faults > 10, "{sum:?}");
}

/// As deep as any member may have let a transaction be, which is deeper than messages are decoded; and deeper than that.
#[test]
fn transactions_may_be_nested_as_deep_as_etcd_lets_them() {
    use proto::etcdserverpb::request_op::Request as Op;
    let mut life = Life::new(Setup::default());
    let mut txn = of::txn_of(vec![Op::RequestPut(of::put_request("k", b"v", 0))]);
    for _ in 0..260 {
        life.step(&entry(&of::txn(txn.clone()), true));
        txn = of::txn_of(vec![Op::RequestTxn(txn)]);
    }
    life.assert_agrees();
    let Tally { done, faults, .. } = life.tally;
    assert_eq!((done, faults), (256, 4));
    assert_eq!(life.member().machine.store.current(), 1 + i64::try_from(done).unwrap());
}
