//! Behavior of a log without faults, and its errors on misuse.

use std::path::Path;

use env::{Create, Disk, Fault, Open, SimDisk};
use prost::Message;
use proto::raftpb::HardState;
use proto::walpb::Snapshot;
use wal::{OpenError, RecordKind, Records, ReplayEvent, SaveError, Wal};

use crate::common::*;

const SMALL: u64 = 2048;
const FIRST: &str = "0000000000000000-0000000000000000.wal";

/// The records of a log written by `etcdutl snapshot restore` of etcd 3.7, in order; each checksum
/// continues from the one before.
const RESTORED: [&str; 6] = [
    "08041000",
    "080110dfb4ba9d041a1508809fe6c197ffa2d45810b7a095f3d6ba93b1a201",
    "080510eede8f93081a0408001000",
    "080210e7bdf8a1011a64080110011801225c100018809fe6c197ffa2d458224e7b226964223a363338383530393937353030353230343335322c\
     227065657255524c73223a5b22687474703a2f2f3132372e302e302e313a31225d2c226e616d65223a22726573746f726564227d",
    "080310ecece6ac091a0e080110809fe6c197ffa2d4581801",
    "080510f2f7a7980b1a10080110011a0a08809fe6c197ffa2d458",
];

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// The data of a record: the bytes after `1a size`.
fn data(record: &str) -> bytes::Bytes {
    proto::walpb::Record::decode(&unhex(record)[..]).unwrap().data.unwrap()
}

#[test]
fn the_written_bytes_match_etcd() {
    let disk = disk(1);
    let [_, metadata, _, entry, state, snapshot] = RESTORED;
    let mut wal = Wal::create(shared(&disk), dir(), data(metadata), segments_of(4096)).unwrap();
    let entry = proto::raftpb::Entry::decode(data(entry)).unwrap();
    let state = HardState::decode(data(state)).unwrap();
    wal.save(&state, &[entry], true).unwrap();
    wal.save_snapshot(&Snapshot::decode(data(snapshot)).unwrap()).unwrap();

    let mut expected = Vec::new();
    for record in RESTORED.map(unhex) {
        let pad = record.len().next_multiple_of(8) - record.len();
        let top = if pad == 0 { 0 } else { 0x80 | pad as u64 };
        expected.extend((record.len() as u64 | top << 56).to_le_bytes());
        expected.extend(&record);
        expected.extend(&vec![0; pad]);
    }
    let used = expected.len();
    expected.resize(4096, 0);
    assert_eq!(disk.contents(path(FIRST)).unwrap(), expected);
    assert_eq!(wal.written().offset, used as u64);
    assert_eq!(wal.bytes_written(), used as u64);
    assert_eq!(wal.durable(), wal.written());
}

#[test]
fn written_bytes_are_counted_over_all_segments() {
    let disk = disk(1);
    let mut wal = create(&disk, 4096);
    for index in 1..=20 {
        wal.save(&state(1, 0), &entries(1, index..=index, 1000), true).unwrap();
    }
    let seq = wal.written().seq;
    assert!(seq > 2);
    // All segments but the last are truncated to their content.
    let names = names(&disk).into_iter().filter(|name| name.ends_with(".wal"));
    let full = names.map(|name| disk.contents(path(&name)).unwrap().len() as u64);
    let full: Vec<u64> = full.take(usize::try_from(seq).unwrap()).collect();
    assert_eq!(wal.bytes_written(), full.iter().sum::<u64>() + wal.written().offset);
}

#[test]
fn saved_records_are_read_back() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    let written = entries(1, 1..=3, 100);
    wal.save(&state(1, 0), &written[..2], true).unwrap();
    wal.save(&state(1, 2), &written[2..], true).unwrap();
    assert_eq!(wal.last_index(), 3);
    wal.close().unwrap();
    let (wal, contents) = reopen(&disk, 1 << 20, &snapshot(0, 0));
    assert_eq!(contents.metadata, METADATA);
    assert_eq!(contents.state, state(1, 2));
    assert_eq!(contents.entries, written);
    assert_eq!(wal.last_index(), 3);
    assert_eq!(wal.state(), &state(1, 2));
}

#[test]
fn a_state_is_written_with_all_its_fields() {
    let disk = disk(1);
    let mut wal = create(&disk, 4096);
    wal.save(&HardState { term: Some(2), ..HardState::default() }, &[], true).unwrap();
    let read = wal::read_all(&disk, dir(), &snapshot(0, 0)).unwrap();
    assert_eq!(read.state, HardState { term: Some(2), vote: Some(0), commit: Some(0) });
}

