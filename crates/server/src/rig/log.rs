//! The log writer by itself: nothing is acknowledged before it is durable.

use env::{Disk, Fault, SimClock, SimDisk};
use proto::raftpb::HardState;
use proto::walpb;
use raft::{Entry, LOCAL_APPEND_THREAD, Message, MessageType, Snapshot, SnapshotMetadata};
use std::sync::Arc;
use types::{Index, MemberId, Term};
use wal::Wal;

use super::SEGMENT_BYTES;
use super::stages::{Platform, Stage, Stages};
use super::story::small;
use crate::lifecycle::StopReason;
use crate::pipeline::log_writer::LogWork;
use crate::pipeline::raft_loop::Event;

/// How the logs of these tests are kept.
pub(super) const CONFIG: wal::Config =
    wal::Config { segment_bytes: SEGMENT_BYTES, unsafe_no_fsync: false };

/// A member of which only the log has turns: what it says to the raft loop is for the test.
struct Log {
    disk: SimDisk,
    stages: Stages,
}

/// An entry, as it is told apart: its term and index.
type At = (u64, u64);

impl Log {
    fn new() -> Log {
        let disk = SimDisk::new(0);
        let machine = Platform { disk: disk.clone(), clock: SimClock::default() };
        Log { disk, stages: Stages::boot(&machine, small()).unwrap() }
    }

    /// Entries are to be appended.
    fn append(&self, term: u64, indexes: std::ops::RangeInclusive<u64>) {
        let entry = |index| Entry {
            term: Term(term),
            index: Index(index),
            data: format!("entry {index:050} of {term}").into(),
            ..Entry::default()
        };
        let entries = indexes.map(entry).collect();
        self.push(Message { entries, ..message() });
    }

    fn push(&self, append: Message) {
        assert!(self.stages.inboxes.log.push(LogWork::Append(Box::new(append))));
    }

    /// One turn. Returns what was acknowledged.
    fn turn(&mut self) -> Vec<Vec<At>> {
        self.stages.turn(Stage::Log);
        let mut events = Vec::new();
        self.stages.server().inner.raft.queue.take(&mut events);
        let acknowledged = |event| match event {
            Event::Appended(append) => Some(append.entries.iter().map(at).collect()),
            Event::Stop => None,
            other => panic!("{other:?}"),
        };
        events.into_iter().filter_map(acknowledged).collect()
    }

    fn syncs(&self) -> u64 {
        self.disk.calls().syncs
    }
}

fn message() -> Message {
    Message::new(MessageType::MsgStorageAppend, LOCAL_APPEND_THREAD)
}

fn at(entry: &Entry) -> At {
    (entry.term.0, entry.index.0)
}

/// The entries that a member finds that starts from this disk.
fn found(disk: SimDisk) -> Vec<At> {
    contents(disk).entries.iter().map(|entry| (entry.term(), entry.index())).collect()
}

/// What the log on this disk says. A torn end is cut.
pub(super) fn contents(disk: SimDisk) -> wal::LogContents {
    let (disk, folder): (Arc<dyn Disk>, _) = (Arc::new(disk), small().wal_path());
    let start = wal::valid_snapshots(&*disk, &folder).unwrap().pop().unwrap();
    let open = || Wal::open(Arc::clone(&disk), &folder, &start, CONFIG).unwrap().read_all();
    match open() {
        Err(error) if error.is_torn() => {
            wal::repair(&*disk, &folder).unwrap();
            open().unwrap().1
        }
        read => read.unwrap().1,
    }
}

/// What any power cut leaves begins with these.
fn assert_durable(log: &Log, entries: &[At]) {
    for seed in 0..30 {
        let found = found(log.disk.power_cut(seed));
        assert!(found.starts_with(entries), "cut {seed} left {found:?}");
    }
}

#[test]
fn what_gathers_costs_one_sync_and_is_acknowledged_in_order() {
    let mut log = Log::new();
    (1..=5).for_each(|n| log.append(1, 2 * n - 1..=2 * n));
    let before = log.syncs();
    let acknowledged = log.turn();
    assert_eq!(log.syncs(), before + 1);
    assert_eq!(acknowledged[0], [(1, 1), (1, 2)]);
    let all = acknowledged.concat();
    assert_eq!(all, (1..=10).map(|index| (1, index)).collect::<Vec<_>>());
    assert_durable(&log, &all);
    assert_eq!(log.turn(), Vec::<Vec<At>>::new(), "once");
}

#[test]
fn nothing_is_acknowledged_before_the_sync() {
    for fault in [Fault::Eio, Fault::Enospc, Fault::Crash] {
        for call in 0..2 {
            let mut log = Log::new();
            log.append(1, 1..=3);
            assert_eq!(log.turn().len(), 1);
            log.append(1, 4..=4);
            log.append(1, 5..=6);
            // The write, or the sync.
            log.disk.fail_change(call, fault);
            assert_eq!(log.turn(), Vec::<Vec<At>>::new(), "{fault:?} at {call}");
            let reason = log.stages.server().inner.lifecycle.reason();
            let StopReason::Fault(why) = &reason else { panic!("{reason}") };
            assert!(why.starts_with("write the log: "), "{why}");
            // The stage is over: even a disk that works again is not written to.
            let writes = log.disk.calls().writes;
            log.disk.heal();
            log.append(1, 7..=7);
            assert_eq!(log.turn(), Vec::<Vec<At>>::new());
            assert_eq!(log.disk.calls().writes, writes);
            assert_durable(&log, &[(1, 1), (1, 2), (1, 3)]);
        }
    }
}

