//! Injected faults.

use std::io::{self, ErrorKind};

use env::{Disk, Fault, Lock, Locking, SimDisk};

use super::*;

/// Makes calls of every type.
fn mixed_calls(disk: &SimDisk) -> io::Result<()> {
    disk.create_dir_all(path("/a"))?;
    let file = disk.open(path("/a/tmp"), Open::create(Create::New))?;
    disk.open(path("/a/tmp"), Open::create(Create::IfMissing))?;
    file.allocate(2048)?;
    file.write_at(b"contents", 0)?;
    file.set_len(8)?;
    file.sync_data()?;
    file.try_lock(Locking::Flock, Lock::Exclusive)?;
    disk.rename(path("/a/tmp"), path("/a/file"))?;
    disk.sync_dir(path("/a"))?;
    file.is_at(path("/a/file"))?;
    file.read_exact_at(&mut [0; 8], 0)?;
    disk.read_dir(path("/a"))?;
    disk.kind(path("/a"))?;
    disk.remove_file(path("/a/file"))?;
    disk.remove_dir_all(path("/a"))?;
    disk.sync_dir(path("/"))
}

#[test]
fn any_call_can_fail() {
    let calls = {
        let disk = SimDisk::new(1);
        mixed_calls(&disk).unwrap();
        disk.calls()
    };
    assert_eq!((calls.all(), calls.changes()), (17, 11));
    for n in 0..calls.all() {
        let disk = SimDisk::new(1);
        disk.fail_call(n, Fault::Eio);
        assert_eq!(mixed_calls(&disk).unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(disk.calls().all(), n + 1, "the failed call is the last");
    }
    for n in 0..calls.changes() {
        let disk = SimDisk::new(1);
        disk.fail_change(n, Fault::Enospc);
        assert_eq!(mixed_calls(&disk).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(disk.calls().changes(), n + 1, "the failed call is the last");
    }
    let disk = SimDisk::new(1);
    disk.fail_call(calls.all(), Fault::Eio);
    disk.fail_change(calls.changes(), Fault::Crash);
    mixed_calls(&disk).unwrap();
}

#[test]
fn fault_numbers_count_from_now() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", b"");
    disk.fail_change(1, Fault::Eio);
    file.write_at(b"a", 0).unwrap();
    file.len().unwrap();
    assert!(file.write_at(b"b", 1).is_err());
    file.write_at(b"c", 1).unwrap();
    assert_eq!(disk.contents("/file").unwrap(), b"ac");
}

#[test]
fn a_permanent_fault_lasts_until_healed() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", b"");
    disk.fail_from_change(1, Fault::Enospc);
    file.write_at(b"a", 0).unwrap();
    for _ in 0..3 {
        assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::StorageFull);
        file.len().unwrap();
    }
    disk.heal();
    file.sync_data().unwrap();
    disk.fail_from_call(0, Fault::Eio);
    assert!(file.len().is_err() && file.len().is_err());
    disk.heal();
    file.len().unwrap();
}

#[test]
fn a_crashed_machine_stays_off() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", b"durable");
    assert!(file.try_lock(Locking::Flock, Lock::Exclusive).unwrap());
    disk.fail_call(0, Fault::Crash);
    assert_eq!(file.len().unwrap_err().to_string(), "the machine is off");
    disk.heal();
    assert!(file.len().is_err() && disk.clone().read_dir(path("/")).is_err());
    assert!(file.read_at(&mut [0], 0).is_err() && file.sync_data().is_err());

    let found = disk.power_cut(1);
    assert_eq!(found.calls(), Default::default());
    let file = open(&found, "/file");
    assert!(
        file.try_lock(Locking::Flock, Lock::Exclusive).unwrap(),
        "locks are released by the crash"
    );
    assert_eq!(file.len().unwrap(), 7);
}

#[test]
fn a_change_during_a_crash_survives_or_not() {
    let write = SimDisk::new(1);
    let file = durable(&write, "/file", &sectors("ab"));
    write.fail_change(0, Fault::Crash);
    file.write_at(&sectors("XY"), 0).unwrap_err();
    assert_eq!(letters_after_cuts(&write, "/file"), set(["ab", "aY", "Xb", "XY"]));

    let sync = SimDisk::new(1);
    let file = durable(&sync, "/file", &sectors("ab"));
    file.write_at(&sectors("XY"), 0).unwrap();
    sync.fail_change(0, Fault::Crash);
    file.sync_data().unwrap_err();
    assert_eq!(letters_after_cuts(&sync, "/file"), set(["ab", "aY", "Xb", "XY"]));

    let rename = SimDisk::new(1);
    durable(&rename, "/old", &sectors("a"));
    rename.fail_change(0, Fault::Crash);
    rename.rename(path("/old"), path("/new")).unwrap_err();
    assert_eq!(letters_after_cuts(&rename, "/new"), set(["-", "a"]));

    let dirs = SimDisk::new(1);
    dirs.fail_change(0, Fault::Crash);
    dirs.create_dir_all(path("/a/b")).unwrap_err();
    let depth = |disk: &SimDisk| {
        ["/a", "/a/b"].iter().filter(|name| disk.kind(path(name)).unwrap().is_some()).count()
    };
    assert_eq!(cuts(&dirs, depth), [0, 1, 2].into());
}

