//! Snapshot files.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use env::{Create, Disk, Fault, Open, SimDisk};
use proto::raftpb::{ConfState, Snapshot, SnapshotMetadata};
use wal::snap::{SnapError, Snapshotter, read};

use crate::common::{VOTE, disk, shared};

fn dir() -> &'static Path {
    Path::new("/member/snap")
}

fn snapshotter(disk: &SimDisk) -> Snapshotter {
    Snapshotter::new(shared(disk), dir())
}

fn snapshot(term: u64, index: u64) -> Snapshot {
    let conf_state =
        ConfState { voters: vec![VOTE], auto_leave: Some(false), ..ConfState::default() };
    let metadata =
        SnapshotMetadata { conf_state: Some(conf_state), index: Some(index), term: Some(term) };
    let data = format!("the store at {index}").into();
    Snapshot { data: Some(data), metadata: Some(metadata) }
}

fn name(term: u64, index: u64) -> String {
    format!("{term:016x}-{index:016x}.snap")
}

fn path(term: u64, index: u64) -> PathBuf {
    dir().join(name(term, index))
}

/// Receives a snapshot database and keeps it, unless one with this index exists.
fn save_db(snap: &Snapshotter, mut image: &[u8], index: u64) -> Result<u64, SnapError> {
    let received = snap.receive_db(&mut image)?.sync()?;
    let bytes = received.bytes();
    match snap.find_durable_db(index)? {
        Some(_) => {}
        None => received.keep(index)?,
    }
    Ok(bytes)
}

fn names(disk: &SimDisk) -> Vec<String> {
    disk.read_dir(dir()).unwrap()
}

#[test]
fn the_newest_snapshot_is_loaded() {
    let disk = disk(1);
    let snap = snapshotter(&disk);
    assert_eq!(snap.load().unwrap_err().to_string(), "snap: no available snapshot");
    for (term, index) in [(1, 5), (2, 20), (1, 9)] {
        snap.save(&snapshot(term, index)).unwrap();
    }
    assert_eq!(names(&disk), [name(1, 5), name(1, 9), name(2, 20)]);
    assert_eq!(snap.load().unwrap(), snapshot(2, 20));
    snap.save(&Snapshot::default()).unwrap();
    assert_eq!(names(&disk).len(), 3, "a snapshot without an index is not saved");
}

#[test]
fn the_newest_snapshot_in_the_log_is_loaded() {
    let disk = disk(1);
    let snap = snapshotter(&disk);
    for index in [5, 9, 20] {
        snap.save(&snapshot(1, index)).unwrap();
    }
    let in_log = |index, term| crate::common::snapshot(index, term);
    let load = |log: &[_]| snap.load_newest_available(log);
    assert_eq!(load(&[in_log(0, 0), in_log(5, 1), in_log(9, 1)]).unwrap(), snapshot(1, 9));
    assert!(matches!(load(&[in_log(0, 0), in_log(20, 2)]), Err(SnapError::NoSnapshot)));
    assert_eq!(names(&disk).len(), 3, "snapshots that do not match stay");
}

#[test]
fn a_broken_snapshot_is_renamed_and_the_previous_one_loaded() {
    let disk = disk(1);
    let snap = snapshotter(&disk);
    snap.save(&snapshot(1, 5)).unwrap();
    snap.save(&snapshot(1, 9)).unwrap();
    disk.flip_bit(path(1, 9), 100);
    assert!(read(&disk, &path(1, 9)).unwrap_err().to_string().starts_with("snap: crc mismatch: "));
    disk.open(&path(1, 12), Open::create(Create::New)).unwrap();
    assert!(read(&disk, &path(1, 12)).unwrap_err().to_string().starts_with("snap: empty snapshot"));
    assert_eq!(snap.load().unwrap(), snapshot(1, 5));
    let broken = |index| format!("{}.broken", name(1, index));
    assert_eq!(names(&disk), [name(1, 5), broken(9), broken(12)]);
}

#[test]
fn any_flipped_bit_is_detected() {
    let disk = disk(1);
    snapshotter(&disk).save(&snapshot(3, 300)).unwrap();
    let bits = disk.contents(path(3, 300)).unwrap().len() as u64 * 8;
    for bit in 0..bits {
        let disk = disk.power_cut(0);
        disk.flip_bit(path(3, 300), bit);
        assert!(read(&disk, &path(3, 300)).is_err(), "bit {bit} of {bits}");
    }
}

