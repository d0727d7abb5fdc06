//! Log entries of real clusters, decoded and encoded again.
//!
//! `testdata/captured/<etcd version>/<message>.hex` in `proto` holds lines of a kind and its bytes
//! in hexadecimal.

use std::fs;
use std::path::{Path, PathBuf};

use membership::{Change, v2};
use prost::Message as _;
use proto::command::Command;
use proto::etcdserverpb::Request;
use proto::raftpb::ConfChange;

fn versions() -> Vec<PathBuf> {
    let captured = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/testdata/captured");
    let entries = fs::read_dir(captured).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

fn messages(version: &Path, kind: &str) -> Vec<Vec<u8>> {
    let Ok(text) = fs::read_to_string(version.join(format!("{kind}.hex"))) else {
        return Vec::new();
    };
    let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
    lines.map(|hex| unhex(hex.trim())).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn conf_changes_round_trip_byte_for_byte() {
    let mut seen = 0;
    for version in versions() {
        for bytes in messages(&version, "raftpb.ConfChange") {
            let entry = ConfChange::decode(&bytes[..]).unwrap();
            let change = Change::decode(&entry).unwrap();
            assert_eq!(change.to_conf_change(entry.id), entry, "{version:?}");
            seen += 1;
        }
    }
    assert!(seen >= 30, "{seen}");
}

#[test]
fn v2_requests_convert_to_commands() {
    let (mut versions_set, mut attributes_set) = (0, 0);
    for version in versions() {
        for bytes in messages(&version, "etcdserverpb.Request") {
            match command(&bytes) {
                Command::ClusterVersionSet(_) => versions_set += 1,
                Command::ClusterMemberAttrSet(_) => attributes_set += 1,
                other => panic!("unexpected command {other:?}"),
            }
        }
    }
    assert!(versions_set >= 2 && attributes_set >= 2, "{versions_set} {attributes_set}");
}

fn command(bytes: &[u8]) -> Command {
    v2::to_raft_request(&Request::decode(bytes).unwrap()).unwrap().command
}
