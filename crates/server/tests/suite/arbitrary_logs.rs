//! Arbitrary entries in the log: no panic, and the state in memory matches the database.

use bytes::Bytes;
use membership::Change;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;
use proto::etcdserverpb::{InternalRaftRequest as Request, TxnRequest};
use proto::raftpb::ConfChange;
use raft::EntryType;
use types::MemberId;

use crate::exercise::{FuzzedMember, Item, Tally, exercise};
use crate::support::arbitrary::request;
use crate::support::{Setup, requests as req};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn entry(request: &Request, waits: bool) -> Item {
    Item::Entry { kind: EntryType::Normal, data: request.encode_to_vec().into(), waits }
}

/// A conf change that can be decoded; its context sometimes cannot.
fn conf_change() -> impl Strategy<Value = Item> {
    let change = (0..5_u64, 0..5_u64, any::<bool>()).prop_flat_map(|(id, host, learner)| {
        let member = req::member(id, &format!("m{host}"), learner);
        let changes = vec![
            Change::Add(member.clone()),
            Change::Promote(MemberId(id)),
            Change::Remove(MemberId(id)),
            Change::Update(member),
        ];
        select(changes)
    });
    let invalid = prop_oneof![
        12 => Just(None),
        1 => Just(Some(ConfChange { r#type: Some(9), ..ConfChange::default() })),
        1 => Just(Some(ConfChange::default())),
    ];
    (change, invalid).prop_map(|(change, invalid)| {
        let change = invalid.unwrap_or_else(|| change.to_conf_change(Some(1)));
        let data = Bytes::from(change.encode_to_vec());
        Item::Entry { kind: EntryType::ConfChange, data, waits: true }
    })
}

fn item() -> impl Strategy<Value = Item> {
    let normal = (request(), prop::bool::weighted(0.8)).prop_map(|(it, waits)| entry(&it, waits));
    prop_oneof![
        20 => normal,
        2 => conf_change(),
        2 => Just(Item::CompactAndCommit),
        1 => Just(Item::Restart),
    ]
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn after_any_request_memory_matches_the_database(items in vec(item(), 1..30)) {
        let mut fuzzed = FuzzedMember::new(Setup::default());
        for item in &items {
            fuzzed.step(item);
            fuzzed.assert_memory_matches_database();
        }
    }

    #[test]
    fn any_bytes_are_applied_refused_or_a_fault(
        data in vec(vec(any::<u8>(), 0..40), 1..20),
        kind in select(&[EntryType::Normal, EntryType::ConfChange, EntryType::ConfChangeV2][..]),
    ) {
        let mut fuzzed = FuzzedMember::new(Setup::default());
        for data in data {
            fuzzed.step(&Item::Entry { kind, data: data.into(), waits: true });
        }
        fuzzed.assert_memory_matches_database();
    }

    /// Nearly valid requests reach more code than random bytes.
    #[test]
    fn damaged_requests_are_applied_refused_or_a_fault(
        requests in vec((request(), any::<prop::sample::Index>(), any::<u8>()), 1..30),
    ) {
        let mut fuzzed = FuzzedMember::new(Setup::default());
        for (request, at, byte) in requests {
            let mut data = request.encode_to_vec();
            if !data.is_empty() {
                let at = at.index(data.len().min(60));
                data[at] = byte;
            }
            fuzzed.step(&Item::Entry { kind: EntryType::Normal, data: data.into(), waits: true });
        }
        fuzzed.assert_memory_matches_database();
    }

    #[test]
    fn any_fuzzer_input_passes_without_a_panic(input in vec(any::<u8>(), 0..200)) {
        exercise(&input);
    }
}

/// Guards the strategies: if most requests were invalid, the other tests would cover little.
#[test]
fn generated_requests_are_applied_refused_and_faults() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sum = Tally::default();
    for _ in 0..30 {
        let mut fuzzed = FuzzedMember::new(Setup::default());
        for item in vec(item(), 30).new_tree(&mut runner).unwrap().current() {
            fuzzed.step(&item);
        }
        sum.applied += fuzzed.tally.applied;
        sum.refused += fuzzed.tally.refused;
        sum.faults += fuzzed.tally.faults;
    }
    assert!(sum.applied > 250 && sum.refused > 150 && sum.faults > 10, "{sum:?}");
}

/// 4,999 nested transactions around a put are the most that Go decodes, and so that an etcd member
/// may have proposed. Deeper nesting is a fault.
#[test]
fn transactions_nest_as_deep_as_in_etcd() {
    let test = || {
        let mut fuzzed = FuzzedMember::new(Setup::default());
        for depth in [1, 49, 50, 256, 4_999, 5_000] {
            fuzzed.step(&entry(&req::txn(nested_put(depth)), true));
        }
        fuzzed.assert_memory_matches_database();
        let Tally { applied, faults, .. } = fuzzed.tally;
        assert_eq!((applied, faults), (5, 1));
        assert_eq!(fuzzed.member().machine.store().current(), 6);
    };
    let thread = std::thread::Builder::new().stack_size(server::STACK_BYTES).spawn(test).unwrap();
    thread.join().unwrap();
}

/// Returns a put within `depth` transactions.
fn nested_put(depth: usize) -> TxnRequest {
    use proto::etcdserverpb::request_op::Request as Op;
    let put = req::txn_of(vec![Op::RequestPut(req::put_request("k", b"v", 0))]);
    (1..depth).fold(put, |txn, _| req::txn_of(vec![Op::RequestTxn(txn)]))
}
