//! Rotation of files of a few bytes.

use super::*;
use crate::Level;
use crate::sink::line;

const NOW: &str = "2026-11-15T17:59:00.194Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn rules(len_max: u64) -> RotationRules {
    RotationRules { len_max, age_max: None, backups_max: None, zone: Zone::utc() }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/etcd.log");
    let mut rotated = RotatingFile::open_with(&path, rules(10)).unwrap();
    write(&mut rotated, &["one\n", "two\n", "three\n", "four\n", "longer than ten\n", "five\n"]);
    let backups = backups(&path);
    let contents: Vec<_> = backups
        .iter()
        .rev()
        .map(|backup| fs::read_to_string(path.with_file_name(&backup.name)).unwrap())
        .collect();
    assert_eq!(contents, ["one\ntwo\n", "three\n", "four\n", "longer than ten\n"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "five\n");
}

#[test]
fn backups_within_a_millisecond_get_distinct_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("etcd.log");
    let mut rotated = RotatingFile::open_with(&path, rules(10)).unwrap();
    for text in ["one\n", "two\n"] {
        write(&mut rotated, &[text]);
        rotated.rotate(now()).unwrap();
    }
    let expected =
        ["etcd-2026-11-15T17-59-00.194.log", "etcd-2026-11-15T17-59-00.195.log", "etcd.log"];
    assert_eq!(names(folder.path()), expected);
    assert_eq!(fs::read_to_string(folder.path().join(expected[1])).unwrap(), "two\n");
}

#[test]
fn the_first_file_is_private_and_its_successors_keep_the_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("etcd.log");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut rotated = RotatingFile::open_with(&path, rules(10)).unwrap();
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    rotated.rotate(now()).unwrap();
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn an_existing_file_is_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("etcd.log");
    fs::write(&path, "before\n").unwrap();
    let mut rotated = RotatingFile::open_with(&path, rules(12)).unwrap();
    write(&mut rotated, &["one\n"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "before\none\n");
    write(&mut rotated, &["two\n"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
}

#[test]
fn a_moved_file_is_created_again_at_the_next_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("etcd.log");
    let mut rotated = RotatingFile::open_with(&path, rules(8)).unwrap();
    write(&mut rotated, &["one\n"]);
    fs::rename(&path, folder.path().join("moved")).unwrap();
    write(&mut rotated, &["two\n", "three\n"]);
    assert_eq!(fs::read_to_string(folder.path().join("moved")).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
}

#[test]
fn the_newest_backups_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("etcd.log");
    for name in [
        "etcd-2026-11-11T00-00-00.000.log",
        "etcd-2026-11-12T00-00-00.000.log.gz",
        "etcd-2026-11-13T00-00-00.000.log",
        "etcd-2026-11-13T00-00-00.000.log.gz",
        "etcd-2026-11-13.log",
        "etcd-other-2026-11-01T00-00-00.000.log",
        "other.log",
    ] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let rules = RotationRules { backups_max: Some(2), ..rules(10) };
    drop(RotatingFile::open_with(&path, rules).unwrap());
    let expected = [
        "etcd-2026-11-12T00-00-00.000.log.gz",
        "etcd-2026-11-13.log",
        "etcd-2026-11-13T00-00-00.000.log",
        "etcd-2026-11-13T00-00-00.000.log.gz",
        "etcd-other-2026-11-01T00-00-00.000.log",
        "etcd.log",
        "other.log",
    ];
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn backups_older_than_the_maximum_age_expire() {
    let rules = RotationRules { age_max: Some(SignedDuration::from_hours(48)), ..rules(10) };
    let backup = |stamp: &str| Backup { stamp: stamp.to_owned(), name: stamp.to_owned() };
    let backups = [backup("2026-11-13T17-59-00.194"), backup("2026-11-13T17-59-00.193")];
    assert_eq!(rules.expired(&backups, now()), ["2026-11-13T17-59-00.193"]);
}

#[test]
fn without_limits_all_backups_are_kept() {
    let rules = RotationRules::new(&Rotation::default());
    assert_eq!(rules.len_max, 100 * 1024 * 1024);
    let old = Backup { stamp: "1999-01-01T00-00-00.000".to_owned(), name: String::new() };
    assert_eq!(rules.expired(&vec![old; 3], now()), [""; 0]);
}
