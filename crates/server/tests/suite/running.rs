//! A running member with threads and files: start, restart and shutdown.

use std::path::Path;
use std::sync::Arc;

use env::{OsClock, OsDisk, OsRandom};
use proto::etcdserverpb as pb;
use server::{Error, Member, NoPeers, Platform, Server, ServerConfig, StopReason};
use testkit::waiting::block_on;

fn start(folder: &Path) -> Member {
    start_with(folder, |_| {})
}

fn start_with(folder: &Path, configure: impl FnOnce(&mut ServerConfig)) -> Member {
    let mut config = ServerConfig::new("default", folder);
    configure(&mut config);
    let platform = Platform {
        disk: Arc::new(OsDisk),
        clock: Arc::new(OsClock::default()),
        random: Box::new(OsRandom),
    };
    Member::start(config, platform, Arc::new(NoPeers), &prometheus::Registry::new()).unwrap()
}

fn put(server: &Server, key: &str, value: &str) -> i64 {
    let put = pb::PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..Default::default()
    };
    let applied = block_on(server.propose(put).unwrap()).unwrap();
    applied.result.unwrap();
    applied.revision
}

fn keys(server: &Server) -> u64 {
    block_on(server.linearizable()).unwrap();
    server.state().store.keys()
}

#[test]
fn a_new_single_member_leads_and_accepts_writes() {
    let folder = tempfile::tempdir().unwrap();
    let member = start(folder.path());
    let server = member.server();
    assert_eq!(put(server, "a", "1"), 2);
    assert_eq!(put(server, "b", "2"), 3);
    assert!(server.is_leader());
    assert_eq!(server.leader(), Some(server.local()));
    assert_eq!(keys(server), 2);
    assert_eq!(member.stop(), StopReason::Requested);
}

#[test]
fn acknowledged_writes_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let member = start(folder.path());
        let server = member.server().clone();
        assert_eq!(keys(&server), round * 10);
        for n in 0..10 {
            put(&server, &format!("{round}-{n}"), "x");
        }
        assert_eq!(member.stop(), StopReason::Requested);
    }
}

#[test]
fn a_stopped_member_refuses_requests() {
    let folder = tempfile::tempdir().unwrap();
    let member = start(folder.path());
    let server = member.server().clone();
    put(&server, "a", "1");
    member.stop();
    assert_eq!(block_on(server.linearizable()), Err(Error::Stopped));
    assert_eq!(server.propose(pb::PutRequest::default()).unwrap_err(), Error::Stopped);
    assert_eq!(block_on(server.stopped()), StopReason::Requested);
}

#[test]
fn a_member_takes_snapshots_and_restarts_from_them() {
    let folder = tempfile::tempdir().unwrap();
    let frequent_snapshots = |config: &mut ServerConfig| {
        config.snapshot_count = 20;
        config.snapshot_catchup_entries = 5;
    };
    let member = start_with(folder.path(), frequent_snapshots);
    for n in 0..100 {
        put(member.server(), &format!("{n}"), "x");
    }
    member.stop();
    let snapshots = std::fs::read_dir(folder.path().join("member/snap")).unwrap();
    let is_snapshot = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".snap");
    let count = snapshots.map(|entry| entry.unwrap().file_name()).filter(is_snapshot).count();
    assert!(count >= 2, "expected at least 2 snapshots, got {count}");
    let member = start_with(folder.path(), frequent_snapshots);
    assert_eq!(keys(member.server()), 100);
    put(member.server(), "more", "x");
    member.stop();
}
