//! Entries that are no ordinary requests: those of older members, those for which nobody waits, and those that make no sense.

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
use crate::support::{Member, Observed, Setup, requests as of};

/// With member 7, which is there, and member 8, which was.
fn member(setup: Setup) -> Member {
    let mut member = Member::new(setup);
    let changes = [
        membership::Change::Add(of::member(7, "m7", false)),
        membership::Change::Add(of::member(8, "m8", false)),
        membership::Change::Remove(MemberId(8)),
    ];
    for change in changes {
        let entry = member.next_raw(EntryType::ConfChange, of::conf_change(&change, 1));
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

/// A request to the v2 store in both ways in which it stands in logs: alone up to 3.4, and wrapped.
fn both_ways(request: &pb::Request) -> [Vec<u8>; 2] {
    let wrapped = Request { v2: Some(request.clone()), ..Request::default() };
    [request.encode_to_vec(), wrapped.encode_to_vec()]
}

#[test]
fn requests_to_the_v2_store_in_old_logs_are_taken_as_what_they_mean() {
    let text = r#"{"name":"seven","clientURLs":["http://m7:2379"]}"#;
    for data in both_ways(&v2("PUT", "/0/members/7/attributes", text)) {
        let mut member = member(Setup::default());
        let applied = member.apply(&member.next_raw(EntryType::Normal, data)).unwrap();
        let Applied::Request(Outcome { id: 5, result: Some(Ok(Reply::Empty)), .. }) = applied
        else {
            panic!("attributes came to {applied:?}");
        };
        let now = member.reopened().machine.cluster.now();
        assert_eq!(now.member(MemberId(7)).unwrap().attributes.name, "seven");
    }
    for data in both_ways(&v2("PUT", "/0/version", "3.4.0")) {
        let mut member = member(Setup::default());
        member.apply(&member.next_raw(EntryType::Normal, data)).unwrap();
        let version = member.reopened().machine.cluster.now().version().unwrap();
        assert_eq!((version.major, version.minor), (3, 4));
    }
}

/// The same as the requests of today.
#[test]
fn a_v2_request_leaves_the_same_bytes_as_its_successor() {
    let text = r#"{"name":"h1","clientURLs":["http://h1:2379"]}"#;
    for (old, new) in [
        (v2("PUT", "/0/members/7/attributes", text), of::attributes(7, "h1")),
        (v2("PUT", "/0/version", "3.5.0"), of::cluster_version("3.5.0")),
    ] {
        let (mut one, mut other) = (member(Setup::default()), member(Setup::default()));
        let [raw, _wrapped] = both_ways(&old);
        one.apply(&one.next_raw(EntryType::Normal, raw)).unwrap();
        other.answer(&new).unwrap();
        Observed::of(&one.machine).assert_same(&Observed::of(&other.machine), &"v2 and v3");
    }
}

#[test]
fn attributes_of_one_who_left_are_not_heard() {
    let mut member = member(Setup::default());
    let before = buckets(&member.machine.backend.view())["members"].clone();
    assert_eq!(member.answer(&of::attributes(8, "eight")), Ok(Reply::Empty));
    assert_eq!(buckets(&member.machine.backend.view())["members"], before);
}

#[test]
fn a_lower_version_is_told_of() {
    let mut member = Member::new(Setup::default());
    for (version, lowered) in
        [("3.6.0", false), ("3.7.0", false), ("3.7.0", false), ("3.6.0", true), ("3.6.0", false)]
    {
        let outcome = member.apply_next(&of::cluster_version(version));
        assert_eq!(outcome.version_lowered, lowered, "{version}");
    }
}

#[test]
fn what_only_reads_is_left_out_if_nobody_waits() {
    let silent = Setup { waits: false, ..Setup::default() };
    for (request, left_out) in [
        (of::range("k"), true),
        (of::user_get("alice"), true),
        (of::role_get("ops"), true),
        (of::auth_status(), true),
        (of::user_list(), false),
        (of::delete("k", ""), false),
        (of::txn(pb::TxnRequest::default()), false),
        (of::authenticate("alice", "t"), false),
    ] {
        let mut member = Member::new(silent);
        let entry = member.next(&request);
        let Applied::Request(outcome) = member.apply(&entry).unwrap() else {
            panic!("{request:?} is a request");
        };
        assert_eq!(outcome.result.is_none(), left_out, "{request:?}");
        assert_eq!(member.reopened().applied(), (entry.index, entry.term), "{request:?}");
    }
}

#[test]
fn ranges_within_a_transaction_are_left_out_if_nobody_waits() {
    let range = || Op::RequestRange(of::range("k").range.unwrap());
    let put = Op::RequestPut(of::put_request("k", b"2", 0));
    let txn = of::txn(of::txn_of(vec![range(), put, range()]));
    let counts = |waits| {
        let mut member = Member::new(Setup { waits, ..Setup::default() });
        member.apply_next(&of::put("k", b"1", 0));
        let Some(Ok(Reply::Txn(txn))) = member.apply_next(&txn).result else {
            panic!("a transaction is carried out");
        };
        let count = |response: &OpResult| match response {
            OpResult::Range(range) => (range.revision, range.kvs.len()),
            _ => (0, 0),
        };
        let counts: Vec<_> = txn.responses.iter().map(count).collect();
        (counts, buckets(&member.machine.backend.view()))
    };
    let (waited, silent) = (counts(true), counts(false));
    assert_eq!(waited.0, [(2, 1), (0, 0), (3, 1)]);
    assert_eq!(silent.0, [(2, 0), (0, 0), (3, 0)]);
    assert_eq!(waited.1, silent.1, "what was written is the same");
}

/// The id under which somebody may be waiting is in one of two places.
#[test]
fn the_id_of_a_request_is_its_own_or_its_headers() {
    let header = |id| Some(pb::RequestHeader { id, ..pb::RequestHeader::default() });
    for (id, header, wanted) in [(0, header(7), 7), (9, None, 9), (9, header(7), 9), (0, None, 0)] {
        let mut member = Member::new(Setup::default());
        let request = Request { id, header, ..of::range("k") };
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
fn an_empty_entry_moves_the_index_and_the_term() {
    let mut member = member(Setup::default());
    let mut entry = member.next_raw(EntryType::Normal, Vec::new());
    entry.term = Term(9);
    assert!(matches!(member.apply(&entry), Ok(Applied::Empty)));
    assert_eq!(member.reopened().applied(), (Index(4), Term(9)));
    assert!(matches!(member.apply(&entry), Ok(Applied::AlreadyApplied)));
}

/// What an entry that makes no sense is called.
type IsIt = fn(&Fault) -> bool;

/// A member that meets such an entry has to stop, and leaves its database as it was.
#[test]
fn an_entry_that_makes_no_sense_changes_nothing() {
    let v2_get = v2("GET", "/0/version", "");
    let conf_change = |change: &membership::Change, id| {
        let mut change = change.to_conf_change(Some(1));
        change.node_id = Some(id);
        change.encode_to_vec()
    };
    let add = membership::Change::Add(of::member(9, "m9", false));
    let unknown_kind = proto::raftpb::ConfChange { r#type: Some(44), ..Default::default() };
    let is_unknown: IsIt = |fault| matches!(fault, Fault::Unknown(Index(4)));
    let is_decode: IsIt = |fault| matches!(fault, Fault::Decode { index: Index(4), .. });
    let is_kind: IsIt = |fault| matches!(fault, Fault::UnknownKind(Index(4)));
    let is_membership: IsIt = |fault| matches!(fault, Fault::Membership(StopError::Decode(_)));
    let is_v2: IsIt = |fault| {
        let Fault::Membership(StopError::Decode(error)) = fault else { return false };
        matches!(error, DecodeError::V2Request { .. })
    };
    let is_stranger: IsIt =
        |fault| matches!(fault, Fault::Membership(StopError::UnknownMember(MemberId(9))));
    let is_newer: IsIt = |fault| matches!(fault, Fault::Membership(StopError::Incompatible(_)));
    let normal = EntryType::Normal;
    let cases: Vec<(&str, EntryType, Vec<u8>, IsIt)> = vec![
        ("no request", normal, of_nothing(), is_unknown),
        ("not a message", normal, vec![0xff; 9], is_decode),
        ("a put cut short", normal, cut_short(&of::put("k", b"value", 0)), is_decode),
        ("v2 GET", normal, both_ways(&v2_get)[0].clone(), is_v2),
        ("v2 GET, wrapped", normal, both_ways(&v2_get)[1].clone(), is_v2),
        ("a stranger", normal, of::attributes(9, "m9").encode_to_vec(), is_stranger),
        ("a newer version", normal, of::cluster_version("3.8.0").encode_to_vec(), is_newer),
        ("no version", normal, of::cluster_version("three").encode_to_vec(), is_membership),
        ("downgrade", normal, of::downgrade(Some("x")).encode_to_vec(), is_membership),
        ("not a change", EntryType::ConfChange, vec![0xff; 9], is_decode),
        ("another's id", EntryType::ConfChange, conf_change(&add, 10), is_membership),
        ("a change", EntryType::ConfChange, unknown_kind.encode_to_vec(), is_membership),
        ("a change of many", EntryType::ConfChangeV2, Vec::new(), is_kind),
        ("a change of one", EntryType::ConfChangeV2, conf_change(&add, 9), is_kind),
    ];
    for (name, kind, data, is_it) in cases {
        let mut member = member(Setup::default());
        let before = (member.machine.backend.view(), Observed::of(&member.machine));
        let heard = member.voters.heard.len();
        let fault = member.apply(&member.next_raw(kind, data)).expect_err(name);
        assert!(is_it(&fault), "{name}: {fault:?}");
        let view = member.machine.backend.view();
        assert_eq!(view.sequence(), before.0.sequence(), "{name}");
        assert_eq!(buckets(&view), buckets(&before.0), "{name}");
        assert_eq!(member.voters.heard.len(), heard, "{name}: consensus has heard of it");
        Observed::of(&member.machine).assert_same(&before.1, &name);
        Observed::of(&member.reopened().machine).assert_same(&before.1, &name);
    }
}

fn of_nothing() -> Vec<u8> {
    let header = Some(pb::RequestHeader { id: 7, ..pb::RequestHeader::default() });
    Request { header, ..Request::default() }.encode_to_vec()
}

fn cut_short(request: &Request) -> Vec<u8> {
    let mut data = request.encode_to_vec();
    data.truncate(data.len() - 2);
    data
}

#[test]
fn who_votes_is_saved_with_a_change_of_members() {
    let member = member(Setup::default());
    let conf = meta::conf_state(&member.machine.backend.view()).unwrap().unwrap();
    assert_eq!((conf.voters, conf.learners), (vec![7], vec![]));
}

/// Nothing may be missing: not even an entry that would not have changed anything.
#[test]
fn a_gap_in_the_log_stops_the_member() {
    let mut member = member(Setup::default());
    let first = member.next(&of::put("a", b"1", 0));
    assert!(matches!(member.apply(&first), Ok(Applied::Request(_))));
    let before = buckets(&member.machine.backend.view());
    let skipped = member.next(&of::put("a", b"2", 0)).index;
    let mut late = member.next(&of::put("a", b"3", 0));
    late.index = skipped.next();
    let fault = member.apply(&late).unwrap_err();
    assert!(
        matches!(fault, Fault::Gap { expected, found } if (expected, found) == (skipped, late.index)),
        "{fault}"
    );
    assert_eq!(buckets(&member.machine.backend.view()), before);
    // What was applied already may come again, and after it what follows.
    assert!(matches!(member.apply(&first), Ok(Applied::AlreadyApplied)));
    let next = member.next(&of::put("a", b"2", 0));
    assert!(matches!(member.apply(&next), Ok(Applied::Request(_))));
}

/// A database of a newer release is not for us, and stays as it is.
#[test]
fn a_database_of_a_newer_cluster_is_not_written_to() {
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