#[test]
fn a_save_is_one_write_and_one_sync() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    let before = disk.calls();
    wal.save(&state(1, 0), &entries(1, 1..=256, 256), true).unwrap();
    let after = disk.calls();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
    assert_eq!(after.all() - before.all(), 2, "no other disk calls");
    wal.save(&state(1, 1), &[], false).unwrap();
    assert_eq!(disk.calls().syncs, after.syncs, "not synced unless requested");
    assert!(wal.durable() < wal.written());
    wal.save(&HardState::default(), &[], false).unwrap();
    assert_eq!(disk.calls().writes, after.writes + 1, "an empty save writes nothing");
    wal.sync().unwrap();
    assert_eq!(wal.durable(), wal.written());
    wal.sync().unwrap();
    assert_eq!(disk.calls().syncs, after.syncs + 1, "durable data is not synced again");
}

#[test]
fn a_huge_save_takes_several_writes_and_one_sync() {
    let disk = disk(1);
    let mut wal = create(&disk, 64 << 20);
    let before = disk.calls();
    let written = entries(1, 1..=12, 1 << 20);
    wal.save(&state(1, 0), &written, true).unwrap();
    let after = disk.calls();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (4, 1));
    wal.close().unwrap();
    assert_eq!(reopen(&disk, 64 << 20, &snapshot(0, 0)).1.entries, written);
}

#[test]
fn entries_overwrite_uncommitted_ones() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    wal.save(&state(1, 1), &entries(1, 1..=5, 10), true).unwrap();
    wal.save(&state(2, 1), &entries(2, 3..=4, 10), true).unwrap();
    let expected = [entries(1, 1..=2, 10), entries(2, 3..=4, 10)].concat();
    assert_eq!(wal::read_all(&disk, dir(), &snapshot(0, 0)).unwrap().entries, expected);
    let mut seen = Vec::new();
    let note = |replayed| match replayed {
        ReplayEvent::Entry(entry) => seen.push(entry.index()),
        ReplayEvent::Overwritten => seen.push(0),
    };
    wal::read(&disk, dir(), &snapshot(0, 0), note).unwrap();
    assert_eq!(seen, [1, 2, 3, 4, 5, 3, 4], "a visitor sees the overwritten entries");
}

/// After the snapshot, the overwriting entries are not visible. etcd returns the old ones.
#[test]
fn entries_overwritten_before_a_snapshot_stay_overwritten() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    wal.save(&state(5, 1), &entries(5, 1..=5, 10), true).unwrap();
    // A later leader, with entries of an earlier one that this member lacks.
    wal.save(&state(6, 3), &entries(5, 2..=3, 20), true).unwrap();
    wal.save_snapshot(&snapshot(3, 5)).unwrap();
    assert_eq!(wal::read_all(&disk, dir(), &snapshot(3, 5)).unwrap().entries, []);
    let mut seen = Vec::new();
    wal::read(&disk, dir(), &snapshot(3, 5), |replayed| seen.push(replayed)).unwrap();
    let expected = [entry(5, 4, 10), entry(5, 5, 10)].map(ReplayEvent::Entry);
    assert_eq!(seen, [&expected[..], &[ReplayEvent::Overwritten]].concat());
}

/// Some entries after the snapshot are of an earlier term, and all after them are overwritten too.
#[test]
fn entries_after_an_overwritten_one_are_overwritten() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    wal.save(&state(3, 1), &entries(3, 1..=4, 10), true).unwrap();
    wal.save(&state(5, 1), &entries(5, 5..=6, 10), true).unwrap();
    wal.save(&state(6, 2), &entries(4, 2..=2, 20), true).unwrap();
    wal.save_snapshot(&snapshot(2, 4)).unwrap();
    let read = || wal::read_all(&disk, dir(), &snapshot(2, 4)).unwrap().entries;
    assert_eq!(read(), []);
    wal.save(&state(6, 3), &entries(6, 3..=4, 20), true).unwrap();
    assert_eq!(read(), entries(6, 3..=4, 20));
}

