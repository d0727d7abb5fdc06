//! Special entries: v2 requests of older members, requests without a waiter, and invalid entries.

use backend::schema::meta;
use membership::{DecodeError, StopError};
use mvcc::OpResult;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest as Request;
use proto::etcdserverpb::request_op::Request as Op;
use raft::EntryType;
use server::{Applied, Fault, Outcome, Reply};
use types::{Index, MemberId, Term};

use crate::support::observe::buckets;
use crate::support::{Member, Observed, Setup, requests as req};

/// A member of a cluster with member 7, from which member 8 was removed.
fn member(setup: Setup) -> Member {
    let mut member = Member::new(setup);
    let changes = [
        membership::Change::Add(req::member(7, "m7", false)),
        membership::Change::Add(req::member(8, "m8", false)),
        membership::Change::Remove(MemberId(8)),
    ];
    for change in changes {
        let entry = member.next_raw(EntryType::ConfChange, req::conf_change(&change, 1));
        assert!(matches!(member.apply(&entry), Ok(Applied::ConfChange { result: Ok(()), .. })));
    }
    member
}

fn v2(method: &str, path: &str, value: &str) -> pb::Request {
    let text = |text: &str| Some(text.to_owned());
    pb::Request {
        id: Some(5),
        method: text(method),
        path: text(path),
        val: text(value),
        // Releases before 3.5 wrote every field.
        dir: Some(false),
        prev_value: text(""),
        prev_index: Some(0),
        expiration: Some(0),
        wait: Some(false),
        since: Some(0),
        recursive: Some(false),
        sorted: Some(false),
        quorum: Some(false),
        time: Some(0),
        stream: Some(false),
        ..pb::Request::default()
    }
}

/// The two encodings of a v2 request in a log: plain up to 3.4, later wrapped.
fn encodings(request: &pb::Request) -> [Vec<u8>; 2] {
    let wrapped = Request { v2: Some(request.clone()), ..Request::default() };
    [request.encode_to_vec(), wrapped.encode_to_vec()]
}

#[test]
fn v2_requests_set_attributes_and_the_cluster_version() {
    let text = r#"{"name":"seven","clientURLs":["http://m7:2379"]}"#;
    for data in encodings(&v2("PUT", "/0/members/7/attributes", text)) {
        let mut member = member(Setup::default());
        let applied = member.apply(&member.next_raw(EntryType::Normal, data)).unwrap();
        let Applied::Request(Outcome { id: 5, result: Some(Ok(Reply::Empty)), .. }) = applied
        else {
            panic!("attributes were applied as {applied:?}");
        };
        let now = member.reopened().machine.cluster().now();
        assert_eq!(now.member(MemberId(7)).unwrap().attributes.name, "seven");
    }
    for data in encodings(&v2("PUT", "/0/version", "3.4.0")) {
        let mut member = member(Setup::default());
        member.apply(&member.next_raw(EntryType::Normal, data)).unwrap();
        let version = member.reopened().machine.cluster().now().version().unwrap();
        assert_eq!((version.major, version.minor), (3, 4));
    }
}

#[test]
fn a_v2_request_writes_the_same_bytes_as_its_v3_successor() {
    let text = r#"{"name":"h1","clientURLs":["http://h1:2379"]}"#;
    for (old, new) in [
        (v2("PUT", "/0/members/7/attributes", text), req::attributes(7, "h1")),
        (v2("PUT", "/0/version", "3.5.0"), req::cluster_version("3.5.0")),
    ] {
        let (mut one, mut other) = (member(Setup::default()), member(Setup::default()));
        let [raw, _wrapped] = encodings(&old);
        one.apply(&one.next_raw(EntryType::Normal, raw)).unwrap();
        other.answer(&new).unwrap();
        Observed::of(&one.machine).assert_same(&Observed::of(&other.machine), &"v2 and v3");
    }
}

#[test]
fn attributes_of_a_removed_member_are_ignored() {
    let mut member = member(Setup::default());
    let before = buckets(&member.machine.backend().view())["members"].clone();
    assert_eq!(member.answer(&req::attributes(8, "eight")), Ok(Reply::Empty));
    assert_eq!(buckets(&member.machine.backend().view())["members"], before);
}

#[test]
fn the_outcome_reports_a_lowered_cluster_version() {
    let mut member = Member::new(Setup::default());
    for (version, lowered) in
        [("3.6.0", false), ("3.7.0", false), ("3.7.0", false), ("3.6.0", true), ("3.6.0", false)]
    {
        let outcome = member.apply_next(&req::cluster_version(version));
        assert_eq!(outcome.version_lowered, lowered, "{version}");
    }
}

