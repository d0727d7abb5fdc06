//! A file that is set aside when it is full.
//!
//! ```text
//!   etcd.log                            grows to `size_mb_max`, then becomes a backup and starts afresh
//!   etcd-2026-11-15T17-59-00.194.log    a backup, named by when it was set aside
//!   etcd-2026-11-14T03-00-12.007.log
//!   etcd-2026-11-13T11-41-55.630.log.gz one that etcd left compressed: kept and removed by the same rules
//! ```
//!
//! Names and rules are lumberjack's, which etcd uses. Always true: a line is in one file; the file is never longer than its bound
//! unless it cannot be renamed, for then lines are worth more than the bound; no backup overwrites another.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::Sink;
use super::stream::write_fully;
use crate::Rotation;
use crate::line::Line;
use crate::stamp::{self, Zone, is_backup_stamp};

/// Of a new file that replaces none.
const MODE: u32 = 0o600;
/// What a compressed backup's name ends with.
const COMPRESSED: &str = ".gz";
/// How many names are tried for one backup, a millisecond apart.
const BACKUP_NAMES_MAX: i64 = 1000;

/// The file, and how full it is.
pub(crate) struct Rotated {
    path: PathBuf,
    rules: Rules,
    file: File,
    len: u64,
    chunk: Vec<u8>,
}

/// When to set aside, and what to keep.
#[derive(Clone, Debug)]
struct Rules {
    len_max: u64,
    age_max: Option<SignedDuration>,
    backups_max: Option<u64>,
    zone: Zone,
}

impl Rotated {
    /// Opens the file, with the folders above it.
    pub(crate) fn open(path: &Path, rotation: &Rotation) -> io::Result<Self> {
        Self::open_with(path, Rules::new(rotation))
    }

    fn open_with(path: &Path, rules: Rules) -> io::Result<Self> {
        fs::create_dir_all(folder_of(path))?;
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
        let len = file.metadata()?.len();
        let rotated = Self { path: path.to_owned(), rules, file, len, chunk: Vec::new() };
        rotated.clean(stamp::now());
        Ok(rotated)
    }

    /// Sets the file aside and starts a new one with its owner and mode.
    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let old = self.file.metadata()?;
        match fs::rename(&self.path, self.free_name(now)?) {
            // Somebody else moved it, or an earlier try ended half way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
        self.file = create_like(&self.path, &old)?;
        self.len = 0;
        self.clean(now);
        Ok(())
    }

    /// The first name that no file has. Two backups within a millisecond would else be one.
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

    /// Removes the backups that the rules let go. One that cannot be removed now is tried again at the next rotation.
    fn clean(&self, now: Timestamp) {
        let backups = backups(&self.path);
        for name in self.rules.expired(&backups, now) {
            let _ = fs::remove_file(self.path.with_file_name(name));
        }
    }

    /// Writes what is gathered, `lines` lines of it; how many were lost.
    fn flush(&mut self, lines: usize) -> usize {
        let outcome = write_fully(&mut self.file, &self.chunk);
        self.len += self.chunk.len() as u64;
        self.chunk.clear();
        if outcome.is_ok() {
            return 0;
        }
        // Who knows how much of it went in.
        self.len = self.file.metadata().map_or(self.len, |file| file.len());
        lines
    }

    fn is_full_with(&self, line: &Line) -> bool {
        let next = self.len + (self.chunk.len() + line.text.len()) as u64;
        next > self.rules.len_max && self.len + self.chunk.len() as u64 > 0
    }
}

impl Sink for Rotated {
    fn write(&mut self, lines: &[Line]) -> usize {
        let (mut lost, mut gathered) = (0, 0);
        for line in lines {
            if self.is_full_with(line) {
                lost += self.flush(gathered);
                gathered = 0;
                // A file that cannot be set aside goes on growing: that loses nothing, and the next line tries again.
                let _ = self.rotate(stamp::now());
            }
            self.chunk.extend_from_slice(line.text.as_bytes());
            gathered += 1;
        }
        lost + self.flush(gathered)
    }
}

impl Rules {
    fn new(rotation: &Rotation) -> Self {
        let days = i64::try_from(rotation.age_days_max).unwrap_or(i64::MAX);
        Self {
            len_max: rotation.size_bytes_max(),
            age_max: (days > 0).then(|| SignedDuration::from_secs(days.saturating_mul(24 * 3600))),
            backups_max: (rotation.backups_max > 0).then_some(rotation.backups_max),
            zone: if rotation.local_time { Zone::system() } else { Zone::utc() },
        }
    }

    /// Which of `backups`, newest first, are to go.
    fn expired<'a>(&self, backups: &'a [Backup], now: Timestamp) -> Vec<&'a str> {
        let oldest = self.oldest_stamp(now);
        let (mut nth, mut last) = (0, "");
        let mut expired = Vec::new();
        for backup in backups {
            // A backup and its compressed twin count as one.
            nth += u64::from(backup.stamp != last);
            last = &backup.stamp;
            if self.backups_max.is_some_and(|max| nth > max) || backup.stamp < oldest {
                expired.push(backup.name.as_str());
            }
        }
        expired
    }

    /// Backups with an earlier stamp are too old; empty when none are. As in lumberjack, stamps are read as UTC.
    fn oldest_stamp(&self, now: Timestamp) -> String {
        let oldest = self.age_max.and_then(|age| now.checked_sub(age).ok());
        oldest.map_or_else(String::new, |at| Zone::utc().backup(at))
    }
}

/// A file set aside earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Backup {
    stamp: String,
    name: String,
}

/// All backups of a file, newest first.
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

/// The backup that a name stands for, if it was made from this file's name.
fn backup_of(path: &Path, name: &str) -> Option<Backup> {
    let (prefix, extension) = name_parts(path);
    let rest = name.strip_prefix(&prefix)?;
    let rest = rest.strip_suffix(COMPRESSED).unwrap_or(rest);
    let stamp = rest.strip_suffix(&extension)?;
    is_backup_stamp(stamp).then(|| Backup { stamp: stamp.to_owned(), name: name.to_owned() })
}

/// `etcd-` and `.log`, for `etcd.log`.
fn name_parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dot = name.rfind('.').unwrap_or(name.len());
    (format!("{}-", &name[..dot]), name[dot..].to_owned())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new file that belongs to whom the old one did. That the owner stays is a wish: it takes rights that few have.
fn create_like(path: &Path, old: &Metadata) -> io::Result<File> {
    let mode = old.permissions().mode();
    let file = OpenOptions::new().append(true).create(true).mode(mode).open(path)?;
    let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
    Ok(file)
}

#[cfg(test)]
mod tests;
