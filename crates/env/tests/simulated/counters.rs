//! Call counters, full disks, flipped bits.

use std::io::ErrorKind;

use env::{Calls, Disk, SimDisk};

use super::*;

#[test]
fn every_call_is_counted_by_its_type() {
    let disk = SimDisk::new(1);
    let file = open(&disk, "/file");
    open(&disk, "/file");
    file.write_at(b"12345", 0).unwrap();
    file.write_at(b"678", 5).unwrap();
    file.read_at(&mut [0; 8], 0).unwrap();
    file.sync_data().unwrap();
    file.set_len(2).unwrap();
    file.allocate(3).unwrap();
    file.len().unwrap();
    disk.sync_dir(path("/")).unwrap();
    disk.rename(path("/file"), path("/moved")).unwrap();
    disk.remove_file(path("/missing")).unwrap_err();
    disk.create_dir_all(path("/dir")).unwrap();
    let expected = Calls {
        reads: 1,
        writes: 2,
        bytes_written: 8,
        syncs: 1,
        dir_syncs: 1,
        opens: 2,
        creates: 1,
        dirs_made: 1,
        renames: 1,
        removes: 1,
        resizes: 2,
        stats: 1,
        ..Calls::default()
    };
    assert_eq!(disk.calls(), expected);
    assert_eq!((expected.all(), expected.changes()), (13, 10));
    disk.contents("/moved").unwrap();
    assert_eq!(disk.calls(), expected, "`contents` does not count as a call");
}

#[test]
fn a_full_disk_writes_what_fits() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("a"));
    disk.set_capacity(Some(3 * SECTOR as u64));
    let error = file.write_at(&sectors("XYZ"), SECTOR as u64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(letters(disk.contents("/file")), "aXY");
    file.write_at(&sectors("bbb"), 0).unwrap();

    let other = open(&disk, "/other");
    assert_eq!(other.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.remove_file(path("/file")).unwrap();
    other.write_at(b"x", 0).unwrap();
    assert_eq!(other.allocate(4 * SECTOR as u64).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(other.len().unwrap(), 1, "nothing was allocated");
    other.allocate(3 * SECTOR as u64).unwrap();

    let found = disk.power_cut(1);
    found.sync_dir(path("/")).unwrap();
    assert!(open(&found, "/third").write_at(&sectors("xxxx"), 0).is_err(), "the capacity stays");
    disk.set_capacity(None);
    open(&disk, "/third").write_at(&sectors("xxxx"), 0).unwrap();
}

#[test]
fn extending_a_file_takes_no_space() {
    let disk = SimDisk::new(1);
    disk.set_capacity(Some(2 * SECTOR as u64));
    let file = open(&disk, "/file");
    file.set_len(1 << 20).unwrap();
    file.write_at(&sectors("a"), 1 << 19).unwrap();
    file.write_at(&sectors("b"), 1 << 18).unwrap();
    assert_eq!(file.write_at(b"c", 0).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_at(&sectors("d"), 1 << 18).unwrap();
    file.set_len(1 << 19).unwrap();
    file.write_at(b"c", 0).unwrap();
}

#[test]
fn a_flipped_bit_is_read_and_survives_a_power_cut() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &[0; 2 * SECTOR]);
    file.write_at(&[0], SECTOR as u64).unwrap();
    disk.flip_bit("/file", SECTOR as u64 * 8 + 11);
    let mut expected = vec![0; 2 * SECTOR];
    expected[SECTOR + 1] = 8;
    assert_eq!(disk.contents("/file").unwrap(), expected);
    assert_eq!(cuts_of(&disk, "/file"), [Some(expected)].into(), "in every version");
}

#[test]
#[should_panic(expected = "/file has no bit 8")]
fn flipping_a_missing_bit_panics() {
    let disk = SimDisk::new(1);
    durable(&disk, "/file", b"a");
    disk.flip_bit("/file", 8);
}

#[test]
fn file_length_is_bounded() {
    let disk = SimDisk::new(1);
    let file = open(&disk, "/file");
    assert_eq!(file.set_len(1 << 50).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(file.write_at(b"x", u64::MAX).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(file.len().unwrap(), 0);
}
