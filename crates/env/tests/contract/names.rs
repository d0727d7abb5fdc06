//! Names: opening, renaming, removing.

use std::io::ErrorKind;
use std::path::Path;

use env::{Create, Kind, Open};

use super::{kind_of, on_each};

#[test]
fn opening_a_missing_file() {
    on_each(|ground| {
        let cases = [
            (Open::read(), Some(ErrorKind::NotFound)),
            (Open::write(), Some(ErrorKind::NotFound)),
            (Open::create(Create::IfMissing), None),
            (Open::create(Create::Truncate), None),
            (Open::create(Create::New), None),
            // A read-only open creates nothing.
            (
                Open { write: false, ..Open::create(Create::IfMissing) },
                Some(ErrorKind::InvalidInput),
            ),
            (
                Open { write: false, ..Open::create(Create::Truncate) },
                Some(ErrorKind::InvalidInput),
            ),
        ];
        for (how, error) in cases {
            assert_eq!(kind_of(ground.open("name", how)), error, "{how:?}");
            if error.is_none() {
                assert_eq!(ground.read("name"), b"");
                ground.disk.remove_file(&ground.path("name")).unwrap();
            }
        }
    });
}

#[test]
fn opening_an_existing_file() {
    on_each(|ground| {
        let cases: [(_, _, &[u8]); 5] = [
            (Open::read(), None, b"here"),
            (Open::write(), None, b"here"),
            (Open::create(Create::IfMissing), None, b"here"),
            (Open::create(Create::New), Some(ErrorKind::AlreadyExists), b"here"),
            (Open::create(Create::Truncate), None, b""),
        ];
        ground.file("name", b"here");
        for (how, error, contents) in cases {
            assert_eq!(kind_of(ground.open("name", how)), error, "{how:?}");
            assert_eq!(ground.read("name"), contents, "{how:?}");
        }
    });
}

#[test]
fn files_and_directories_are_not_interchangeable() {
    on_each(|ground| {
        let disk = &ground.disk;
        disk.create_dir_all(&ground.path("dir/inner")).unwrap();
        ground.file("file", b"");
        let (dir, file) = (ground.path("dir"), ground.path("file"));
        assert_eq!(kind_of(disk.open(&dir, Open::write())), Some(ErrorKind::IsADirectory));
        assert_eq!(
            kind_of(disk.open(&dir, Open::create(Create::New))),
            Some(ErrorKind::AlreadyExists)
        );
        assert_eq!(
            kind_of(disk.open(&file.join("x"), Open::read())),
            Some(ErrorKind::NotADirectory)
        );
        assert_eq!(kind_of(disk.remove_file(&dir)), Some(ErrorKind::IsADirectory));
        assert_eq!(kind_of(disk.remove_dir_all(&file)), Some(ErrorKind::NotADirectory));
        assert_eq!(kind_of(disk.read_dir(&file)), Some(ErrorKind::NotADirectory));
        assert_eq!(kind_of(disk.kind(&file.join("x"))), Some(ErrorKind::NotADirectory));
        assert_eq!(kind_of(disk.create_dir_all(&file)), Some(ErrorKind::AlreadyExists));
        assert_eq!(kind_of(disk.create_dir_all(&file.join("x"))), Some(ErrorKind::NotADirectory));
        assert_eq!(kind_of(disk.create_dir_all(&dir)), None, "an existing directory is fine");
    });
}

#[test]
fn missing_names_are_not_found() {
    on_each(|ground| {
        let disk = &ground.disk;
        let missing = ground.path("missing");
        ground.file("file", b"");
        let below = missing.join("file");
        let not_found = Some(ErrorKind::NotFound);
        assert_eq!(kind_of(disk.remove_file(&missing)), not_found);
        assert_eq!(kind_of(disk.remove_dir_all(&missing)), not_found);
        assert_eq!(kind_of(disk.read_dir(&missing)), not_found);
        assert_eq!(kind_of(disk.sync_dir(&missing)), not_found);
        assert_eq!(kind_of(disk.rename(&missing, &ground.path("file"))), not_found);
        assert_eq!(kind_of(disk.rename(&ground.path("file"), &below)), not_found);
        assert_eq!(kind_of(disk.open(&below, Open::create(Create::IfMissing))), not_found);
        assert_eq!(disk.kind(&missing).unwrap(), None);
        assert_eq!(disk.kind(&below).unwrap(), None);
    });
}

