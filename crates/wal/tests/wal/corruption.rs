//! Corrupt and torn files.

use std::sync::Arc;

use env::{Disk, Open, OsDisk, SimDisk};
use proptest::prelude::*;
use prost::Message;
use proto::raftpb::{Entry, EntryType, HardState};
use wal::{LogContents, ReadError, Repair, RepairError, Wal};

use crate::common::*;
use crate::scenario::assert_same;

const SEGMENT: u64 = 1024;
const FIRST: &str = "0000000000000000-0000000000000000.wal";
const SECOND: &str = "0000000000000001-0000000000000001.wal";

/// A durable log of a few segments, with overwritten entries and a conf change.
fn sample() -> (SimDisk, LogContents) {
    let disk = disk(1);
    let mut wal = create(&disk, SEGMENT);
    wal.save(&state(1, 0), &entries(1, 1..=3, 40), true).unwrap();
    wal.save(&state(2, 1), &entries(2, 2..=2, 300), true).unwrap();
    wal.save(&state(2, 2), &entries(2, 3..=5, 0), true).unwrap();
    wal.save_snapshot(&snapshot(2, 2)).unwrap();
    let change = Entry { r#type: Some(EntryType::EntryConfChange as i32), ..entry(2, 6, 30) };
    wal.save(&state(2, 5), &[change], true).unwrap();
    for index in 7..=12 {
        wal.save(&state(3, index - 1), &[entry(3, index, 230)], true).unwrap();
    }
    wal.save(&HardState { vote: Some(0), ..state(4, 12) }, &[], true).unwrap();
    wal.close().unwrap();
    let (wal, contents) = reopen(&disk, SEGMENT, &snapshot(0, 0));
    wal.close().unwrap();
    assert_eq!(names(&disk).len(), 3, "two closed segments and an open one");
    (disk, contents)
}

/// Starts as a member does: reads, and repairs a torn tail once.
fn start(disk: &SimDisk) -> Result<LogContents, ReadError> {
    let open = || {
        let opening = Wal::open(shared(disk), dir(), &snapshot(0, 0), segments_of(SEGMENT))?;
        opening.read_all().map(|(_, contents)| contents)
    };
    match open() {
        Err(error) if error.is_torn() => {
            wal::repair(disk, dir()).unwrap();
            open()
        }
        done => done,
    }
}

#[test]
fn a_flipped_bit_is_detected_or_harmless() {
    let (disk, expected) = sample();
    let (mut noticed, mut harmless) = (0, 0);
    for name in names(&disk) {
        let bits = disk.contents(path(&name)).unwrap().len() as u64 * 8;
        for bit in 0..bits {
            let disk = disk.power_cut(0);
            disk.flip_bit(path(&name), bit);
            match start(&disk) {
                Ok(contents) => {
                    assert_same(&contents, &expected);
                    harmless += 1;
                }
                Err(error) => {
                    assert!(
                        error.to_string().contains(&name),
                        "{error} does not name the file {name}"
                    );
                    noticed += 1;
                }
            }
        }
    }
    assert!(noticed > 15_000 && harmless > 1_000, "{noticed} detected, {harmless} harmless");
}

/// Creates a log with one segment that has these records.
fn log_of(records: &[(i64, Vec<u8>)]) -> (SimDisk, RawLog) {
    let mut log = RawLog::default();
    log.segment(FIRST, METADATA);
    log.push(5, &snapshot(0, 0).encode_to_vec());
    records.iter().for_each(|(kind, data)| log.push(*kind, data));
    let disk = disk(1);
    log.write(&disk);
    (disk, log)
}

fn error_of(disk: &SimDisk) -> String {
    wal::read_all(disk, dir(), &snapshot(0, 0)).unwrap_err().to_string()
}

/// Overwrites bytes of the first segment, or appends to it.
fn overwrite(disk: &SimDisk, offset: u64, bytes: &[u8]) {
    let file = disk.open(&path(FIRST), Open::write()).unwrap();
    file.write_at(bytes, offset).unwrap();
    file.sync_data().unwrap();
}

fn len(disk: &SimDisk) -> u64 {
    disk.contents(path(FIRST)).unwrap().len() as u64
}

#[test]
fn a_zero_length_before_a_valid_record_is_corruption() {
    // A record of 16 bytes needs no padding: its length field has one bit set.
    let (disk, _) = log_of(&[]);
    let end = len(&disk);
    let (disk, _) =
        log_of(&[(3, state(1, 3).encode_to_vec()), (2, entry(1, 1, 90).encode_to_vec())]);
    overwrite(&disk, end, &[0; 8]);
    let location = format!("in file '{FIRST}' at position: {end}");
    assert_eq!(
        error_of(&disk),
        format!("wal: corrupt record: {location}: zero length field before a valid record")
    );
}

#[test]
fn a_length_beyond_the_file_is_torn_only_if_the_record_agrees() {
    let (disk, _) = log_of(&[]);
    let start = len(&disk);
    let (disk, _) = log_of(&[(2, entry(1, 1, 900).encode_to_vec())]);
    let whole = disk.contents(path(FIRST)).unwrap();
    // The file ends anywhere within the record: torn.
    for end in (start + 1..start + 40).chain([start + 500, whole.len() as u64 - 9]) {
        let file = disk.open(&path(FIRST), Open::write()).unwrap();
        file.set_len(end).unwrap();
        let opening =
            Wal::open(shared(&disk), dir(), &snapshot(0, 0), segments_of(SEGMENT)).unwrap();
        let error = opening.read_all().unwrap_err();
        assert!(error.is_torn(), "at {end}: {error}");
        assert!(error.to_string().starts_with("unexpected EOF: in file '"), "{error}");
        overwrite(&disk, 0, &whole);
    }
    // The length field exceeds the record's own length: corrupt.
    let field = &whole[usize::try_from(start).unwrap()..][..8];
    let field = u64::from_le_bytes(field.try_into().unwrap());
    overwrite(&disk, start, &(field + (1 << 29)).to_le_bytes());
    assert!(
        error_of(&disk).ends_with("record length differs from its length field"),
        "{}",
        error_of(&disk)
    );
}

/// The file is sparse and that long, and the record agrees with its length field.
#[test]
fn an_oversized_record_is_rejected_before_memory_is_allocated() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("wal");
    let os: Arc<dyn Disk> = Arc::new(OsDisk);
    let wal = Wal::create(Arc::clone(&os), &dir, METADATA, segments_of(4096)).unwrap();
    let end = wal.written().offset;
    wal.close().unwrap();
    let file = os.open(&dir.join(FIRST), Open::write()).unwrap();
    // One byte above the maximum, and more than any memory.
    for record_len in [(1 << 30) + 29, 7 << 40] {
        let mut record = vec![0x08, 2, 0x10, 0, 0x1a];
        // Both sizes take six bytes.
        let data_len: u64 = record_len - 11;
        record.extend((0..6).map(|at| {
            let more = if at < 5 { 0x80 } else { 0 };
            u8::try_from(data_len >> (7 * at) & 0x7f).unwrap() | more
        }));
        let pad = record_len.next_multiple_of(8) - record_len;
        let top = if pad == 0 { 0 } else { 0x80 | pad };
        file.write_at(&(record_len | top << 56).to_le_bytes(), end).unwrap();
        file.write_at(&record, end + 8).unwrap();
        file.set_len(end + 8 + record_len + pad).unwrap();
        let expected = format!(
            "wal: corrupt record: in file '{FIRST}' at position: {end}: \
             length field exceeds the maximum record size"
        );
        let errors = [
            wal::valid_snapshots(&*os, &dir).unwrap_err(),
            wal::read_all(&*os, &dir, &snapshot(0, 0)).unwrap_err(),
        ];
        assert_eq!(errors.map(|error| error.to_string()), [&*expected; 2]);
        // Without its length field, the record is not checksummed either.
        file.write_at(&[0; 8], end).unwrap();
        assert_eq!(wal::read_all(&*os, &dir, &snapshot(0, 0)).unwrap().entries, []);
    }
}

