//! A log file with rotation.
//!
//! ```text
//!   etcd.log                            grows to `size_mb_max`, then becomes a backup
//!   etcd-2026-11-15T17-59-00.194.log    a backup, named by the time of its rotation
//!   etcd-2026-11-14T03-00-12.007.log
//!   etcd-2026-11-13T11-41-55.630.log.gz a compressed backup of etcd: the same rules apply
//! ```
//!
//! Names and rules are those of lumberjack, which etcd uses. Invariants: a line is never split
//! between files; the file exceeds its maximum size only if it cannot be renamed; no backup
//! overwrites another.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::Sink;
use super::stream::write_fully;
use crate::Rotation;
use crate::line::Line;
use crate::timestamp::{self, Zone, is_backup_stamp};

/// The mode of the first file.
const MODE: u32 = 0o600;
/// The suffix of compressed backups.
const COMPRESSED: &str = ".gz";
/// The number of names that are tried for a backup, one millisecond apart.
const BACKUP_NAMES_MAX: i64 = 1000;

/// A sink that writes to a file and rotates it.
pub(crate) struct RotatingFile {
    path: PathBuf,
    rules: RotationRules,
    file: File,
    len: u64,
    chunk: Vec<u8>,
}

/// When to rotate, and which backups to keep.
#[derive(Clone, Debug)]
struct RotationRules {
    len_max: u64,
    age_max: Option<SignedDuration>,
    backups_max: Option<u64>,
    zone: Zone,
}

impl RotatingFile {
    /// Opens the file, creating the folders above it.
    pub(crate) fn open(path: &Path, rotation: &Rotation) -> io::Result<Self> {
        Self::open_with(path, RotationRules::new(rotation))
    }

    fn open_with(path: &Path, rules: RotationRules) -> io::Result<Self> {
        fs::create_dir_all(folder_of(path))?;
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
        let len = file.metadata()?.len();
        let rotated = Self { path: path.to_owned(), rules, file, len, chunk: Vec::new() };
        rotated.clean(timestamp::now());
        Ok(rotated)
    }

    /// Renames the file to a backup and creates a new one with the same owner and mode.
    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let old = self.file.metadata()?;
        match fs::rename(&self.path, self.free_name(now)?) {
            // Another process moved the file, or an earlier rotation stopped half way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
        self.file = create_like(&self.path, &old)?;
        self.len = 0;
        self.clean(now);
        Ok(())
    }

    /// Returns the first unused backup name: two rotations may fall into one millisecond.
    fn free_name(&self, now: Timestamp) -> io::Result<PathBuf> {
        (0..BACKUP_NAMES_MAX)
            .filter_map(|later| now.checked_add(SignedDuration::from_millis(later)).ok())
            .map(|at| self.backup_path(&self.rules.zone.backup(at)))
            .find(|path| !path.exists())
            .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }

    fn backup_path(&self, stamp: &str) -> PathBuf {
        let (prefix, extension) = name_parts(&self.path);
        self.path.with_file_name(format!("{prefix}{stamp}{extension}"))
    }

    /// Removes expired backups. A failure is retried at the next rotation.
    fn clean(&self, now: Timestamp) {
        let backups = backups(&self.path);
        for name in self.rules.expired(&backups, now) {
            let _ = fs::remove_file(self.path.with_file_name(name));
        }
    }

    /// Writes the buffered chunk of `lines` lines. Returns how many were lost.
    fn flush(&mut self, lines: usize) -> usize {
        let outcome = write_fully(&mut self.file, &self.chunk);
        self.len += self.chunk.len() as u64;
        self.chunk.clear();
        if outcome.is_ok() {
            return 0;
        }
        // The write may have been partial.
        self.len = self.file.metadata().map_or(self.len, |file| file.len());
        lines
    }

    fn is_full_with(&self, line: &Line) -> bool {
        let next = self.len + (self.chunk.len() + line.text.len()) as u64;
        next > self.rules.len_max && self.len + self.chunk.len() as u64 > 0
    }
}

impl Sink for RotatingFile {
    fn write(&mut self, lines: &[Line]) -> usize {
        let (mut lost, mut gathered) = (0, 0);
        for line in lines {
            if self.is_full_with(line) {
                lost += self.flush(gathered);
                gathered = 0;
                // If the rotation fails, the file keeps growing, and the next line tries again.
                let _ = self.rotate(timestamp::now());
            }
            self.chunk.extend_from_slice(line.text.as_bytes());
            gathered += 1;
        }
        lost + self.flush(gathered)
    }
}

impl RotationRules {
    fn new(rotation: &Rotation) -> Self {
        let days = i64::try_from(rotation.age_days_max).unwrap_or(i64::MAX);
        Self {
            len_max: rotation.size_bytes_max(),
            age_max: (days > 0).then(|| SignedDuration::from_secs(days.saturating_mul(24 * 3600))),
            backups_max: (rotation.backups_max > 0).then_some(rotation.backups_max),
            zone: if rotation.local_time { Zone::system() } else { Zone::utc() },
        }
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

/// A backup file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Backup {
    stamp: String,
    name: String,
}

/// Returns all backups of a file, newest first.
fn backups(path: &Path) -> Vec<Backup> {
    let Ok(entries) = fs::read_dir(folder_of(path)) else { return Vec::new() };
    let mut found: Vec<Backup> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
        .filter_map(|entry| backup_of(path, &entry.file_name().into_string().ok()?))
        .collect();
    found.sort_by(|a, b| (&b.stamp, &b.name).cmp(&(&a.stamp, &a.name)));
    found
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

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a file with the mode and, if the process may, the owner of the old one.
fn create_like(path: &Path, old: &Metadata) -> io::Result<File> {
    let mode = old.permissions().mode();
    let file = OpenOptions::new().append(true).create(true).mode(mode).open(path)?;
    let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
    Ok(file)
}

#[cfg(test)]
mod tests;