#[test]
fn a_failed_write_may_have_written_any_subset_of_its_sectors() {
    let seen: BTreeSet<String> = (0..SEEDS)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            let file = durable(&disk, "/file", &sectors("ab"));
            disk.fail_change(0, Fault::Eio);
            file.write_at(&sectors("XYZ"), 0).unwrap_err();
            letters(disk.contents("/file"))
        })
        .collect();
    assert_eq!(seen, set(["ab", "aY", "Xb", "XY", "abZ", "aYZ", "XbZ", "XYZ"]));
}

#[test]
fn a_failed_sync_drops_its_data() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("ab"));
    file.write_at(&sectors("X"), 0).unwrap();
    disk.fail_change(0, Fault::Eio);
    file.sync_data().unwrap_err();
    assert_eq!(letters(disk.contents("/file")), "Xb", "reads still show it");

    file.write_at(&sectors("Y"), SECTOR as u64).unwrap();
    file.sync_data().unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["aY", "XY"]), "a later sync skips it");

    file.write_at(&sectors("X"), 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["XY"]), "durable after it is rewritten");
}

#[test]
fn a_failed_sync_drops_the_length_too() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("a"));
    file.set_len(2 * SECTOR as u64).unwrap();
    disk.fail_change(0, Fault::Enospc);
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a", "a."]));
    // Data written there needs the length to be read.
    file.write_at(&sectors("b"), SECTOR as u64).unwrap();
    file.sync_data().unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["ab"]));
}

#[test]
fn data_truncated_before_a_failed_sync_does_not_come_back_by_growing() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("abc"));
    file.set_len(SECTOR as u64).unwrap();
    disk.fail_change(0, Fault::Eio);
    file.sync_data().unwrap_err();
    file.write_at(&sectors("X"), SECTOR as u64).unwrap();
    file.sync_data().unwrap();
    file.set_len(3 * SECTOR as u64).unwrap();
    file.sync_data().unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["aX."]));
}

#[test]
fn a_failed_directory_sync_can_be_repeated() {
    let disk = SimDisk::new(1);
    open(&disk, "/file");
    disk.fail_change(0, Fault::Eio);
    disk.sync_dir(path("/")).unwrap_err();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["-", ""]));
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set([""]));
}

#[test]
fn other_failed_calls_have_no_effect() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", b"as it was");
    disk.fail_from_change(0, Fault::Eio);
    disk.rename(path("/file"), path("/moved")).unwrap_err();
    disk.remove_file(path("/file")).unwrap_err();
    disk.create_dir_all(path("/dir")).unwrap_err();
    disk.open(path("/file"), Open::create(Create::Truncate)).unwrap_err();
    disk.open(path("/other"), Open::create(Create::IfMissing)).unwrap_err();
    file.set_len(1).unwrap_err();
    file.allocate(1000).unwrap_err();
    assert_eq!(disk.read_dir(path("/")).unwrap(), ["file"]);
    assert_eq!(disk.contents("/file").unwrap(), b"as it was");
}

#[test]
fn a_hung_sync_completes_after_healing() {
    let disk = SimDisk::new(1);
    let file = disk.open(path("/file"), Open::create(Create::New)).unwrap();
    disk.sync_dir(path("/")).unwrap();
    let hung = disk.hang();
    file.write_at(b"contents", 0).unwrap();
    std::thread::scope(|scope| {
        let sync = scope.spawn(|| file.sync_data());
        // Whatever the other thread has reached: while the disk hangs, some power cut finds no
        // data.
        let lost = (0..50).any(|seed| disk.power_cut(seed).contents("/file") == Some(Vec::new()));
        assert!(lost);
        drop(hung);
        sync.join().unwrap().unwrap();
    });
    assert_eq!(disk.power_cut(1).contents("/file").as_deref(), Some(&b"contents"[..]));
}