#[test]
fn a_lost_sector_is_torn_and_a_changed_one_is_corrupt() {
    let (disk, _) =
        log_of(&[(2, entry(1, 1, 3000).encode_to_vec()), (2, entry(1, 2, 10).encode_to_vec())]);
    let whole = disk.contents(path(FIRST)).unwrap();
    overwrite(&disk, 1024, &[0; 512]);
    assert_eq!(
        wal::read_all(&disk, dir(), &snapshot(0, 0)).unwrap().entries,
        [],
        "reading stops at the torn record"
    );
    let opening = Wal::open(shared(&disk), dir(), &snapshot(0, 0), segments_of(SEGMENT)).unwrap();
    assert!(opening.read_all().unwrap_err().is_torn());
    overwrite(&disk, 1024, &whole[1024..1536]);
    overwrite(&disk, 1030, &[0; 400]);
    assert!(error_of(&disk).starts_with("walpb: crc mismatch: expected: "), "{}", error_of(&disk));
}

/// The bytes allow no better: see `reader`. etcd reads these the same way.
#[test]
fn corruption_that_looks_like_a_lost_sector_is_taken_for_torn() {
    let zeros = Entry { data: Some(vec![0; 2000].into()), ..entry(1, 1, 0) };
    let (disk, _) = log_of(&[(2, zeros.encode_to_vec())]);
    disk.flip_bit(path(FIRST), (len(&disk) - 100) * 8);
    let opening = Wal::open(shared(&disk), dir(), &snapshot(0, 0), segments_of(SEGMENT)).unwrap();
    assert!(opening.read_all().unwrap_err().is_torn());
}

