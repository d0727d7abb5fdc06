//! A running member with threads and files: start, restart and shutdown.

use proto::etcdserverpb as pb;
use server::{Error, Server, ServerConfig, StopReason};
use testkit::waiting::{block_on, wait_until};
use testmember::{Builder, TestMember};

/// Returns a member that syncs its files, as in production.
fn builder() -> Builder {
    TestMember::builder().config(|config| config.unsafe_no_fsync = false)
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
    server.state().store().keys()
}

#[test]
fn a_new_single_member_leads_and_accepts_writes() {
    let mut member = builder().start();
    let server = member.server();
    assert_eq!(put(&server, "a", "1"), 2);
    assert_eq!(put(&server, "b", "2"), 3);
    assert!(server.is_leader());
    assert_eq!(server.leader(), Some(server.local()));
    assert_eq!(keys(&server), 2);
    assert_eq!(member.stop(), StopReason::Requested);
}

#[test]
fn acknowledged_writes_survive_a_restart() {
    let mut member = builder().start();
    for round in 0..3 {
        let server = member.server();
        assert_eq!(keys(&server), round * 10);
        for n in 0..10 {
            put(&server, &format!("{round}-{n}"), "x");
        }
        drop(server);
        assert_eq!(member.stop(), StopReason::Requested);
        member.restart(|_| {}).unwrap();
    }
    assert_eq!(keys(&member.server()), 30);
}

#[test]
fn a_stopped_member_refuses_requests() {
    let mut member = builder().start();
    let server = member.server();
    put(&server, "a", "1");
    member.stop();
    assert_eq!(block_on(server.linearizable()), Err(Error::Stopped));
    assert_eq!(server.propose(pb::PutRequest::default()).unwrap_err(), Error::Stopped);
    assert_eq!(block_on(server.stopped()), StopReason::Requested);
}

/// Counts the snapshot files.
fn snapshots(member: &TestMember) -> usize {
    let files = std::fs::read_dir(member.data_dir().join("member/snap")).unwrap();
    let is_snapshot = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".snap");
    files.map(|entry| entry.unwrap().file_name()).filter(is_snapshot).count()
}

#[test]
fn a_member_takes_snapshots_and_restarts_from_them() {
    let frequent_snapshots = |config: &mut ServerConfig| {
        config.snapshot_count = 20;
        config.snapshot_catchup_entries = 5;
    };
    let mut member = builder().config(frequent_snapshots).start();
    for batch in 0..2 {
        for n in 0..50 {
            put(&member.server(), &format!("{batch}-{n}"), "x");
        }
        // Snapshots are taken in the background, one at a time.
        wait_until("a snapshot is saved", || snapshots(&member) > batch);
    }
    member.stop();
    let count = snapshots(&member);
    assert!(count >= 2, "expected at least 2 snapshots, got {count}");
    member.restart(|_| {}).unwrap();
    assert_eq!(keys(&member.server()), 100);
    put(&member.server(), "more", "x");
}