#[test]
fn reads_without_a_waiter_are_skipped() {
    let no_waiter = Setup { waits: false, ..Setup::default() };
    for (request, skipped) in [
        (req::range("k"), true),
        (req::user_get("alice"), true),
        (req::role_get("ops"), true),
        (req::auth_status(), true),
        (req::user_list(), false),
        (req::delete("k", ""), false),
        (req::txn(pb::TxnRequest::default()), false),
        (req::authenticate("alice", "t"), false),
    ] {
        let mut member = Member::new(no_waiter);
        let entry = member.next(&request);
        let Applied::Request(outcome) = member.apply(&entry).unwrap() else {
            panic!("{request:?} was not applied as a request");
        };
        assert_eq!(outcome.result.is_none(), skipped, "{request:?}");
        assert_eq!(member.reopened().applied(), (entry.index, entry.term), "{request:?}");
    }
}

#[test]
fn ranges_in_a_transaction_without_a_waiter_read_nothing() {
    let range = || Op::RequestRange(req::range("k").range.unwrap());
    let put = Op::RequestPut(req::put_request("k", b"2", 0));
    let txn = req::txn(req::txn_of(vec![range(), put, range()]));
    let counts = |waits| {
        let mut member = Member::new(Setup { waits, ..Setup::default() });
        member.apply_next(&req::put("k", b"1", 0));
        let Some(Ok(Reply::Txn(txn))) = member.apply_next(&txn).result else {
            panic!("the transaction was not applied");
        };
        let count = |response: &OpResult| match response {
            OpResult::Range(range) => (range.revision, range.kvs.len()),
            _ => (0, 0),
        };
        let counts: Vec<_> = txn.responses.iter().map(count).collect();
        (counts, buckets(&member.machine.backend().view()))
    };
    let (with_waiter, no_waiter) = (counts(true), counts(false));
    assert_eq!(with_waiter.0, [(2, 1), (0, 0), (3, 1)]);
    assert_eq!(no_waiter.0, [(2, 0), (0, 0), (3, 0)]);
    assert_eq!(with_waiter.1, no_waiter.1, "the database differs without a waiter");
}

#[test]
fn the_request_id_comes_from_the_request_or_its_header() {
    let header = |id| Some(pb::RequestHeader { id, ..pb::RequestHeader::default() });
    for (id, header, wanted) in [(0, header(7), 7), (9, None, 9), (9, header(7), 9), (0, None, 0)] {
        let mut member = Member::new(Setup::default());
        let request = Request { id, header, ..req::range("k") };
        assert_eq!(member.apply_next(&request).id, wanted);
        let asked = std::cell::Cell::new(None);
        let waits = |id| {
            asked.set(Some(id));
            false
        };
        let entry = member.next(&request);
        member.machine.apply(&entry, &waits, &mut member.voters).unwrap();
        assert_eq!(asked.get(), Some(wanted));
    }
}

#[test]
fn an_empty_entry_advances_the_applied_index_and_term() {
    let mut member = member(Setup::default());
    let mut entry = member.next_raw(EntryType::Normal, Vec::new());
    entry.term = Term(9);
    assert!(matches!(member.apply(&entry), Ok(Applied::Empty)));
    assert_eq!(member.reopened().applied(), (Index(4), Term(9)));
    assert!(matches!(member.apply(&entry), Ok(Applied::AlreadyApplied)));
}

/// Tells whether a fault is the expected one.
type IsExpected = fn(&Fault) -> bool;