/// A new leader's entries in place of others, in the same turn: they come behind, and are waited for by themselves.
#[test]
fn what_overwrites_is_behind_what_it_overwrites() {
    let mut log = Log::new();
    log.append(1, 1..=5);
    log.append(2, 3..=4);
    log.append(2, 5..=5);
    let acknowledged = log.turn();
    assert_eq!(acknowledged.len(), 3);
    assert_durable(&log, &[(1, 1), (1, 2), (2, 3), (2, 4), (2, 5)]);

    let mut log = Log::new();
    log.append(1, 1..=5);
    log.append(2, 3..=4);
    // A write and a sync each: the last sync.
    log.disk.fail_change(3, Fault::Eio);
    assert_eq!(log.turn(), [(1..=5).map(|index| (1, index)).collect::<Vec<_>>()]);
    for seed in 0..30 {
        let found = found(log.disk.power_cut(seed));
        assert!(found.starts_with(&[(1, 1), (1, 2)]), "cut {seed} left {found:?}");
        assert!(found.len() >= 3, "cut {seed} left {found:?}");
    }
}

#[test]
fn a_vote_is_synced_and_a_commit_index_is_not() {
    let mut log = Log::new();
    let state = Message { term: Term(3), vote: Some(MemberId(1)), ..message() };
    let before = log.syncs();
    log.push(state.clone());
    assert_eq!(log.turn().len(), 1);
    assert_eq!(log.syncs(), before + 1, "a vote");
    log.push(Message { commit: Index(1), ..state.clone() });
    assert_eq!(log.turn().len(), 1);
    assert_eq!(log.syncs(), before + 1, "a commit index");
    log.push(Message { term: Term(4), vote: None, ..state });
    log.disk.fail_change(1, Fault::Eio);
    assert_eq!(log.turn().len(), 0, "a term whose sync fails");
}

/// From one segment to the next, and on to a place to start from: all of it survives, and what is before is let go of.
#[test]
fn entries_go_on_over_segments_and_snapshots() {
    let mut log = Log::new();
    let mut all = Vec::new();
    for index in 1..=300 {
        log.append(1, index..=index);
        all.extend(log.turn().concat());
        assert_eq!(all.last(), Some(&(1, index)));
    }
    assert_durable(&log, &all);
    let folder = small().wal_path();
    let segments = || log.disk.read_dir(&folder).unwrap();
    assert!(segments().len() > 3, "{:?}", segments());
    let purge = || wal::purge(&log.disk, &folder, 1, u64::MAX).unwrap();
    assert_eq!(purge(), Vec::<String>::new(), "all are needed");

    let snapshot = walpb::Snapshot {
        index: Some(290),
        term: Some(1),
        conf_state: Some(proto::raftpb::ConfState::default()),
    };
    log.append(1, 301..=301);
    assert!(log.stages.inboxes.log.push(LogWork::Snapshot(snapshot)));
    log.push(Message { term: Term(1), commit: Index(301), ..message() });
    log.append(1, 302..=302);
    let acknowledged = log.turn().concat();
    assert_eq!(acknowledged, [(1, 301), (1, 302)]);
    let behind: Vec<_> = (291..=302).map(|index| (1, index)).collect();
    assert_durable(&log, &behind);
}

/// A leader's snapshot overtakes one of our own, which is late: the log starts from the newer one, whatever is written behind it.
#[test]
fn a_place_that_comes_late_is_none() {
    let mut log = Log::new();
    log.append(1, 1..=300);
    log.turn();
    let place = |index| walpb::Snapshot {
        index: Some(index),
        term: Some(1),
        conf_state: Some(proto::raftpb::ConfState::default()),
    };
    log.push(Message { term: Term(1), commit: Index(300), ..message() });
    for index in [290, 100] {
        assert!(log.stages.inboxes.log.push(LogWork::Snapshot(place(index))));
        log.turn();
    }
    let starts = wal::valid_snapshots(&log.disk, &small().wal_path()).unwrap();
    assert_eq!(starts.last().map(walpb::Snapshot::index), Some(290));
}

/// How far the log was committed is to be written some time, and then a leader's snapshot is further: what was put off must not be written behind that.
#[test]
fn a_state_that_was_put_off_does_not_undo_a_snapshot() {
    let mut log = Log::new();
    log.append(1, 1..=3);
    log.push(Message { term: Term(1), commit: Index(1), ..message() });
    log.turn();
    let put_off = HardState { term: Some(1), vote: None, commit: Some(3) };
    assert!(log.stages.inboxes.log.push(LogWork::State(put_off)));
    log.turn();
    let metadata = SnapshotMetadata { index: Index(9), term: Term(1), ..Default::default() };
    let snapshot = Some(Box::new(Snapshot { metadata, ..Snapshot::default() }));
    log.push(Message { snapshot, term: Term(1), commit: Index(9), ..message() });
    log.turn();
    // The member ends before the snapshot is taken up.
    log.stages.inboxes.apply.take(&mut Vec::new());
    let disk = log.disk.clone();
    log.stages.stop();
    let starts = wal::valid_snapshots(&disk, &small().wal_path()).unwrap();
    assert_eq!(starts.last().map(walpb::Snapshot::index), Some(9));
}
