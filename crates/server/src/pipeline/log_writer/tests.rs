//! The log writer alone: it acknowledges nothing before it is durable.

use env::{Disk, Fault, SeededRandom, SimClock, SimDisk};
use raft::{LOCAL_APPEND_THREAD, MessageType, Snapshot, SnapshotMetadata};
use types::{MemberId, Term};

use super::*;
use crate::config::ServerConfig;
use crate::lifecycle::StopReason;
use crate::member::Platform;
use crate::stages::{Stage, Stages};
use crate::transport::NoPeers;

/// Small, so that a test uses several segments and a power cut has little to copy.
const SEGMENT_BYTES: u64 = 4 << 10;

fn config() -> ServerConfig {
    let mut config = ServerConfig::new("default", "/data");
    config.segment_bytes = SEGMENT_BYTES;
    config.backend.bolt.grow_bytes = 8 << 10;
    config
}

/// A member of which only the log writer has turns. The test reads its events for the raft loop.
struct Log {
    disk: SimDisk,
    stages: Stages,
}

/// The term and index of an entry.
type Position = (u64, u64);

impl Log {
    fn new() -> Log {
        let disk = SimDisk::new(0);
        let platform = Platform {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(SimClock::default()),
            random: Box::new(SeededRandom::new(0)),
        };
        Log { stages: Stages::boot(config(), platform, Arc::new(NoPeers)).unwrap(), disk }
    }

    /// Queues entries to append.
    fn append(&self, term: u64, indexes: std::ops::RangeInclusive<u64>) {
        let entry = |index| raft::Entry {
            term: Term(term),
            index: Index(index),
            data: format!("entry {index:050} of {term}").into(),
            ..raft::Entry::default()
        };
        let entries = indexes.map(entry).collect();
        self.push(Message { entries, ..message() });
    }

    fn push(&self, append: Message) {
        assert!(self.stages.inboxes.log.push(LogWork::Append(Box::new(append))));
    }