/// An invalid entry stops the member, which leaves its database unchanged.
#[test]
fn an_invalid_entry_is_a_fault_and_changes_nothing() {
    let v2_get = v2("GET", "/0/version", "");
    let conf_change = |change: &membership::Change, id| {
        let mut change = change.to_conf_change(Some(1));
        change.node_id = Some(id);
        change.encode_to_vec()
    };
    let add = membership::Change::Add(req::member(9, "m9", false));
    let unknown_kind = proto::raftpb::ConfChange { r#type: Some(44), ..Default::default() };
    let is_unknown: IsExpected = |fault| matches!(fault, Fault::Unknown(Index(4)));
    let is_decode: IsExpected = |fault| matches!(fault, Fault::Decode { index: Index(4), .. });
    let is_kind: IsExpected = |fault| matches!(fault, Fault::UnknownKind(Index(4)));
    let is_membership: IsExpected =
        |fault| matches!(fault, Fault::Membership(StopError::Decode(_)));
    let is_v2: IsExpected = |fault| {
        let Fault::Membership(StopError::Decode(error)) = fault else { return false };
        matches!(error, DecodeError::V2Request { .. })
    };
    let is_unknown_member: IsExpected =
        |fault| matches!(fault, Fault::Membership(StopError::UnknownMember(MemberId(9))));
    let is_newer: IsExpected =
        |fault| matches!(fault, Fault::Membership(StopError::Incompatible(_)));
    let normal = EntryType::Normal;
    let cases: Vec<(&str, EntryType, Vec<u8>, IsExpected)> = vec![
        ("empty request", normal, empty_request(), is_unknown),
        ("not a message", normal, vec![0xff; 9], is_decode),
        ("truncated put", normal, truncated(&req::put("k", b"value", 0)), is_decode),
        ("v2 GET", normal, encodings(&v2_get)[0].clone(), is_v2),
        ("v2 GET, wrapped", normal, encodings(&v2_get)[1].clone(), is_v2),
        (
            "attributes of an unknown member",
            normal,
            req::attributes(9, "m9").encode_to_vec(),
            is_unknown_member,
        ),
        ("newer cluster version", normal, req::cluster_version("3.8.0").encode_to_vec(), is_newer),
        (
            "invalid cluster version",
            normal,
            req::cluster_version("three").encode_to_vec(),
            is_membership,
        ),
        (
            "invalid downgrade version",
            normal,
            req::downgrade(Some("x")).encode_to_vec(),
            is_membership,
        ),
        ("not a conf change", EntryType::ConfChange, vec![0xff; 9], is_decode),
        (
            "conf change with a different node id",
            EntryType::ConfChange,
            conf_change(&add, 10),
            is_membership,
        ),
        (
            "conf change of an unknown type",
            EntryType::ConfChange,
            unknown_kind.encode_to_vec(),
            is_membership,
        ),
        ("empty conf change v2", EntryType::ConfChangeV2, Vec::new(), is_kind),
        ("conf change as v2", EntryType::ConfChangeV2, conf_change(&add, 9), is_kind),
    ];
    for (name, kind, data, is_expected) in cases {
        let mut member = member(Setup::default());
        let before = (member.machine.backend().view(), Observed::of(&member.machine));
        let recorded = member.voters.changes.len();
        let fault = member.apply(&member.next_raw(kind, data)).expect_err(name);
        assert!(is_expected(&fault), "{name}: {fault:?}");
        let view = member.machine.backend().view();
        assert_eq!(view.sequence(), before.0.sequence(), "{name}");
        assert_eq!(buckets(&view), buckets(&before.0), "{name}");
        assert_eq!(member.voters.changes.len(), recorded, "{name}: reached consensus");
        Observed::of(&member.machine).assert_same(&before.1, &name);
        Observed::of(&member.reopened().machine).assert_same(&before.1, &name);
    }
}

fn empty_request() -> Vec<u8> {
    let header = Some(pb::RequestHeader { id: 7, ..pb::RequestHeader::default() });
    Request { header, ..Request::default() }.encode_to_vec()
}

fn truncated(request: &Request) -> Vec<u8> {
    let mut data = request.encode_to_vec();
    data.truncate(data.len() - 2);
    data
}

#[test]
fn a_conf_change_saves_the_conf_state() {
    let member = member(Setup::default());
    let conf = meta::conf_state(&member.machine.backend().view()).unwrap().unwrap();
    assert_eq!((conf.voters, conf.learners), (vec![7], vec![]));
}

/// No entry may be missing, not even one that changes nothing.
#[test]
fn a_gap_in_the_log_stops_the_member() {
    let mut member = member(Setup::default());
    let first = member.next(&req::put("a", b"1", 0));
    assert!(matches!(member.apply(&first), Ok(Applied::Request(_))));
    let before = buckets(&member.machine.backend().view());
    let skipped = member.next(&req::put("a", b"2", 0)).index;
    let mut late = member.next(&req::put("a", b"3", 0));
    late.index = skipped.next();
    let fault = member.apply(&late).unwrap_err();
    assert!(
        matches!(fault, Fault::Gap { expected, found } if (expected, found) == (skipped, late.index)),
        "{fault}"
    );
    assert_eq!(buckets(&member.machine.backend().view()), before);
    // An entry that is already applied is skipped, and the next one is applied.
    assert!(matches!(member.apply(&first), Ok(Applied::AlreadyApplied)));
    let next = member.next(&req::put("a", b"2", 0));
    assert!(matches!(member.apply(&next), Ok(Applied::Request(_))));
}

#[test]
fn a_database_of_a_newer_cluster_version_is_not_opened() {
    use backend::schema::{cluster, version::Version};
    let disk = env::SimDisk::new(0);
    let open = || {
        let clock = std::sync::Arc::new(env::SimClock::default());
        let (disk, config) = (std::sync::Arc::new(disk.clone()), backend::Config::default());
        backend::Backend::open(disk, clock, "db".as_ref(), config).unwrap()
    };
    let backend = open();
    let mut tx = backend.begin();
    cluster::set_version(&mut tx, Version::new(3, 8));
    tx.commit().unwrap();
    let before = buckets(&backend.view());
    backend.close().unwrap();
    assert!(Member::open(&disk, Setup::default()).is_err());
    let backend = open();
    assert_eq!(buckets(&backend.view()), before);
}