#[test]
fn a_closed_segment_is_never_torn() {
    let (disk, expected) = sample();
    let contents = disk.contents(path(FIRST)).unwrap();
    overwrite(&disk, 512, &[0; 512]);
    assert!(matches!(start(&disk), Err(ReadError::Crc { .. } | ReadError::Corrupt { .. })));
    overwrite(&disk, 512, &contents[512..1024]);
    assert_same(&start(&disk).unwrap(), &expected);
    let file = disk.open(&path(FIRST), Open::write()).unwrap();
    file.set_len(contents.len() as u64 - 8).unwrap();
    assert!(matches!(start(&disk), Err(ReadError::Corrupt { .. })));
}

#[test]
fn records_that_no_writer_produces_are_corrupt() {
    let corrupt = |records: &[(i64, Vec<u8>)], reason: &str| {
        let text = error_of(&log_of(records).0);
        assert!(text.starts_with("wal: corrupt record: ") && text.ends_with(reason), "{text}");
    };
    corrupt(&[(1, METADATA.to_vec())], "unexpected record kind at this position");
    corrupt(&[(4, Vec::new())], "unexpected record kind at this position");
    corrupt(&[(2, vec![0xff])], "message does not decode");
    corrupt(&[(3, entry(1, 1, 5).encode_to_vec())], "message has unknown fields");
    corrupt(&[(2, entry(0, 1, 5).encode_to_vec())], "entry without term or index");
    let leap = [(3, state(1, 0).encode_to_vec()), (2, entry(VOTE, 1, 5).encode_to_vec())];
    corrupt(&leap, "implausible entry term");
    let back = [(2, entry(5, 1, 5).encode_to_vec()), (2, entry(4, 2, 5).encode_to_vec())];
    corrupt(&back, "entry term is lower than the previous one");
    let (disk, _) = log_of(&[(6, Vec::new())]);
    assert!(
        error_of(&disk).starts_with("unexpected block type 6: in file '"),
        "{}",
        error_of(&disk)
    );
    let (disk, _) =
        log_of(&[(2, entry(1, 1, 5).encode_to_vec()), (2, entry(1, 3, 5).encode_to_vec())]);
    assert!(error_of(&disk).starts_with("wal: slice bounds out of range"), "{}", error_of(&disk));
}

#[test]
fn a_segment_without_its_first_records_is_corrupt() {
    let (disk, mut log) = log_of(&[]);
    log.segment(SECOND, METADATA);
    log.write(&disk);
    for keep in [0, 8, 16, 20] {
        let file = disk.open(&path(SECOND), Open::write()).unwrap();
        file.set_len(keep).unwrap();
        assert!(error_of(&disk).contains(SECOND), "{}", error_of(&disk));
        log.write(&disk);
    }
    assert!(wal::read_all(&disk, dir(), &snapshot(0, 0)).is_ok());
}

