//! Names after a power cut.

use env::{Disk, Fault, Kind, SimDisk};

use super::*;

/// The names in a directory, or `None` if it does not exist.
fn listing(disk: &SimDisk, name: &str) -> Option<String> {
    disk.read_dir(path(name)).ok().map(|names| names.join(" "))
}

fn listings(disk: &SimDisk, name: &str) -> BTreeSet<String> {
    cuts(disk, |disk| listing(disk, name).unwrap_or_else(|| "gone".to_owned()))
}

#[test]
fn a_new_name_needs_a_directory_sync() {
    let disk = SimDisk::new(1);
    let file = open(&disk, "/file");
    file.write_at(&sectors("a"), 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(
        letters_after_cuts(&disk, "/file"),
        set(["-", "a"]),
        "the file has its synced contents, or does not exist"
    );
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a"]));
}

#[test]
fn a_directory_sync_does_not_sync_contents() {
    let disk = SimDisk::new(1);
    open(&disk, "/file").write_at(&sectors("a"), 0).unwrap();
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["", ".", "a"]));
}

#[test]
fn a_removed_file_may_come_back() {
    let disk = SimDisk::new(1);
    durable(&disk, "/file", &sectors("a"));
    disk.remove_file(path("/file")).unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["-", "a"]));
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["-"]));
}

#[test]
fn a_rename_is_atomic() {
    let disk = SimDisk::new(1);
    durable(&disk, "/state", &sectors("o"));
    durable(&disk, "/tmp", &sectors("n"));
    disk.rename(path("/tmp"), path("/state")).unwrap();
    let look = |disk: &SimDisk| letters(disk.contents("/state")) + &letters(disk.contents("/tmp"));
    assert_eq!(
        cuts(&disk, look),
        set(["on", "n-"]),
        "if the rename is lost, the replaced file is back"
    );
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(cuts(&disk, look), set(["n-"]));
}

#[test]
fn a_prefix_of_the_changes_of_a_directory_survives() {
    let disk = SimDisk::new(1);
    open(&disk, "/a");
    open(&disk, "/b");
    disk.rename(path("/a"), path("/c")).unwrap();
    disk.remove_file(path("/b")).unwrap();
    assert_eq!(listings(&disk, "/"), set(["", "a", "a b", "b c", "c"]));
}

#[test]
fn a_directory_needs_a_synced_parent() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(path("/a/b")).unwrap();
    durable(&disk, "/a/b/file", b"");
    disk.sync_dir(path("/a")).unwrap();
    assert_eq!(listings(&disk, "/a/b"), set(["file", "gone"]));
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(listings(&disk, "/a/b"), set(["file"]));
}

#[test]
fn a_removed_directory_may_come_back_with_some_files() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(path("/a")).unwrap();
    disk.sync_dir(path("/")).unwrap();
    durable(&disk, "/a/1", b"");
    durable(&disk, "/a/2", b"");
    disk.remove_dir_all(path("/a")).unwrap();
    assert_eq!(listings(&disk, "/a"), set(["1 2", "2", "", "gone"]));
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(listings(&disk, "/a"), set(["gone"]));
}

#[test]
fn renaming_a_directory_moves_its_files() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(path("/tmp")).unwrap();
    disk.sync_dir(path("/")).unwrap();
    durable(&disk, "/tmp/file", &sectors("a"));
    disk.rename(path("/tmp"), path("/data")).unwrap();
    let look = |disk: &SimDisk| {
        letters(disk.contents("/tmp/file")) + &letters(disk.contents("/data/file"))
    };
    assert_eq!(cuts(&disk, look), set(["a-", "-a"]));
}

#[test]
fn a_move_between_directories_is_two_changes() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(path("/from")).unwrap();
    disk.create_dir_all(path("/to")).unwrap();
    disk.sync_dir(path("/")).unwrap();
    durable(&disk, "/from/file", &sectors("a"));
    disk.rename(path("/from/file"), path("/to/file")).unwrap();
    let look =
        |disk: &SimDisk| letters(disk.contents("/from/file")) + &letters(disk.contents("/to/file"));
    assert_eq!(cuts(&disk, look), set(["a-", "-a", "aa", "--"]));
    disk.sync_dir(path("/to")).unwrap();
    assert_eq!(cuts(&disk, look), set(["-a", "aa"]), "the link is durable");
    disk.sync_dir(path("/from")).unwrap();
    assert_eq!(cuts(&disk, look), set(["-a"]));
}

#[test]
fn a_moved_directory_is_found_once() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(path("/a/b")).unwrap();
    disk.sync_dir(path("/a")).unwrap();
    disk.sync_dir(path("/")).unwrap();
    // If only the first move were lost, each would be inside the other.
    disk.rename(path("/a/b"), path("/c")).unwrap();
    disk.rename(path("/a"), path("/c/a")).unwrap();
    let look = |disk: &SimDisk| {
        ["/a", "/a/b", "/a/b/a", "/c", "/c/a", "/c/a/b"]
            .map(|name| disk.kind(path(name)).unwrap() == Some(Kind::Dir))
    };
    let seen = cuts(&disk, look);
    assert!(seen.contains(&[true, true, false, false, false, false]), "both moves lost");
    assert!(seen.contains(&[false, false, false, true, true, false]), "both moves durable");
    assert!(seen.iter().all(|[.., inside_a, _, _, inside_c]| !inside_a && !inside_c));
}

#[test]
fn create_dir_all_durably_makes_all_parents_durable() {
    let disk = SimDisk::new(3);
    let any: &dyn Disk = &disk;
    any.create_dir_all_durably(Path::new("/a/b/c")).unwrap();
    any.create_dir_all_durably(Path::new("/a/b/d")).unwrap();
    for cut in 0..50 {
        assert_eq!(disk.power_cut(cut).read_dir(Path::new("/a/b")).unwrap(), ["c", "d"]);
    }
    any.create_dir_all_durably(Path::new("relative/dir")).unwrap();
    assert_eq!(disk.kind(Path::new("relative/dir")).unwrap(), Some(Kind::Dir));
}

#[test]
fn create_dir_all_durably_can_be_repeated_after_an_error() {
    for change in 0..6 {
        let disk = SimDisk::new(3);
        let any: &dyn Disk = &disk;
        disk.fail_change(change, Fault::Eio);
        assert!(any.create_dir_all_durably(Path::new("/a/b/c")).is_err(), "change {change}");
        any.create_dir_all_durably(Path::new("/a/b/c")).unwrap();
        for cut in 0..50 {
            assert_eq!(disk.power_cut(cut).read_dir(Path::new("/a/b")).unwrap(), ["c"]);
        }
    }
}

#[test]
fn an_oversized_file_is_not_read() {
    let disk = SimDisk::new(3);
    disk.open(Path::new("f"), Open::create(Create::New)).unwrap().write_at(b"12345", 0).unwrap();
    let any: &dyn Disk = &disk;
    assert_eq!(any.read(Path::new("f"), 5).unwrap(), b"12345");
    assert_eq!(any.read(Path::new("f"), 4).unwrap_err().kind(), std::io::ErrorKind::FileTooLarge);
}