#[test]
fn a_leaders_snapshot_overwrites_the_entries_after_it() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    wal.save(&state(1, 1), &entries(1, 1..=5, 10), true).unwrap();
    wal.save_snapshot(&snapshot(3, 2)).unwrap();
    wal.save(&state(2, 3), &[], true).unwrap();
    drop(wal);
    let (mut wal, contents) = reopen(&disk, 1 << 20, &snapshot(3, 2));
    assert_eq!(contents.entries, []);
    wal.save(&state(2, 3), &entries(2, 4..=4, 10), true).unwrap();
    drop(wal);
    assert_eq!(reopen(&disk, 1 << 20, &snapshot(3, 2)).1.entries, entries(2, 4..=4, 10));
}

/// The leader's entry at the snapshot differs from ours, so all our entries after it are dropped,
/// although their term is later.
#[test]
fn a_leaders_snapshot_overwrites_entries_after_a_different_entry() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    wal.save(&state(4, 1), &entries(4, 1..=8, 10), true).unwrap();
    wal.save(&state(6, 1), &entries(6, 9..=9, 10), true).unwrap();
    wal.save_snapshot(&snapshot(8, 5)).unwrap();
    wal.save(&state(7, 8), &[], true).unwrap();
    let mut seen = Vec::new();
    wal::read(&disk, dir(), &snapshot(8, 5), |replayed| seen.push(replayed)).unwrap();
    assert_eq!(seen, [ReplayEvent::Entry(entry(6, 9, 10)), ReplayEvent::Overwritten]);
    wal.save(&state(7, 8), &entries(7, 9..=10, 10), true).unwrap();
    // The same snapshot again overwrites nothing.
    wal.save_snapshot(&snapshot(8, 5)).unwrap();
    wal.close().unwrap();
    assert_eq!(reopen(&disk, 1 << 20, &snapshot(8, 5)).1.entries, entries(7, 9..=10, 10));
}

/// A member's own snapshot is at an entry that it has, and later entries stay, of the same term or
/// a later one.
#[test]
fn an_own_snapshot_keeps_the_entries_after_it() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    wal.save(&state(4, 1), &entries(4, 1..=8, 10), true).unwrap();
    wal.save(&state(5, 1), &entries(5, 8..=8, 10), true).unwrap();
    wal.save(&state(6, 8), &entries(6, 9..=9, 10), true).unwrap();
    wal.save_snapshot(&snapshot(8, 5)).unwrap();
    wal.close().unwrap();
    assert_eq!(reopen(&disk, 1 << 20, &snapshot(8, 5)).1.entries, entries(6, 9..=9, 10));
}

#[test]
#[should_panic(expected = "gap in the log: entry 3 saved after 1")]
fn saving_entries_with_a_gap_panics() {
    let mut wal = create(&disk(1), 4096);
    wal.save(&state(1, 0), &[entry(1, 1, 1), entry(1, 3, 1)], true).unwrap();
}

#[test]
fn segments_are_cut_at_the_configured_size() {
    let disk = disk(1);
    let mut wal = create(&disk, SMALL);
    for index in 1..=9 {
        wal.save(&state(1, index - 1), &[entry(1, index, 500)], true).unwrap();
    }
    let expected = [
        "0000000000000000-0000000000000000.wal",
        "0000000000000001-0000000000000005.wal",
        "0000000000000002-0000000000000009.wal",
    ];
    assert_eq!(names(&disk), expected);
    for closed in &expected[..2] {
        let contents = disk.contents(path(closed)).unwrap();
        assert!(contents.len() as u64 >= SMALL, "cut no earlier than at its size");
        assert_ne!(contents[contents.len() - 16..], [0; 16], "truncated to its content");
    }
    assert_eq!(disk.contents(path(expected[2])).unwrap().len() as u64, SMALL);

    let mut records = Records::open(&disk, dir()).unwrap();
    let mut starts = Vec::new();
    while let Some(record) = records.next().unwrap() {
        if record.location.file == expected[1] {
            starts.push(record.kind);
        }
    }
    assert_eq!(
        starts[..4],
        [RecordKind::Crc, RecordKind::Metadata, RecordKind::State, RecordKind::Entry]
    );
    drop(wal);
    let (_, contents) = reopen(&disk, SMALL, &snapshot(0, 0));
    assert_eq!(contents.entries.len(), 9);
}