#[test]
fn repair_truncates_a_torn_tail_and_keeps_a_copy() {
    let (disk, mut log) = log_of(&[(2, entry(1, 1, 90).encode_to_vec())]);
    let end = len(&disk);
    assert_eq!(wal::repair(&disk, dir()).unwrap(), Repair::NotNeeded);
    log.push(2, &entry(1, 2, 900).encode_to_vec());
    log.write(&disk);
    overwrite(&disk, 512, &[0; 512]);
    let broken = disk.contents(path(FIRST)).unwrap();
    let copy = path(&format!("{FIRST}.broken"));
    assert_eq!(wal::repair(&disk, dir()).unwrap(), Repair::Cut { offset: end, copy: copy.clone() });
    assert_eq!(disk.contents(&copy).unwrap(), broken);
    assert_eq!(len(&disk), end);
    let (mut wal, contents) = reopen(&disk, SEGMENT, &snapshot(0, 0));
    assert_eq!(contents.entries, entries(1, 1..=1, 90));
    wal.save(&state(1, 1), &entries(1, 2..=2, 90), true).unwrap();
    wal.close().unwrap();
    assert_eq!(reopen(&disk, SEGMENT, &snapshot(0, 0)).1.entries, entries(1, 1..=2, 90));
}

#[test]
fn corruption_is_not_repaired() {
    let (disk, _) = log_of(&[(2, entry(1, 1, 900).encode_to_vec())]);
    disk.flip_bit(path(FIRST), 8 * 600);
    let before = disk.contents(path(FIRST));
    let error = wal::repair(&disk, dir()).unwrap_err();
    assert!(matches!(&error, RepairError::NotTorn(ReadError::Crc { .. })), "{error}");
    assert_eq!(disk.contents(path(FIRST)), before);
    assert_eq!(names(&disk), [FIRST]);
}

#[test]
fn remains_of_a_torn_write_are_removed_before_appending() {
    let (disk, mut log) = log_of(&[]);
    let end = len(&disk);
    // The sectors at the start of a save were lost, and later ones were not.
    log.bytes(&[0; 1024]);
    log.bytes(&[7; 1024]);
    log.write(&disk);
    let (mut wal, _) = reopen(&disk, 4096, &snapshot(0, 0));
    assert_eq!(wal.written().offset, end);
    let rest = &disk.contents(path(FIRST)).unwrap()[usize::try_from(end).unwrap()..];
    assert!(rest.iter().all(|&byte| byte == 0));
    wal.save(&state(1, 0), &entries(1, 1..=1, 1500), true).unwrap();
    drop(wal);
    assert_eq!(reopen(&disk, 4096, &snapshot(0, 0)).1.entries, entries(1, 1..=1, 1500));
}

/// Reads the files in all ways.
fn read_in_all_ways(disk: &SimDisk) {
    let _ = wal::read_all(disk, dir(), &snapshot(0, 0));
    let _ = wal::valid_snapshots(disk, dir());
    let _ = wal::verify(disk, dir(), &snapshot(2, 2));
    let _ = wal::repair(disk, dir());
    if let Ok(opening) = Wal::open(shared(disk), dir(), &snapshot(0, 0), segments_of(SEGMENT)) {
        let _ = opening.read_all();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Reading arbitrary bytes terminates without a panic.
    #[test]
    fn arbitrary_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..1500), headed: bool) {
        let mut log = RawLog::default();
        log.segment(FIRST, METADATA);
        if !headed {
            log = RawLog::default();
            log.segment(SECOND, METADATA);
        }
        log.bytes(&bytes);
        let disk = disk(1);
        log.write(&disk);
        if !headed {
            disk.open(&path(FIRST), Open::create(env::Create::New)).unwrap().write_at(&bytes, 0).unwrap();
        }
        read_in_all_ways(&disk);
        prop_assert!(wal::exists(&disk, dir()).unwrap());
    }

    /// Many changes at once: reading terminates, and never returns entries or states that were not
    /// written.
    #[test]
    fn changed_bytes_never_invent_entries(
        changes in prop::collection::vec((0_usize..3, any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let (disk, expected) = sample();
        for (segment, at, byte) in changes {
            let path = path(&names(&disk)[segment]);
            let at = at.index(disk.contents(&path).unwrap().len()) as u64;
            disk.open(&path, Open::write()).unwrap().write_at(&[byte], at).unwrap();
        }
        if let Ok(contents) = wal::read_all(&disk, dir(), &snapshot(0, 0)) {
            // The log may end earlier, where the last segment looks torn.
            for entry in &contents.entries {
                let written = expected.entries.iter().any(|other| other == entry)
                    || entries(1, 1..=3, 40).contains(entry);
                prop_assert!(written, "{entry:?}");
            }
        }
        read_in_all_ways(&disk);
    }
}
