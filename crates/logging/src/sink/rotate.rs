//! A log file with rotation.
//!
//! ```text
//!   etcd.log                            grows to `size_mb_max`, then becomes a backup
//!   etcd-2026-11-15T17-59-00.194.log    a backup, named by the time of its rotation
//!   etcd-2026-11-14T03-00-12.007.log.gz a compressed one
//! ```
//!
//! Names and rules are those of lumberjack, which etcd uses; [`backups`](super::backups) has those
//! of backups. Invariants: a line is never split between files; the file exceeds its maximum size
//! only if it cannot be renamed; no backup overwrites another.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::Sink;
use super::backups::{Backups, dir_of};
use super::compress::Compressor;
use super::stream::write_fully;
use crate::Rotation;
use crate::line::Line;
use crate::timestamp;

/// The mode of the first file.
const MODE: u32 = 0o600;

/// A sink that writes to a file and rotates it.
pub(crate) struct RotatingFile {
    path: PathBuf,
    len_max: u64,
    backups: Backups,
    /// Removes and compresses backups, if they are compressed.
    compressor: Option<Compressor>,
    file: File,
    len: u64,
    chunk: Vec<u8>,
}

impl RotatingFile {
    /// Opens the file, creating the directories above it.
    pub(crate) fn open(path: &Path, rotation: &Rotation) -> io::Result<Self> {
        Self::open_with(path, rotation.size_bytes_max(), rotation)
    }

    fn open_with(path: &Path, len_max: u64, rotation: &Rotation) -> io::Result<Self> {
        fs::create_dir_all(dir_of(path))?;
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
        let len = file.metadata()?.len();
        let backups = Backups::new(path, rotation);
        let compressor =
            rotation.compress.then(|| Compressor::start(backups.clone())).transpose()?;
        let path = path.to_owned();
        let rotated = Self { path, len_max, backups, compressor, file, len, chunk: Vec::new() };
        rotated.clean(timestamp::now());
        Ok(rotated)
    }

    /// Renames the file to a backup and creates a new one with the same owner and mode.
    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let old = self.file.metadata()?;
        match fs::rename(&self.path, self.backups.free_name(now)?) {
            // Another process moved the file, or an earlier rotation stopped half way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
        self.file = create_like(&self.path, &old)?;
        self.len = 0;
        self.clean(now);
        Ok(())
    }

    /// Removes expired backups, and compresses the others if they are to be.
    fn clean(&self, now: Timestamp) {
        match &self.compressor {
            Some(compressor) => compressor.wake(),
            None => self.backups.clean(now),
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
        next > self.len_max && self.len + self.chunk.len() as u64 > 0
    }
}

impl Sink for RotatingFile {
    fn write(&mut self, lines: &[Line]) -> usize {
        let (mut lost, mut buffered) = (0, 0);
        for line in lines {
            if self.is_full_with(line) {
                lost += self.flush(buffered);
                buffered = 0;
                // If the rotation fails, the file keeps growing, and the next line tries again.
                let _ = self.rotate(timestamp::now());
            }
            self.chunk.extend_from_slice(line.text.as_bytes());
            buffered += 1;
        }
        lost + self.flush(buffered)
    }
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