    /// Gives the log writer a turn. Returns the acknowledged entries of each append.
    fn turn(&mut self) -> Vec<Vec<Position>> {
        self.stages.turn(Stage::Log);
        let mut events = Vec::new();
        self.stages.server().inner.raft.queue.take(&mut events);
        let acknowledged = |event| match event {
            Event::Appended(append) => Some(append.entries.iter().map(position).collect()),
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

fn position(entry: &raft::Entry) -> Position {
    (entry.term.0, entry.index.0)
}

/// Returns the entries that a member finds when it starts from this disk.
fn found(disk: SimDisk) -> Vec<Position> {
    contents(disk).entries.iter().map(|entry| (entry.term(), entry.index())).collect()
}

/// Returns the contents of the log on this disk, after repairing a torn tail.
fn contents(disk: SimDisk) -> wal::LogContents {
    let (disk, dir): (Arc<dyn Disk>, _) = (Arc::new(disk), config().wal_path());
    let start = wal::valid_snapshots(&*disk, &dir).unwrap().pop().unwrap();
    let config = wal::Config { segment_bytes: SEGMENT_BYTES, unsafe_no_fsync: false };
    let open = || Wal::open(Arc::clone(&disk), &dir, &start, config).unwrap().read_all();
    match open() {
        Err(error) if error.is_torn() => {
            wal::repair(&*disk, &dir).unwrap();
            open().unwrap().1
        }
        read => read.unwrap().1,
    }
}

/// Checks that the log begins with these entries after any power cut.
fn assert_durable(log: &Log, entries: &[Position]) {
    for seed in 0..30 {
        let found = found(log.disk.power_cut(seed));
        assert!(found.starts_with(entries), "cut {seed} left {found:?}");
    }
}

#[test]
fn queued_appends_share_one_sync_and_are_acknowledged_in_order() {
    let mut log = Log::new();
    (1..=5).for_each(|n| log.append(1, 2 * n - 1..=2 * n));
    let before = log.syncs();
    let acknowledged = log.turn();
    assert_eq!(log.syncs(), before + 1);
    assert_eq!(acknowledged[0], [(1, 1), (1, 2)]);
    let all = acknowledged.concat();
    assert_eq!(all, (1..=10).map(|index| (1, index)).collect::<Vec<_>>());
    assert_durable(&log, &all);
    assert_eq!(log.turn(), Vec::<Vec<Position>>::new(), "acknowledged once only");
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
            // The write or the sync fails.
            log.disk.fail_change(call, fault);
            assert_eq!(log.turn(), Vec::<Vec<Position>>::new(), "{fault:?} at {call}");
            let reason = log.stages.server().inner.lifecycle.reason();
            let StopReason::Fault(why) = &reason else { panic!("{reason}") };
            assert!(why.starts_with("write the log: "), "{why}");
            // The stage has ended: it does not write even if the disk works again.
            let writes = log.disk.calls().writes;
            log.disk.heal();
            log.append(1, 7..=7);
            assert_eq!(log.turn(), Vec::<Vec<Position>>::new());
            assert_eq!(log.disk.calls().writes, writes);
            assert_durable(&log, &[(1, 1), (1, 2), (1, 3)]);
        }
    }
}

/// Entries of a new leader replace others in the same turn. They are written after them and synced
/// separately.
#[test]
fn overwriting_entries_are_written_after_the_overwritten_ones() {
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
    // Each append is a write and a sync; this is the last sync.
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
    assert_eq!(log.syncs(), before + 1, "a vote is synced");
    log.push(Message { commit: Index(1), ..state.clone() });
    assert_eq!(log.turn().len(), 1);
    assert_eq!(log.syncs(), before + 1, "a commit index is not synced");
    log.push(Message { term: Term(4), vote: None, ..state });
    log.disk.fail_change(1, Fault::Eio);
    assert_eq!(log.turn().len(), 0, "a term whose sync failed");
}

/// Entries survive across segments, and a snapshot record makes earlier segments unnecessary.
#[test]
fn entries_survive_across_segments_and_snapshots() {
    let mut log = Log::new();
    let mut all = Vec::new();
    for index in 1..=300 {
        log.append(1, index..=index);
        all.extend(log.turn().concat());
        assert_eq!(all.last(), Some(&(1, index)));
    }
    assert_durable(&log, &all);
    let dir = config().wal_path();
    let segments = || log.disk.read_dir(&dir).unwrap();
    assert!(segments().len() > 3, "{:?}", segments());
    let purge = || wal::purge(&log.disk, &dir, 1, u64::MAX).unwrap();
    assert_eq!(purge(), Vec::<String>::new(), "a replay needs all segments");

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
    let rest: Vec<_> = (291..=302).map(|index| (1, index)).collect();
    assert_durable(&log, &rest);
}

/// The snapshot of a leader overtakes a local one, which arrives late. The log starts from the
/// newer one, whichever is written last.
#[test]
fn a_late_snapshot_record_is_ignored() {
    let mut log = Log::new();
    log.append(1, 1..=300);
    log.turn();
    let record = |index| walpb::Snapshot {
        index: Some(index),
        term: Some(1),
        conf_state: Some(proto::raftpb::ConfState::default()),
    };
    log.push(Message { term: Term(1), commit: Index(300), ..message() });
    for index in [290, 100] {
        assert!(log.stages.inboxes.log.push(LogWork::Snapshot(record(index))));
        log.turn();
    }
    let starts = wal::valid_snapshots(&log.disk, &config().wal_path()).unwrap();
    assert_eq!(starts.last().map(walpb::Snapshot::index), Some(290));
}

/// A deferred commit index must not be written after the snapshot of a leader with a higher index.
#[test]
fn a_deferred_hard_state_does_not_undo_a_snapshot() {
    let mut log = Log::new();
    log.append(1, 1..=3);
    log.push(Message { term: Term(1), commit: Index(1), ..message() });
    log.turn();
    let deferred = HardState { term: Some(1), vote: None, commit: Some(3) };
    assert!(log.stages.inboxes.log.push(LogWork::State(deferred)));
    log.turn();
    let metadata = SnapshotMetadata { index: Index(9), term: Term(1), ..Default::default() };
    let snapshot = Some(Box::new(Snapshot { metadata, ..Snapshot::default() }));
    log.push(Message { snapshot, term: Term(1), commit: Index(9), ..message() });
    log.turn();
    // The member ends before the snapshot is applied.
    log.stages.inboxes.apply.take(&mut Vec::new());
    let disk = log.disk.clone();
    log.stages.stop();
    let starts = wal::valid_snapshots(&disk, &config().wal_path()).unwrap();
    assert_eq!(starts.last().map(walpb::Snapshot::index), Some(9));
}

fn entry(index: u64, bytes: usize) -> Entry {
    Entry { index: Some(index), data: Some(vec![0; bytes].into()), ..Entry::default() }
}

#[test]
fn entries_are_written_in_chunks_of_bounded_size() {
    let entries: Vec<_> = (1..=7).map(|index| entry(index, 10)).collect();
    let lengths =
        |bytes_max| -> Vec<usize> { chunks(&entries, bytes_max).map(<[Entry]>::len).collect() };
    assert_eq!(lengths(71), [7]);
    assert_eq!(lengths(25), [3, 3, 1]);
    assert_eq!(lengths(1), [1; 7]);
    assert_eq!(chunks(&[], 1).count(), 0);
}