#[test]
fn a_disk_error_does_not_rename_the_snapshot() {
    let disk = disk(1);
    let snap = snapshotter(&disk);
    snap.save(&snapshot(1, 5)).unwrap();
    for call in 1..4 {
        disk.fail_call(call, Fault::Eio);
        assert!(matches!(snap.load(), Err(SnapError::Disk(_))), "call {call}");
    }
    assert_eq!(snap.load().unwrap(), snapshot(1, 5));
}

#[test]
fn a_snapshot_database_is_saved_and_found() {
    let disk = disk(1);
    let snap = snapshotter(&disk);
    let text = snap.find_db(17).unwrap_err().to_string();
    assert_eq!(text, "snap: snapshot file doesn't exist: /member/snap/0000000000000011.snap.db");
    let image = vec![7; 3_000_000];
    assert_eq!(save_db(&snap, &image, 17).unwrap(), 3_000_000);
    let path = snap.find_db(17).unwrap();
    assert_eq!(disk.contents(&path).unwrap(), image);
    assert_eq!(save_db(&snap, b"another", 17).unwrap(), 7);
    assert_eq!(disk.contents(&path).unwrap(), image, "the first one stays");
    assert_eq!(names(&disk), ["0000000000000011.snap.db"]);
}

/// Asserts that a retry after a failed save is durable: the failed call may have renamed the file
/// without syncing the name.
fn assert_durable_at_the_second_try(
    path: &Path,
    save: impl Fn(&Snapshotter) -> Result<(), SnapError>,
) {
    let changes = {
        let disk = disk(1);
        let before = disk.calls().changes();
        save(&snapshotter(&disk)).unwrap();
        disk.calls().changes() - before
    };
    for change in 0..changes {
        let disk = disk(1);
        let snap = snapshotter(&disk);
        disk.fail_change(change, Fault::Eio);
        save(&snap).unwrap_err();
        save(&snap).unwrap();
        let written = disk.contents(path).unwrap();
        for seed in 0..50 {
            let found = disk.power_cut(seed).contents(path);
            assert_eq!(found.as_ref(), Some(&written), "change {change}, seed {seed}");
        }
    }
}

#[test]
fn a_retried_snapshot_save_is_durable() {
    assert_durable_at_the_second_try(&path(1, 17), |snap| snap.save(&snapshot(1, 17)));
}

#[test]
fn a_retried_snapshot_database_save_is_durable() {
    assert_durable_at_the_second_try(&dir().join("0000000000000011.snap.db"), |snap| {
        assert_eq!(save_db(snap, b"image", 17)?, 5);
        Ok(())
    });
}

#[test]
fn an_interrupted_snapshot_database_leaves_no_file() {
    let disk = disk(1);
    let snap = snapshotter(&disk);
    let mut image = (&[1; 5000][..]).chain(Broken);
    assert!(matches!(snap.receive_db(&mut image), Err(SnapError::Source { .. })));
    assert!(names(&disk).is_empty());
}

/// A reader that runs a closure in the middle of the stream.
struct RunInTheMiddle<F>(Option<F>);

impl<F: FnOnce()> Read for RunInTheMiddle<F> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().into_iter().for_each(|happens| happens());
        Ok(0)
    }
}

/// Receivers and writers of `.snap` files run concurrently, each with a `Snapshotter` of its own or
/// with a shared one.
#[test]
fn concurrent_temporary_files_are_distinct() {
    let disk = disk(1);
    let (one, other) = (snapshotter(&disk), snapshotter(&disk));
    let inner = || {
        save_db(&other, b"the second", 18).unwrap();
        other.save(&snapshot(1, 5)).unwrap();
        let broken = other.receive_db(&mut (&b"the third"[..]).chain(Broken));
        assert!(matches!(broken, Err(SnapError::Source { .. })));
    };
    let mut image = (&b"the "[..]).chain(RunInTheMiddle(Some(inner))).chain(&b"first"[..]);
    let received = one.receive_db(&mut image).unwrap().sync().unwrap();
    assert_eq!(disk.contents(received.path()).unwrap(), b"the first");
    received.keep(17).unwrap();
    assert_eq!(disk.contents(one.find_db(17).unwrap()).unwrap(), b"the first");
    assert_eq!(disk.contents(one.find_db(18).unwrap()).unwrap(), b"the second");
    assert_eq!(one.load().unwrap(), snapshot(1, 5));
    assert_eq!(names(&disk).len(), 3, "the third left no file");
}

