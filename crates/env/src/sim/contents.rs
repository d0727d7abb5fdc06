//! The contents of a file, and what else a power cut may leave.
//!
//! Reads see `bytes`. For every sector changed since its last sync, and for the length, the earlier
//! versions are kept, oldest first, each with the stamp of the change that replaced it:
//!
//! ```text
//! sector              0          1          2
//! bytes               cc...      dd...      dd...     current content; length 1536
//! versions            aa... #4   00... #5   00... #5  sector 0: durable 'a', then 'b'
//!                     bb... #7
//! lengths             512 #5                          change 5 made the file longer
//! ```
//!
//! A successful sync drops the versions: only `bytes` remains. A failed one does what Linux does:
//! it reports the error and marks the pages clean, so the next sync does not write them and
//! succeeds. The versions stay, no longer *dirty*, until the sector is written and synced again.
//!
//! Invariants: a version is zero where the file did not reach; `versions` of a sector is never
//! empty; `space` has exactly one element per sector of `bytes`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SECTOR;

/// A sector: the unit that a disk writes atomically.
pub(super) type Sector = Box<[u8; SECTOR]>;

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct FileContents {
    /// The current content. Shared with maps and with disks cut from this one (copy-on-write).
    pub(super) bytes: Arc<Vec<u8>>,
    /// Sector versions that a power cut may restore.
    pub(super) sectors: BTreeMap<usize, Unsynced<SectorVersion>>,
    /// Lengths that a power cut may restore.
    pub(super) lengths: Unsynced<OldLength>,
    /// The sectors that occupy space. Extending a file does not allocate any.
    pub(super) space: Arc<Vec<bool>>,
}

/// The versions since the last durable one, oldest first.
#[derive(Debug)]
pub(super) struct Unsynced<T> {
    pub(super) versions: Vec<T>,
    /// The next sync will write the current version.
    dirty: bool,
}

/// An earlier version of a sector.
#[derive(Debug)]
pub(super) struct SectorVersion {
    /// `None` for zeros.
    pub(super) bytes: Option<Sector>,
    pub(super) replaced_by: u64,
}

/// An earlier length.
#[derive(Debug)]
pub(super) struct OldLength {
    pub(super) len: usize,
    pub(super) replaced_by: u64,
    /// The file grew by a write, which the disk may perform sector by sector, not by a change of
    /// the length alone.
    pub(super) grown_by_write: bool,
}

impl<T> Default for Unsynced<T> {
    fn default() -> Unsynced<T> {
        Unsynced { versions: Vec::new(), dirty: false }
    }
}

impl<T> Unsynced<T> {
    fn push(&mut self, version: T) {
        self.versions.push(version);
        self.dirty = true;
    }
}

impl FileContents {
    /// Creates durable contents.
    pub(super) fn durable(bytes: Arc<Vec<u8>>, space: Arc<Vec<bool>>) -> FileContents {
        FileContents { bytes, space, ..FileContents::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies bytes from an offset. Returns the number copied.
    pub(super) fn read(&self, buf: &mut [u8], offset: usize) -> usize {
        let available = self.bytes.get(offset..).unwrap_or_default();
        let count = available.len().min(buf.len());
        buf[..count].copy_from_slice(&available[..count]);
        count
    }

    /// Writes bytes, as the change `stamp`.
    pub(super) fn write(&mut self, buf: &[u8], offset: usize, stamp: u64) {
        if buf.is_empty() {
            return;
        }
        let end = offset + buf.len();
        for sector in sectors(offset, end) {
            self.keep_version(sector, stamp);
        }
        if end > self.len() {
            self.keep_length(stamp, true);
            self.resize(end);
        } else if self.lengths.versions.iter().any(|old| end > old.len) {
            // The length is needed to read this data, so the next sync includes it even if an
            // earlier one lost it.
            self.lengths.dirty = true;
        }
        Arc::make_mut(&mut self.bytes)[offset..end].copy_from_slice(buf);
        Arc::make_mut(&mut self.space)[sectors(offset, end)].fill(true);
    }

    /// Truncates the file or extends it with zeros, as the change `stamp`.
    pub(super) fn set_len(&mut self, len: usize, stamp: u64) {
        if len == self.len() {
            return;
        }
        for sector in sectors(len, self.len()) {
            self.keep_version(sector, stamp);
        }
        self.keep_length(stamp, false);
        self.resize(len);
    }

    /// Allocates all sectors up to a length, and extends the file to it.
    pub(super) fn allocate(&mut self, len: usize, stamp: u64) {
        if len > self.len() {
            self.set_len(len, stamp);
        }
        Arc::make_mut(&mut self.space)[sectors(0, len)].fill(true);
    }

    /// Makes everything dirty durable.
    pub(super) fn sync(&mut self) {
        self.sectors.retain(|_, sector| !sector.dirty);
        if self.lengths.dirty {
            self.lengths = Unsynced::default();
            // A truncation that an earlier sync failed to write is durable now, so the data does
            // not come back when the file grows.
            self.sectors.split_off(&self.len().div_ceil(SECTOR));
        }
    }

    /// Marks everything clean without making it durable: reads are unaffected, and later syncs skip
    /// it.
    pub(super) fn sync_failed(&mut self) {
        self.sectors.values_mut().for_each(|sector| sector.dirty = false);
        self.lengths.dirty = false;
    }

    /// Flips a bit in every version of its sector.
    pub(super) fn flip_bit(&mut self, byte: usize, mask: u8) {
        Arc::make_mut(&mut self.bytes)[byte] ^= mask;
        let Some(sector) = self.sectors.get_mut(&(byte / SECTOR)) else { return };
        for version in &mut sector.versions {
            version.bytes.get_or_insert_with(zeros)[byte % SECTOR] ^= mask;
        }
    }

    /// Number of sectors that occupy space.
    pub(super) fn sectors_used(&self) -> usize {
        self.space.iter().filter(|used| **used).count()
    }

    /// Number of additional sectors needed to write from one offset to another.
    pub(super) fn sectors_missing(&self, from: usize, to: usize) -> usize {
        sectors(from, to).filter(|sector| !self.has_space(*sector)).count()
    }

    /// Reports whether a sector occupies space.
    pub(super) fn has_space(&self, sector: usize) -> bool {
        self.space.get(sector).copied().unwrap_or(false)
    }

    /// The current content of a sector, zero-padded after the end of the file.
    pub(super) fn sector(&self, sector: usize) -> Option<Sector> {
        let start = sector * SECTOR;
        let existing = self.bytes.get(start..(start + SECTOR).min(self.len()))?;
        let mut copy = zeros();
        copy[..existing.len()].copy_from_slice(existing);
        Some(copy)
    }

    fn keep_version(&mut self, sector: usize, stamp: u64) {
        let version = SectorVersion { bytes: self.sector(sector), replaced_by: stamp };
        self.sectors.entry(sector).or_default().push(version);
    }

    fn keep_length(&mut self, stamp: u64, grown_by_write: bool) {
        let old = OldLength { len: self.len(), replaced_by: stamp, grown_by_write };
        self.lengths.push(old);
    }

    fn resize(&mut self, len: usize) {
        Arc::make_mut(&mut self.bytes).resize(len, 0);
        Arc::make_mut(&mut self.space).resize(len.div_ceil(SECTOR), false);
    }
}

/// The sectors that a range of bytes touches.
pub(super) fn sectors(from: usize, to: usize) -> std::ops::Range<usize> {
    if from < to { from / SECTOR..to.div_ceil(SECTOR) } else { 0..0 }
}

fn zeros() -> Sector {
    Box::new([0; SECTOR])
}
