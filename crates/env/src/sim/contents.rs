//! The contents of one file: what is read, and what else a power cut may leave.
//!
//! Reads see `bytes`. For every sector changed since it was last durable, and for the length, the versions before are kept,
//! oldest first, each with the number of the change that replaced it:
//!
//! ```text
//! sector              0          1          2
//! bytes               cc...      dd...      dd...     what is read; length 1536
//! versions            aa... #4   00... #5   00... #5  sector 0 was a durable 'a', then 'b' until change 7
//!                     bb... #7
//! lengths             512 #5                          change 5 made the file longer
//! ```
//!
//! A successful sync forgets the versions: only `bytes` is left to be found. A failed one does what Linux does. It reports the
//! error and takes the pages for clean, so the next sync does not write them and succeeds: the versions stay, no longer
//! *dirty*, until the sector is written again and that is synced.
//!
//! Invariants: a version has zeros where the file did not reach; `versions` of a sector is never empty; `space` has a place for
//! every sector of `bytes` and no more.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SECTOR;

/// What a disk writes whole or not at all.
pub(super) type Sector = Box<[u8; SECTOR]>;

/// The contents of one file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// What is read. Shared with maps and with disks cut from this one; whoever writes copies first.
    pub(super) bytes: Arc<Vec<u8>>,
    /// What a power cut may leave in place of `bytes`.
    pub(super) sectors: BTreeMap<usize, Unsynced<Version>>,
    /// What a power cut may leave in place of the length of `bytes`.
    pub(super) lengths: Unsynced<OldLength>,
    /// Which sectors take up space. Those of a file that was only made longer do not.
    pub(super) space: Arc<Vec<bool>>,
}

/// The versions of something since it was last known to be durable, oldest first.
#[derive(Debug)]
pub(super) struct Unsynced<T> {
    pub(super) versions: Vec<T>,
    /// Whether the next sync will write it.
    dirty: bool,
}

/// What a sector held.
#[derive(Debug)]
pub(super) struct Version {
    /// None: zeros.
    pub(super) bytes: Option<Sector>,
    pub(super) replaced_by: u64,
}

/// How long the file was.
#[derive(Debug)]
pub(super) struct OldLength {
    pub(super) len: usize,
    pub(super) replaced_by: u64,
    /// Grown by writing, which the disk may have done sector by sector, and not by a change of the length alone.
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

impl Contents {
    /// A file that is durable as it is.
    pub(super) fn durable(bytes: Arc<Vec<u8>>, space: Arc<Vec<bool>>) -> Contents {
        Contents { bytes, space, ..Contents::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies from an offset, and tells how much there was.
    pub(super) fn read(&self, buf: &mut [u8], offset: usize) -> usize {
        let there = self.bytes.get(offset..).unwrap_or_default();
        let count = there.len().min(buf.len());
        buf[..count].copy_from_slice(&there[..count]);
        count
    }

    /// Writes bytes as change number `stamp`.
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
            // The length is needed to read this back, so the next sync takes it along even if an earlier one lost it.
            self.lengths.dirty = true;
        }
        Arc::make_mut(&mut self.bytes)[offset..end].copy_from_slice(buf);
        Arc::make_mut(&mut self.space)[sectors(offset, end)].fill(true);
    }

    /// Cuts the file or extends it with zeros, as change number `stamp`.
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

    /// Sets space aside for all sectors up to a length, and extends the file to it.
    pub(super) fn allocate(&mut self, len: usize, stamp: u64) {
        if len > self.len() {
            self.set_len(len, stamp);
        }
        Arc::make_mut(&mut self.space)[sectors(0, len)].fill(true);
    }

    /// Everything that is dirty becomes durable.
    pub(super) fn sync(&mut self) {
        self.sectors.retain(|_, sector| !sector.dirty);
        if self.lengths.dirty {
            self.lengths = Unsynced::default();
            // What an earlier sync failed to cut off is cut off now, and does not come back when the file grows.
            self.sectors.split_off(&self.len().div_ceil(SECTOR));
        }
    }

    /// What was dirty is given up: it is read as before, and later syncs pass it by.
    pub(super) fn sync_failed(&mut self) {
        self.sectors.values_mut().for_each(|sector| sector.dirty = false);
        self.lengths.dirty = false;
    }

    /// Turns a bit round in whatever version of the sector may be found.
    pub(super) fn flip_bit(&mut self, byte: usize, mask: u8) {
        Arc::make_mut(&mut self.bytes)[byte] ^= mask;
        let Some(sector) = self.sectors.get_mut(&(byte / SECTOR)) else { return };
        for version in &mut sector.versions {
            version.bytes.get_or_insert_with(zeros)[byte % SECTOR] ^= mask;
        }
    }

    /// How many sectors take up space.
    pub(super) fn sectors_used(&self) -> usize {
        self.space.iter().filter(|used| **used).count()
    }

    /// How many more sectors it takes to write from one offset to another.
    pub(super) fn sectors_missing(&self, from: usize, to: usize) -> usize {
        sectors(from, to).filter(|sector| !self.has_space(*sector)).count()
    }

    /// Whether a sector takes up space.
    pub(super) fn has_space(&self, sector: usize) -> bool {
        self.space.get(sector).copied().unwrap_or(false)
    }

    /// A sector as it is read, with zeros after the end of the file.
    pub(super) fn sector(&self, sector: usize) -> Option<Sector> {
        let start = sector * SECTOR;
        let there = self.bytes.get(start..(start + SECTOR).min(self.len()))?;
        let mut copy = zeros();
        copy[..there.len()].copy_from_slice(there);
        Some(copy)
    }

    fn keep_version(&mut self, sector: usize, stamp: u64) {
        let version = Version { bytes: self.sector(sector), replaced_by: stamp };
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

/// The numbers of the sectors that bytes from one offset to another touch.
pub(super) fn sectors(from: usize, to: usize) -> std::ops::Range<usize> {
    if from < to { from / SECTOR..to.div_ceil(SECTOR) } else { 0..0 }
}

fn zeros() -> Sector {
    Box::new([0; SECTOR])
}