#[test]
fn names_are_listed_sorted() {
    on_each(|ground| {
        for name in ["b", "a", "c.tmp", "B"] {
            ground.file(name, b"");
        }
        ground.disk.create_dir_all(&ground.path("aa")).unwrap();
        let root = ground.path("");
        assert_eq!(ground.disk.read_dir(&root).unwrap(), ["B", "a", "aa", "b", "c.tmp"]);
        assert_eq!(ground.disk.kind(&root.join("aa")).unwrap(), Some(Kind::Dir));
        assert_eq!(ground.disk.kind(&root.join("a")).unwrap(), Some(Kind::File));
        ground.disk.sync_dir(&root).unwrap();
    });
}

#[test]
fn a_rename_replaces_a_file_or_an_empty_directory() {
    on_each(|ground| {
        let disk = &ground.disk;
        let path = |name: &str| ground.path(name);
        let rename = |from, to| kind_of(disk.rename(&path(from), &path(to)));
        ground.file("file", b"new");
        ground.file("other", b"old");
        disk.create_dir_all(&path("full/inner")).unwrap();
        disk.create_dir_all(&path("empty")).unwrap();

        assert_eq!(rename("file", "full"), Some(ErrorKind::IsADirectory));
        assert_eq!(rename("full", "file"), Some(ErrorKind::NotADirectory));
        assert_eq!(rename("empty", "full"), Some(ErrorKind::DirectoryNotEmpty));
        assert_eq!(rename("full", "full/inner/itself"), Some(ErrorKind::InvalidInput));
        assert_eq!(rename("full/inner", "full"), Some(ErrorKind::DirectoryNotEmpty));
        assert_eq!(rename("file", "file"), None, "to itself");
        assert_eq!(rename("file", "other"), None);
        assert_eq!(rename("full", "empty"), None);

        assert_eq!(ground.read("other"), b"new");
        assert_eq!(disk.read_dir(&path("")).unwrap(), ["empty", "other"]);
        assert_eq!(disk.read_dir(&path("empty")).unwrap(), ["inner"]);
        assert_eq!(rename("other", "empty/inner/moved"), None, "between directories");
        assert_eq!(ground.read("empty/inner/moved"), b"new");
        assert_eq!(disk.kind(&path("other")).unwrap(), None);
    });
}

#[test]
fn a_directory_is_removed_with_its_contents() {
    on_each(|ground| {
        ground.disk.create_dir_all(&ground.path("a/b/c")).unwrap();
        ground.file("a/b/file", b"");
        ground.disk.remove_dir_all(&ground.path("a")).unwrap();
        assert_eq!(ground.disk.read_dir(&ground.path("")).unwrap(), Vec::<String>::new());
    });
}

#[test]
fn paths_may_contain_dots() {
    on_each(|ground| {
        ground.disk.create_dir_all(&ground.path("a/b")).unwrap();
        ground.file("a/file", b"found");
        assert_eq!(ground.read("./a//b/../file"), b"found");
    });
}

#[test]
fn relative_paths_of_a_simulated_disk_start_at_its_root() {
    use env::Disk;
    let disk = env::SimDisk::new(1);
    disk.open(Path::new("here"), Open::create(Create::New)).unwrap();
    assert_eq!(disk.kind(Path::new("/here")).unwrap(), Some(Kind::File));
    assert_eq!(disk.read_dir(Path::new("")).unwrap(), ["here"]);
    assert_eq!(kind_of(disk.open(Path::new("/"), Open::read())), Some(ErrorKind::IsADirectory));
}
