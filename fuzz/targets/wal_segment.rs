//! Reads arbitrary bytes as the segment of a log, in every way, and repairs it.
//!
//! Invariants: no panic, and reading terminates. Reading twice gives the same result. After a
//! repair the log is not torn any more, and it never has more entries than before.

#![no_main]

use std::path::Path;
use std::sync::Arc;

use env::{Create, Disk, Open, SimDisk};
use libfuzzer_sys::fuzz_target;
use proto::walpb::Snapshot;
use wal::{Config, Records, Repair, Wal};

const DIR: &str = "/wal";
const SEGMENT: &str = "/wal/0000000000000000-0000000000000000.wal";

fuzz_target!(|input: &[u8]| {
    // As it is, and after the start of a valid log, which gets past the first two records.
    check(&[], input);
    check(&valid_start(), input);
});

fn check(start: &[u8], input: &[u8]) {
    let disk = SimDisk::new(1);
    let write = || -> std::io::Result<()> {
        disk.create_dir_all(Path::new(DIR))?;
        let file = disk.open(Path::new(SEGMENT), Open::create(Create::New))?;
        file.write_at(&[start, input].concat(), 0)
    };
    write().expect("write to a disk without faults");
    let dir = Path::new(DIR);
    let zero = Snapshot { index: Some(0), term: Some(0), conf_state: None };

    let before = wal::read_all(&disk, dir, &zero);
    let again = wal::read_all(&disk, dir, &zero);
    assert_eq!(before.as_ref().ok(), again.as_ref().ok(), "reading is deterministic");
    if let Ok(contents) = &before {
        let _ = wal::minimal_etcd_version(&contents.entries);
    }
    let _ = wal::survey(&disk, dir);
    if let Ok(mut records) = Records::open(&disk, dir) {
        while let Ok(Some(_)) = records.next() {}
    }

    let repaired = wal::repair(&disk, dir);
    if let Ok(Repair::Cut { .. } | Repair::NotNeeded) = repaired {
        let after = wal::read_all(&disk, dir, &zero);
        if let (Ok(before), Ok(after)) = (&before, &after) {
            assert!(after.entries.len() <= before.entries.len(), "a repair only truncates");
        }
        assert!(!after.is_err_and(|error| error.is_torn()), "a repaired log is not torn");
        let config = Config { segment_bytes: 1 << 16, ..Config::default() };
        let disk: Arc<dyn Disk> = Arc::new(disk);
        if let Ok(opened) = Wal::open(disk, dir, &zero, config) {
            let _ = opened.read_all();
        }
    }
}

/// The first records of a new log.
fn valid_start() -> Vec<u8> {
    let disk = SimDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = Config { segment_bytes: 1 << 12, ..Config::default() };
    let wal = Wal::create(shared, Path::new(DIR), "metadata", config).expect("create a log");
    let len = usize::try_from(wal.written().offset).expect("a short log");
    drop(wal);
    let mut bytes = disk.contents(SEGMENT).expect("the first segment");
    bytes.truncate(len);
    bytes
}
