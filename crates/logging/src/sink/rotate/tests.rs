//! Rotation of files of a few bytes.

use super::*;
use crate::Level;
use crate::sink::line;

const NOW: &str = "2026-11-15T17:59:00.194Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn open(path: &Path, len_max: u64) -> RotatingFile {
    RotatingFile::open_with(path, len_max, &Rotation::default()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn write(rotated: &mut RotatingFile, texts: &[&str]) {
    let lines: Vec<_> = texts.iter().map(|text| line(Level::Info, text)).collect();
    assert_eq!(rotated.write(&lines), 0);
}

#[test]
fn rotation_neither_splits_nor_loses_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/etcd.log");
    let mut rotated = open(&path, 10);
    write(&mut rotated, &["one\n", "two\n", "three\n", "four\n", "longer than ten\n", "five\n"]);
    let backups = rotated.backups.uncompressed();
    let contents: Vec<_> =
        backups.iter().rev().map(|backup| fs::read_to_string(backup).unwrap()).collect();
    assert_eq!(contents, ["one\ntwo\n", "three\n", "four\n", "longer than ten\n"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "five\n");
}

#[test]
fn backups_within_a_millisecond_get_distinct_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.log");
    let mut rotated = open(&path, 10);
    for text in ["one\n", "two\n"] {
        write(&mut rotated, &[text]);
        rotated.rotate(now()).unwrap();
    }
    let expected =
        ["etcd-2026-11-15T17-59-00.194.log", "etcd-2026-11-15T17-59-00.195.log", "etcd.log"];
    assert_eq!(names(dir.path()), expected);
    assert_eq!(fs::read_to_string(dir.path().join(expected[1])).unwrap(), "two\n");
}

#[test]
fn the_first_file_is_private_and_its_successors_keep_the_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.log");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut rotated = open(&path, 10);
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    rotated.rotate(now()).unwrap();
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn an_existing_file_is_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.log");
    fs::write(&path, "before\n").unwrap();
    let mut rotated = open(&path, 12);
    write(&mut rotated, &["one\n"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "before\none\n");
    write(&mut rotated, &["two\n"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
}

#[test]
fn a_moved_file_is_created_again_at_the_next_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.log");
    let mut rotated = open(&path, 8);
    write(&mut rotated, &["one\n"]);
    fs::rename(&path, dir.path().join("moved")).unwrap();
    write(&mut rotated, &["two\n", "three\n"]);
    assert_eq!(fs::read_to_string(dir.path().join("moved")).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
}

#[test]
fn rotated_files_are_compressed_while_lines_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.log");
    let rotation = Rotation { compress: true, ..Rotation::default() };
    let mut rotated = RotatingFile::open_with(&path, 10, &rotation).unwrap();
    write(&mut rotated, &["one\n", "two\n", "three\n", "four\n"]);
    rotated.compressor.take().unwrap().finish();
    drop(rotated);
    let names = names(dir.path());
    let compressed = names.iter().filter(|name| name.ends_with(".log.gz"));
    let text = |name: &String| {
        let file = File::open(dir.path().join(name)).unwrap();
        std::io::read_to_string(flate2::read::GzDecoder::new(file)).unwrap()
    };
    assert_eq!(compressed.map(text).collect::<Vec<_>>(), ["one\ntwo\n", "three\n"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "four\n");
}

#[test]
fn expired_backups_are_removed_when_the_file_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.log");
    let backups = ["etcd-2026-11-11T00-00-00.000.log", "etcd-2026-11-12T00-00-00.000.log"];
    for name in backups {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let rotation = Rotation { backups_max: 1, ..Rotation::default() };
    drop(RotatingFile::open_with(&path, 10, &rotation).unwrap());
    assert_eq!(names(dir.path()), [backups[1], "etcd.log"]);
}