#[test]
fn temporary_files_of_an_earlier_process_are_not_reused() {
    let disk = disk(1);
    let left = dir().join("tmp0000000000000000");
    let file = disk.open(&left, Open::create(Create::New)).unwrap();
    file.write_at(b"left", 0).unwrap();
    let snap = snapshotter(&disk);
    drop(snap.receive_db(&mut &b"image"[..]).unwrap());
    assert_eq!(names(&disk), ["tmp0000000000000000"], "only the creator of a file removes it");
    snap.save(&snapshot(1, 5)).unwrap();
    assert_eq!(disk.contents(&left).unwrap(), b"left");
}

/// A connection that breaks.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

#[test]
fn purge_removes_the_oldest_files() {
    let disk = disk(1);
    let snap = snapshotter(&disk);
    for index in 1..=4 {
        snap.save(&snapshot(1, index)).unwrap();
        save_db(&snap, b"x", index).unwrap();
    }
    snap.release_dbs(3).unwrap();
    assert_eq!(names(&disk).len(), 6);
    assert!(snap.purge(0).unwrap().is_empty(), "no limit");
    let removed = snap.purge(1).unwrap();
    assert_eq!(removed, [name(1, 1), name(1, 2), name(1, 3), "0000000000000003.snap.db".into()]);
    assert_eq!(
        names(&disk),
        ["0000000000000001-0000000000000004.snap", "0000000000000004.snap.db"]
    );
}

#[test]
fn temporary_files_are_removed_at_start() {
    let disk = disk(1);
    for name in ["tmp123", "tmpx.snap", "db.tmp.77", "db", "0000000000000004.snap.db"] {
        disk.open(&dir().join(name), Open::create(Create::New)).unwrap();
    }
    snapshotter(&disk).clean().unwrap();
    assert_eq!(names(&disk), ["0000000000000004.snap.db", "db"]);
}

/// Saves snapshots and snapshot databases, and purges. Returns the last index of each that was
/// saved.
fn scenario(disk: &SimDisk) -> (u64, u64) {
    let snap = snapshotter(disk);
    let (mut saved, mut image) = (0, 0);
    for index in 1..=4 {
        if snap.save(&snapshot(1, index)).is_err() {
            break;
        }
        saved = index;
        if save_db(&snap, &[7; 2000], index).is_err() {
            break;
        }
        image = index;
        if snap.purge(2).is_err() || snap.release_dbs(index).is_err() {
            break;
        }
    }
    (saved, image)
}

#[test]
fn saved_files_survive_a_power_cut() {
    let changes = {
        let disk = disk(1);
        let before = disk.calls().changes();
        assert_eq!(scenario(&disk), (4, 4));
        disk.calls().changes() - before
    };
    for change in 0..changes {
        let disk = disk(1);
        disk.fail_change(change, Fault::Crash);
        let (saved, image) = scenario(&disk);
        for seed in 0..20 {
            let disk = disk.power_cut(seed);
            let snap = snapshotter(&disk);
            snap.clean().unwrap();
            assert!(names(&disk).iter().all(|name| !name.starts_with("tmp")));
            let newest = snap.load().map_or(0, |found| found.metadata.unwrap().index());
            assert!(newest >= saved, "found {newest}, but {saved} was saved");
            assert!(
                names(&disk).iter().all(|name| !name.ends_with(".broken")),
                "all files are complete"
            );
            if image > 0 {
                let path = snap.find_db(image).unwrap();
                assert_eq!(disk.contents(path).unwrap(), vec![7; 2000]);
            }
        }
    }
}

#[test]
fn saved_files_survive_disk_errors() {
    let calls = {
        let disk = disk(1);
        let before = disk.calls().all();
        scenario(&disk);
        disk.calls().all() - before
    };
    for call in 0..calls {
        for fault in [Fault::Eio, Fault::Enospc] {
            let disk = disk(1);
            disk.fail_call(call, fault);
            let (saved, _) = scenario(&disk);
            disk.heal();
            let newest =
                snapshotter(&disk).load().map_or(0, |found| found.metadata.unwrap().index());
            assert!(newest >= saved, "found {newest}, but {saved} was saved");
        }
    }
}
