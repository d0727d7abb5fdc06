//! The backups of a rotated log file: which exist, which expire, and which to compress.
//!
//! ```text
//!   etcd-2026-11-15T17-59-00.194.log       rotated at that time
//!   etcd-2026-11-13T11-41-55.630.log.gz    the same, compressed
//! ```
//!
//! Names and rules are those of lumberjack, which etcd uses.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::Rotation;
use crate::timestamp::{Zone, is_backup_stamp};

/// The suffix of compressed backups.
pub(super) const COMPRESSED: &str = ".gz";
/// The number of names that are tried for a backup, one millisecond apart.
const BACKUP_NAMES_MAX: i64 = 1000;

/// The backups of a file.
#[derive(Clone, Debug)]
pub(super) struct Backups {
    /// The path of the file.
    path: PathBuf,
    age_max: Option<SignedDuration>,
    backups_max: Option<u64>,
    zone: Zone,
}

/// A backup file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backup {
    stamp: String,
    name: String,
}

impl Backups {
    pub(super) fn new(path: &Path, rotation: &Rotation) -> Self {
        let days = i64::try_from(rotation.age_days_max).unwrap_or(i64::MAX);
        Self {
            path: path.to_owned(),
            age_max: (days > 0).then(|| SignedDuration::from_secs(days.saturating_mul(24 * 3600))),
            backups_max: (rotation.backups_max > 0).then_some(rotation.backups_max),
            zone: if rotation.local_time { Zone::system() } else { Zone::utc() },
        }
    }

    /// Returns the first unused name for a backup: two rotations may fall into one millisecond.
    pub(super) fn free_name(&self, now: Timestamp) -> io::Result<PathBuf> {
        let (prefix, extension) = name_parts(&self.path);
        let is_free = |name: &String| {
            let compressed = format!("{name}{COMPRESSED}");
            !self.path.with_file_name(name).exists()
                && !self.path.with_file_name(compressed).exists()
        };
        (0..BACKUP_NAMES_MAX)
            .filter_map(|later| now.checked_add(SignedDuration::from_millis(later)).ok())
            .map(|at| format!("{prefix}{}{extension}", self.zone.backup(at)))
            .find(is_free)
            .map(|name| self.path.with_file_name(name))
            .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }

    /// Removes expired backups. A failure is retried at the next rotation.
    pub(super) fn clean(&self, now: Timestamp) {
        for name in self.expired(&self.list(), now) {
            let _ = fs::remove_file(self.path.with_file_name(name));
        }
    }

    /// Returns the backups that are not compressed, newest first.
    pub(super) fn uncompressed(&self) -> Vec<PathBuf> {
        let backups = self.list().into_iter();
        let plain = backups.filter(|backup| !backup.name.ends_with(COMPRESSED));
        plain.map(|backup| self.path.with_file_name(backup.name)).collect()
    }

    /// Returns all backups, newest first.
    fn list(&self) -> Vec<Backup> {
        let Ok(entries) = fs::read_dir(dir_of(&self.path)) else { return Vec::new() };
        let mut found: Vec<Backup> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
            .filter_map(|entry| backup_of(&self.path, &entry.file_name().into_string().ok()?))
            .collect();
        found.sort_by(|a, b| (&b.stamp, &b.name).cmp(&(&a.stamp, &a.name)));
        found
    }

    /// Returns the names of the expired `backups`, which are sorted newest first.
    fn expired<'a>(&self, backups: &'a [Backup], now: Timestamp) -> Vec<&'a str> {
        let oldest = self.oldest_stamp(now);
        let (mut nth, mut last) = (0, "");
        let mut expired = Vec::new();
        for backup in backups {
            // A backup and its compressed form count as one.
            nth += u64::from(backup.stamp != last);
            last = &backup.stamp;
            if self.backups_max.is_some_and(|max| nth > max) || backup.stamp < oldest {
                expired.push(backup.name.as_str());
            }
        }
        expired
    }

    /// Returns the timestamp before which backups are expired; empty if they never are.
    ///
    /// Compat: as in lumberjack, timestamps are compared as UTC.
    fn oldest_stamp(&self, now: Timestamp) -> String {
        let oldest = self.age_max.and_then(|age| now.checked_sub(age).ok());
        oldest.map_or_else(String::new, |at| Zone::utc().backup(at))
    }
}

/// Returns the directory of a file.
pub(super) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Parses the name of a backup of `path`.
fn backup_of(path: &Path, name: &str) -> Option<Backup> {
    let (prefix, extension) = name_parts(path);
    let rest = name.strip_prefix(&prefix)?;
    let rest = rest.strip_suffix(COMPRESSED).unwrap_or(rest);
    let stamp = rest.strip_suffix(&extension)?;
    is_backup_stamp(stamp).then(|| Backup { stamp: stamp.to_owned(), name: name.to_owned() })
}

/// Splits `etcd.log` into `etcd-` and `.log`.
fn name_parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dot = name.rfind('.').unwrap_or(name.len());
    (format!("{}-", &name[..dot]), name[dot..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T17:59:00.194Z".parse().unwrap()
    }

    fn backups(path: &Path) -> Backups {
        Backups::new(path, &Rotation::default())
    }

    #[test]
    fn the_newest_backups_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd.log");
        for name in [
            "etcd-2026-11-11T00-00-00.000.log",
            "etcd-2026-11-12T00-00-00.000.log.gz",
            "etcd-2026-11-13T00-00-00.000.log",
            "etcd-2026-11-13T00-00-00.000.log.gz",
            "etcd-2026-11-13.log",
            "etcd-other-2026-11-01T00-00-00.000.log",
            "other.log",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        Backups { backups_max: Some(2), ..backups(&path) }.clean(now());
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [
            "etcd-2026-11-12T00-00-00.000.log.gz",
            "etcd-2026-11-13.log",
            "etcd-2026-11-13T00-00-00.000.log",
            "etcd-2026-11-13T00-00-00.000.log.gz",
            "etcd-other-2026-11-01T00-00-00.000.log",
            "other.log",
        ];
        assert_eq!(names, expected);
        let plain = path.with_file_name("etcd-2026-11-13T00-00-00.000.log");
        assert_eq!(backups(&path).uncompressed(), [plain]);
    }

    #[test]
    fn a_name_is_free_if_neither_form_exists() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd.log");
        fs::write(dir.path().join("etcd-2026-11-15T17-59-00.194.log"), "").unwrap();
        fs::write(dir.path().join("etcd-2026-11-15T17-59-00.195.log.gz"), "").unwrap();
        let free = backups(&path).free_name(now()).unwrap();
        assert_eq!(free, path.with_file_name("etcd-2026-11-15T17-59-00.196.log"));
    }

    #[test]
    fn backups_older_than_the_maximum_age_expire() {
        let kept = Backups {
            age_max: Some(SignedDuration::from_hours(48)),
            ..backups(Path::new("etcd.log"))
        };
        let backup = |stamp: &str| Backup { stamp: stamp.to_owned(), name: stamp.to_owned() };
        let backups = [backup("2026-11-13T17-59-00.194"), backup("2026-11-13T17-59-00.193")];
        assert_eq!(kept.expired(&backups, now()), ["2026-11-13T17-59-00.193"]);
    }

    #[test]
    fn without_limits_all_backups_are_kept() {
        let old = Backup { stamp: "1999-01-01T00-00-00.000".to_owned(), name: String::new() };
        assert_eq!(backups(Path::new("x")).expired(&vec![old; 3], now()), [""; 0]);
    }
}