#[test]
fn reading_starts_at_a_snapshot() {
    let disk = disk(1);
    let mut wal = create(&disk, SMALL);
    for index in 1..=9 {
        wal.save(&state(1, index), &[entry(1, index, 500)], true).unwrap();
        if index == 6 {
            wal.save_snapshot(&snapshot(6, 1)).unwrap();
        }
    }
    drop(wal);
    let (_, contents) = reopen(&disk, SMALL, &snapshot(6, 1));
    assert_eq!(contents.entries, entries(1, 7..=9, 500));
    let read = |index, term| wal::read_all(&disk, dir(), &snapshot(index, term)).unwrap_err();
    assert!(read(6, 2).to_string().starts_with("wal: snapshot mismatch"), "{}", read(6, 2));
    assert_eq!(read(5, 1).to_string(), "wal: snapshot not found: index 5, term 1");
    let opened = Wal::open(shared(&disk), dir(), &snapshot(5, 1), segments_of(SMALL)).unwrap();
    let text = opened.read_all().unwrap_err().to_string();
    assert_eq!(text, "wal: snapshot not found: index 5, term 1", "also when opened for writing");
}

#[test]
fn a_leaders_snapshot_may_be_ahead_of_the_log() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    wal.save(&state(1, 2), &entries(1, 1..=2, 10), true).unwrap();
    wal.save_snapshot(&snapshot(100, 3)).unwrap();
    wal.save(&state(3, 100), &entries(3, 101..=102, 10), true).unwrap();
    drop(wal);
    let (wal, contents) = reopen(&disk, 1 << 20, &snapshot(100, 3));
    assert_eq!(contents.entries, entries(3, 101..=102, 10));
    assert_eq!(wal.last_index(), 102);
    drop(wal);
    let text = wal::read_all(&disk, dir(), &snapshot(0, 0)).unwrap_err().to_string();
    assert!(
        text.starts_with(
            "wal: slice bounds out of range, snapshot[Index: 0, Term: 0], \
             current entry[Index: 101, Term: 3], len(ents): 2"
        ),
        "{text}"
    );
}

#[test]
fn snapshots_are_valid_once_committed() {
    let disk = disk(1);
    let mut wal = create(&disk, 1 << 20);
    wal.save(&state(1, 4), &entries(1, 1..=4, 10), true).unwrap();
    wal.save_snapshot(&snapshot(4, 1)).unwrap();
    wal.save_snapshot(&snapshot(100, 3)).unwrap();
    let valid = || wal::valid_snapshots(&disk, dir()).unwrap();
    assert_eq!(valid(), [snapshot(0, 0), snapshot(4, 1)]);
    wal.save(&state(3, 100), &[], true).unwrap();
    assert_eq!(valid(), [snapshot(0, 0), snapshot(4, 1), snapshot(100, 3)]);
    assert_eq!(wal::verify(&disk, dir(), &snapshot(4, 1)).unwrap(), state(3, 100));
    assert!(wal::verify(&disk, dir(), &snapshot(5, 1)).is_err());
}

#[test]
fn a_snapshot_record_must_be_complete() {
    let disk = disk(1);
    let mut wal = create(&disk, 4096);
    let before = wal.written();
    for (snapshot, missing) in [
        (Snapshot { index: None, ..snapshot(1, 1) }, "index"),
        (Snapshot { term: None, ..snapshot(1, 1) }, "term"),
        (Snapshot { conf_state: None, ..snapshot(1, 1) }, "ConfState"),
    ] {
        let text = wal.save_snapshot(&snapshot).unwrap_err().to_string();
        assert_eq!(text, format!("wal: snapshot is missing {missing}"));
    }
    assert_eq!(wal.written(), before);
    wal.save(&state(1, 0), &[], true).unwrap();
}

#[test]
fn an_existing_log_is_not_created_again() {
    let disk = disk(1);
    drop(create(&disk, 4096));
    let again = Wal::create(shared(&disk), dir(), METADATA, segments_of(4096)).unwrap_err();
    assert!(matches!(again, OpenError::Exists { .. }), "{again}");
    assert_eq!(disk.kind(Path::new("/member/wal.tmp")).unwrap(), None);
}

#[test]
fn a_log_is_created_over_the_remains_of_a_failed_attempt() {
    let disk = disk(1);
    disk.create_dir_all(Path::new("/member/wal.tmp/x")).unwrap();
    disk.create_dir_all(dir()).unwrap();
    drop(create(&disk, 4096));
    assert_eq!(names(&disk), [FIRST]);
    assert_eq!(disk.kind(Path::new("/member/wal.tmp")).unwrap(), None);
}

