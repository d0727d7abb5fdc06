//! Messages captured from running clusters, converted to the core's types and back.
//!
//! `testdata/captured/<etcd version>/raftpb.<kind>.hex` in `proto` contains lines of a kind and its
//! bytes in hexadecimal, with comments after `#`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use proto::raftpb;
use raft::{ConfChange, Entry, HardState, Message, Snapshot};
use types::ETCD_VERSION;

/// The message kinds that the core converts.
const KINDS: [&str; 5] = ["ConfChange", "Entry", "HardState", "Message", "Snapshot"];

#[test]
fn messages_of_etcd_3_7_are_encoded_to_the_same_bytes() {
    let is_reference = |path: &PathBuf| path.ends_with(ETCD_VERSION);
    let reference = versions().into_iter().find(is_reference).expect("the reference version");
    let mut counts = BTreeMap::new();
    for kind in KINDS {
        for bytes in written_by(&reference, kind) {
            if !is_link_heartbeat(kind, &bytes) {
                assert_eq!(through_core(kind, &bytes), bytes, "{kind}");
                *counts.entry(kind).or_insert(0) += 1;
            }
        }
    }
    println!("{counts:?}");
    assert!(KINDS.iter().all(|kind| counts.contains_key(kind)), "{counts:?}");
}

/// Reports whether this is a keep-alive of a message stream, which never reaches the core.
fn is_link_heartbeat(kind: &str, bytes: &Bytes) -> bool {
    kind == "Message" && bytes[..] == [0x08, 0x08]
}

/// Earlier versions write zeros where 3.7 writes nothing; everything else is preserved.
#[test]
fn messages_of_older_versions_keep_their_values() {
    let versions = versions();
    assert!(versions.len() >= 4, "{versions:?}");
    for version in versions {
        for kind in KINDS {
            for bytes in written_by(&version, kind) {
                let again = through_core(kind, &bytes);
                assert_eq!(
                    without_zeros(kind, &bytes),
                    without_zeros(kind, &again),
                    "{kind} {bytes:02x?} in {version:?}"
                );
            }
        }
    }
}

fn versions() -> Vec<PathBuf> {
    let captured = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/testdata/captured");
    let listed = fs::read_dir(captured).expect("captured messages");
    listed.map(|entry| entry.expect("a name").path()).filter(|path| path.is_dir()).collect()
}

/// Returns the messages of one kind that a version of etcd wrote.
fn written_by(version: &Path, kind: &str) -> Vec<Bytes> {
    let file = version.join(format!("raftpb.{kind}.hex"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| unhex(line.split_once(' ').expect("a kind and its bytes").1)).collect()
}

fn unhex(hex: &str) -> Bytes {
    let byte = |two: &str| u8::from_str_radix(two, 16).expect("two digits");
    (0..hex.len()).step_by(2).map(|at| byte(&hex[at..at + 2])).collect()
}

/// Decodes bytes into the core's type, and encodes that.
fn through_core(kind: &str, bytes: &Bytes) -> Bytes {
    fn via<W, C>(bytes: &Bytes) -> Bytes
    where
        W: prost::Message + Default + From<C> + TryInto<C, Error: Debug>,
    {
        let wire = W::decode(bytes.clone()).expect("protobuf");
        let core: C = wire.try_into().expect("known to the core");
        W::from(core).encode_to_vec().into()
    }
    match kind {
        "ConfChange" => via::<raftpb::ConfChange, ConfChange>(bytes),
        "Entry" => via::<raftpb::Entry, Entry>(bytes),
        "HardState" => via::<raftpb::HardState, HardState>(bytes),
        "Message" => via::<raftpb::Message, Message>(bytes),
        _ => via::<raftpb::Snapshot, Snapshot>(bytes),
    }
}

/// Returns the bytes of a message after a change to it.
fn rewritten<W: prost::Message + Default>(bytes: &Bytes, change: impl Fn(&mut W)) -> Bytes {
    let mut wire = W::decode(bytes.clone()).expect("protobuf");
    change(&mut wire);
    wire.encode_to_vec().into()
}

/// Returns the bytes without zero fields.
fn without_zeros(kind: &str, bytes: &Bytes) -> Bytes {
    match kind {
        "ConfChange" => rewritten(bytes, strip_conf_change),
        "Entry" => rewritten(bytes, strip_entry),
        "HardState" => rewritten(bytes, strip_hard_state),
        "Message" => rewritten(bytes, strip_message),
        _ => rewritten(bytes, strip_snapshot),
    }
}

fn nothing_if_zero<T: Default + PartialEq>(field: &mut Option<T>) {
    field.take_if(|value| *value == T::default());
}

fn strip_conf_change(change: &mut raftpb::ConfChange) {
    nothing_if_zero(&mut change.id);
    nothing_if_zero(&mut change.r#type);
    nothing_if_zero(&mut change.node_id);
    nothing_if_zero(&mut change.context);
}

fn strip_entry(entry: &mut raftpb::Entry) {
    nothing_if_zero(&mut entry.r#type);
    nothing_if_zero(&mut entry.term);
    nothing_if_zero(&mut entry.index);
    nothing_if_zero(&mut entry.data);
}

fn strip_hard_state(state: &mut raftpb::HardState) {
    nothing_if_zero(&mut state.term);
    nothing_if_zero(&mut state.vote);
    nothing_if_zero(&mut state.commit);
}

fn strip_snapshot(snapshot: &mut raftpb::Snapshot) {
    nothing_if_zero(&mut snapshot.data);
    if let Some(metadata) = &mut snapshot.metadata {
        nothing_if_zero(&mut metadata.index);
        nothing_if_zero(&mut metadata.term);
        if let Some(conf_state) = &mut metadata.conf_state {
            nothing_if_zero(&mut conf_state.auto_leave);
        }
        nothing_if_zero(&mut metadata.conf_state);
    }
    nothing_if_zero(&mut snapshot.metadata);
}

fn strip_message(message: &mut raftpb::Message) {
    nothing_if_zero(&mut message.r#type);
    for number in [
        &mut message.to,
        &mut message.from,
        &mut message.term,
        &mut message.log_term,
        &mut message.index,
        &mut message.commit,
        &mut message.reject_hint,
        &mut message.vote,
    ] {
        nothing_if_zero(number);
    }
    nothing_if_zero(&mut message.reject);
    nothing_if_zero(&mut message.context);
    message.entries.iter_mut().for_each(strip_entry);
    message.snapshot.iter_mut().for_each(strip_snapshot);
    nothing_if_zero(&mut message.snapshot);
    message.responses.iter_mut().for_each(strip_message);
}
