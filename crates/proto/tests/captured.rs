//! Messages that etcd wrote are re-encoded to the same bytes.
//!
//! `testdata/captured/<etcd version>/*.hex` contains messages from the logs, databases and
//! connections of running clusters. A line has the name of a message and its bytes, `raftpb.Entry
//! 10022205...`; lines that begin with `#` are comments. Messages inside opaque bytes fields (an
//! entry in a record, a request in an entry) are extracted and tested too.

mod known;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use prost::Message;
use proto::{
    etcdserverpb::{self, TxnRequest, request_op::Request},
    raftpb::{self, MessageType},
    snappb, walpb,
};

/// The messages that each version must contain.
const REQUIRED: [&str; 14] = [
    "authpb.Role",
    "authpb.User",
    "etcdserverpb.InternalRaftRequest",
    "etcdserverpb.Metadata",
    "leasepb.Lease",
    "mvccpb.KeyValue",
    "raftpb.ConfChange",
    "raftpb.Entry",
    "raftpb.HardState",
    "raftpb.Message",
    "raftpb.Snapshot",
    "snappb.snapshot",
    "walpb.Record",
    "walpb.Snapshot",
];

/// The methods of v2 requests.
const V2_METHODS: [&str; 5] = ["DELETE", "POST", "PUT", "QGET", "SYNC"];

/// A message with its type name.
type Named = (&'static str, Vec<u8>);

/// Returns the directory of captured messages: in the repository, or given by the environment.
fn captured() -> PathBuf {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captured");
    env::var_os("BOWLINE_CAPTURED").map_or_else(ours, PathBuf::from)
}

#[test]
fn captured_messages_reencode_to_the_same_bytes() {
    let root = captured();
    let mut versions = 0;
    for version in sorted(&root).filter(|path| path.is_dir()) {
        let counts = check_file(&version);
        println!("{}: {counts:#?}", version.display());
        for kind in REQUIRED {
            assert!(counts.contains_key(kind), "no {kind} in {}", version.display());
        }
        versions += 1;
    }
    assert!(versions > 0, "nothing captured in {}", root.display());
}

/// Tests every line of every file, and counts them by type.
fn check_file(version: &Path) -> BTreeMap<String, usize> {
    let kinds = known::kinds();
    let mut counts = BTreeMap::new();
    for file in sorted(version).filter(|file| file.extension().is_some_and(|e| e == "hex")) {
        let text = fs::read_to_string(&file).expect("captures are text");
        let lines = text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
        for (number, line) in lines {
            let place = format!("{}:{}", file.display(), number + 1);
            let (kind, hex) = line.split_once(' ').unwrap_or((line, ""));
            let recode = kinds.get(kind).unwrap_or_else(|| panic!("{place}: unknown name {kind}"));
            let bytes = unhex(hex).unwrap_or_else(|| panic!("{place}: bad hex"));
            same(kind, &bytes, &recode(&bytes).expect(&place), &place);
            check_nested(kind, &bytes, &place, &kinds);
            *counts.entry(kind.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Tests the messages inside a message, recursively.
fn check_nested(kind: &str, bytes: &[u8], place: &str, kinds: &BTreeMap<String, known::Recode>) {
    for (inner, bytes) in inside(kind, bytes, place) {
        let place = format!("{place}, {inner}");
        same(inner, &bytes, &kinds[inner](&bytes).expect(&place), &place);
        check_nested(inner, &bytes, &place, kinds);
    }
}

/// Checks that re-encoding preserved the bytes.
///
/// Compat: with one exception. etcd 3.7 writes the members of a oneof after all other fields,
/// earlier releases and this crate by number, which differs in a `Compare` with a range.
fn same(kind: &str, before: &[u8], after: &[u8], place: &str) {
    if before != after && kind == "etcdserverpb.InternalRaftRequest" {
        let request: etcdserverpb::InternalRaftRequest = decode(before);
        let compares = request.txn.as_ref().is_some_and(compares_range);
        assert!(compares && before.len() == after.len() && request == decode(after), "{place}");
    } else {
        assert_eq!(before, after, "{place}");
    }
}

fn compares_range(txn: &TxnRequest) -> bool {
    let here = txn.compare.iter().any(|c| c.target_union.is_some() && !c.range_end.is_empty());
    here || txn.success.iter().chain(&txn.failure).any(|op| match &op.request {
        Some(Request::RequestTxn(inner)) => compares_range(inner),
        _ => false,
    })
}

/// Returns the messages in the opaque bytes of a message.
fn inside(kind: &str, bytes: &[u8], place: &str) -> Vec<Named> {
    match kind {
        "walpb.Record" => in_record(&decode(bytes), place).into_iter().collect(),
        "raftpb.Entry" => in_entry(&decode(bytes), place).into_iter().collect(),
        "raftpb.Message" => {
            let message: raftpb::Message = decode(bytes);
            // In messages about reads the only entry is the context of the read, not an entry of
            // the log.
            let carries_log =
                matches!(message.r#type(), MessageType::MsgApp | MessageType::MsgProp);
            let entries = message.entries.iter().filter(|_| carries_log);
            entries.filter_map(|entry| in_entry(entry, place)).collect()
        }
        "snappb.snapshot" => {
            vec![("raftpb.Snapshot", decode::<snappb::Snapshot>(bytes).data().to_vec())]
        }
        _ => Vec::new(),
    }
}

fn in_record(record: &walpb::Record, place: &str) -> Option<Named> {
    let kind = match record.r#type() {
        1 => "etcdserverpb.Metadata",
        2 => "raftpb.Entry",
        3 => "raftpb.HardState",
        4 => return None,
        5 => "walpb.Snapshot",
        other => panic!("{place}: record of type {other}"),
    };
    Some((kind, record.data().to_vec()))
}

fn in_entry(entry: &raftpb::Entry, place: &str) -> Option<Named> {
    let data = entry.data().to_vec();
    let kind = match entry.r#type() {
        // The first entry of a term.
        raftpb::EntryType::EntryNormal if data.is_empty() => return None,
        raftpb::EntryType::EntryNormal => request_kind(&data, place),
        raftpb::EntryType::EntryConfChange => "raftpb.ConfChange",
        raftpb::EntryType::EntryConfChangeV2 => "raftpb.ConfChangeV2",
    };
    Some((kind, data))
}

/// Compat: as in etcd up to 3.6, data that is no v3 request is a bare v2 request.
fn request_kind(data: &[u8], place: &str) -> &'static str {
    if etcdserverpb::InternalRaftRequest::decode(data).is_ok() {
        return "etcdserverpb.InternalRaftRequest";
    }
    let request = etcdserverpb::Request::decode(data)
        .unwrap_or_else(|e| panic!("{place}: entry with neither request: {e}"));
    assert!(V2_METHODS.contains(&request.method()), "{place}: entry with {request:?}");
    "etcdserverpb.Request"
}

fn decode<M: Message + Default>(bytes: &[u8]) -> M {
    M::decode(bytes).expect("decoded before")
}

fn sorted(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut paths: Vec<_> =
        entries.map(|entry| entry.expect("a readable directory").path()).collect();
    paths.sort();
    paths.into_iter()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |d: u8| char::from(d).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|p| Some(digit(p[0])? << 4 | digit(*p.get(1)?)?)).collect()
}

#[test]
fn hex_is_read_strictly() {
    assert_eq!(unhex("00ffA1"), Some(vec![0x00, 0xff, 0xa1]));
    assert_eq!(unhex(""), Some(vec![]));
    assert_eq!(unhex("0"), None);
    assert_eq!(unhex("0g"), None);
}