#[test]
fn a_log_has_at_most_one_writer() {
    let disk = disk(1);
    let wal = create(&disk, 4096);
    let open = || Wal::open(shared(&disk), dir(), &snapshot(0, 0), segments_of(4096));
    let text = open().unwrap_err().to_string();
    assert_eq!(text, format!("fileutil: file already locked: /member/wal/{FIRST}"));
    assert!(wal::read_all(&disk, dir(), &snapshot(0, 0)).is_ok(), "reading needs no lock");
    drop(wal);
    assert!(open().is_ok());
}

#[test]
fn opening_without_a_log_fails() {
    let disk = disk(1);
    let open = || Wal::open(shared(&disk), dir(), &snapshot(0, 0), segments_of(4096));
    assert!(matches!(open(), Err(OpenError::Disk(_))), "no directory");
    disk.create_dir_all(dir()).unwrap();
    assert_eq!(open().unwrap_err().to_string(), "wal: file not found");
}

#[test]
fn conflicting_metadata_is_an_error() {
    let disk = disk(1);
    let log = |other: &'static [u8]| {
        let mut log = RawLog::default();
        log.segment("0000000000000000-0000000000000000.wal", METADATA);
        log.push(5, &snapshot(0, 0).encode_to_vec());
        log.segment("0000000000000001-0000000000000001.wal", other);
        log.write(&disk);
        wal::read_all(&disk, dir(), &snapshot(0, 0))
    };
    assert!(log(METADATA).is_ok());
    let text = log(b"other").unwrap_err().to_string();
    let location = "in file '0000000000000001-0000000000000001.wal' at position: 16";
    assert_eq!(text, format!("wal: conflicting metadata found: {location}"));
}

#[test]
fn the_parent_directories_of_a_new_log_are_durable() {
    let disk = SimDisk::new(1);
    let dir = Path::new("/data/member/wal");
    let mut wal = Wal::create(shared(&disk), dir, METADATA, segments_of(SMALL)).unwrap();
    wal.save(&state(1, 1), &entries(1, 1..=3, 10), true).unwrap();
    for seed in 0..50 {
        let found = disk.power_cut(seed);
        assert!(wal::exists(&found, dir).unwrap(), "seed {seed}");
        let read = wal::read_all(&found, dir, &snapshot(0, 0)).unwrap();
        assert_eq!(read.entries, entries(1, 1..=3, 10));
    }
}

#[test]
fn unknown_files_are_ignored() {
    let disk = disk(1);
    drop(create(&disk, 4096));
    for name in ["0.tmp", "1.tmp", "notes", "0000000000000000-0000000000000000.wal.broken"] {
        disk.open(&path(name), Open::create(Create::New)).unwrap();
    }
    let _wal = reopen(&disk, 4096, &snapshot(0, 0));
    let left = [
        "0000000000000000-0000000000000000.wal",
        "0000000000000000-0000000000000000.wal.broken",
        "notes",
    ];
    assert_eq!(names(&disk), left, "unused prepared segments are removed");
}

#[test]
fn a_failed_log_refuses_further_saves() {
    let disk = disk(1);
    let mut wal = create(&disk, 4096);
    wal.save(&state(1, 0), &entries(1, 1..=1, 10), true).unwrap();
    disk.fail_change(1, Fault::Eio);
    let first = wal.save(&state(1, 0), &entries(1, 2..=2, 10), true).unwrap_err();
    assert!(matches!(first, SaveError::Failed(_)));
    assert!(first.to_string().starts_with(&format!("wal: sync /member/wal/{FIRST}: ")), "{first}");
    let before = disk.calls();
    let refused = [
        wal.save(&state(1, 0), &entries(1, 3..=3, 10), true).unwrap_err(),
        wal.save_snapshot(&snapshot(1, 1)).unwrap_err(),
        wal.sync().unwrap_err(),
        wal.close().unwrap_err(),
    ];
    for error in refused {
        let text = error.to_string();
        assert!(
            text.starts_with("wal: writes are refused after an earlier failure: sync /member/wal/"),
            "{text}"
        );
    }
    assert_eq!(disk.calls().changes(), before.changes(), "no more disk changes");
}

#[test]
fn syncs_can_be_disabled() {
    let disk = disk(1);
    let config = wal::Config { unsafe_no_fsync: true, ..segments_of(4096) };
    let mut wal = Wal::create(shared(&disk), dir(), METADATA, config).unwrap();
    let before = disk.calls().syncs;
    wal.save(&state(1, 0), &entries(1, 1..=1, 10), true).unwrap();
    assert_eq!(disk.calls().syncs, before);
}
