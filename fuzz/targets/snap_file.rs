//! Reads arbitrary bytes as a snapshot file, as they are and within a valid envelope.
//!
//! Invariants: no panic. A snapshot that is read can be saved, and is read back unchanged.

#![no_main]

use std::path::Path;
use std::sync::Arc;

use env::{Create, Disk, Open, SimDisk};
use libfuzzer_sys::fuzz_target;
use wal::snap::{Snapshotter, read};

fuzz_target!(|input: &[u8]| {
    check(input);
    check(&envelope(input));
});

fn check(bytes: &[u8]) {
    let disk = SimDisk::new(1);
    let path = Path::new("/fuzzed.snap");
    let file = disk.open(path, Open::create(Create::New)).expect("create a file");
    file.write_at(bytes, 0).expect("write to a disk without faults");
    let Ok(snapshot) = read(&disk, path) else { return };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.create_dir_all(Path::new("/snap")).expect("create a directory");
    let snapshotter = Snapshotter::new(shared, "/snap");
    snapshotter.save(&snapshot).expect("save to a disk without faults");
    if snapshot.metadata.as_ref().is_some_and(|metadata| metadata.index() != 0) {
        assert_eq!(snapshotter.load().expect("load what was saved"), snapshot);
    }
}

/// `snappb.Snapshot { crc, data }` with the right checksum.
fn envelope(data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x08];
    varint(u64::from(crc32c::crc32c(data)), &mut bytes);
    bytes.push(0x12);
    varint(data.len() as u64, &mut bytes);
    bytes.extend_from_slice(data);
    bytes
}

fn varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
        number >>= 7;
    }
    to.push(u8::try_from(number).expect("seven bits"));
}
