//! The state of the disk after a power cut.
//!
//! Everything unsynced is decided sector by sector and name by name, but independent draws would
//! rarely produce the cases that break programs. So each power cut first draws a [`CutPattern`]
//! that governs all decisions:
//!
//! ```text
//! changes since the last syncs    #4     #5     #6     #7
//! AsOf 0                          .      .      .      .       nothing survives
//! AsOf 7                          x      x      x      x       everything survives
//! AsOf 6                          x      x      x      .       the last one is missing
//! AsOf 5, torn                    x      x      ?      .       interrupted during a change
//! Without 5                       x      .      x      x       reordered: one is missing
//! Scatter                         ?      ?      ?      ?       each sector at random
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::SECTOR;
use super::contents::{FileContents, Unsynced, sectors};
use super::directory::{DirNode, Entry, FileState, Names, SimDirectory};
use crate::SeededRandom;

/// Maximum number of recent changes lost by an in-order pattern, as a power of two.
const REACH_BITS: u64 = 7;

/// Resolution of probabilities.
const PARTS: u64 = 16;

/// Decides which changes survive.
#[derive(Clone, Copy, Debug)]
enum CutPattern {
    /// Changes up to a stamp survive. If torn, so does any part of the next one.
    AsOf { stamp: u64, torn: bool },
    /// All but one survive.
    Without { stamp: u64 },
    /// Each sector survives with a probability of `keep` in [`PARTS`].
    Scatter { keep: u64 },
}

impl CutPattern {
    /// Draws a pattern for a disk whose last change has the stamp `last`.
    fn draw(random: &mut SeededRandom, last: u64) -> CutPattern {
        let reach = random.below(REACH_BITS + 1);
        let recent = last.saturating_sub(random.below(1 << reach));
        match random.below(10) {
            0 => CutPattern::AsOf { stamp: 0, torn: false },
            1 => CutPattern::AsOf { stamp: last, torn: false },
            2 => CutPattern::AsOf { stamp: last.saturating_sub(1), torn: false },
            3 => CutPattern::AsOf { stamp: last.saturating_sub(1), torn: true },
            4 => CutPattern::AsOf { stamp: recent, torn: true },
            5 | 6 => CutPattern::Without { stamp: recent },
            _ => CutPattern::Scatter { keep: random.below(PARTS + 1) },
        }
    }
}

/// Builds the directory tree found after a power cut.
pub(super) fn cut(root: &DirNode, random: &mut SeededRandom, last: u64) -> DirNode {
    let pattern = CutPattern::draw(random, last);
    Cut { random, pattern, placed: BTreeSet::new() }.directory(root)
}

struct Cut<'a> {
    random: &'a mut SeededRandom,
    pattern: CutPattern,
    /// Addresses of the directories found so far. Lost moves could show a directory in two places,
    /// even inside itself; as after a file system check, it stays where it was found first.
    placed: BTreeSet<usize>,
}

impl Cut<'_> {
    fn directory(&mut self, node: &DirNode) -> DirNode {
        self.placed.insert(address(node));
        let directory = node.lock();
        let changes = directory.pending();
        let survive = self.pick(changes.len(), |change| changes[change].stamp);
        let mut names = Names::new();
        for (name, entry) in directory.names_after(survive) {
            let entry = match entry {
                Entry::Dir(inner) if self.placed.contains(&address(&inner)) => continue,
                Entry::Dir(inner) => Entry::Dir(self.directory(&inner)),
                Entry::File(file) => {
                    let contents = self.contents(&file.lock().contents);
                    Entry::File(Arc::new(Mutex::new(FileState::new(contents))))
                }
            };
            names.insert(name, entry);
        }
        Arc::new(Mutex::new(SimDirectory::durable(names)))
    }

    fn contents(&mut self, old: &FileContents) -> FileContents {
        if old.sectors.is_empty() && old.lengths.versions.is_empty() {
            return FileContents::durable(Arc::clone(&old.bytes), Arc::clone(&old.space));
        }
        let len = self.length(old);
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&old.bytes[..len.min(old.len())]);
        bytes.resize(len, 0);
        for (&sector, Unsynced { versions, .. }) in old.sectors.range(sectors(0, len)) {
            let pick = self.pick(versions.len(), |version| versions[version].replaced_by);
            if let Some(version) = versions.get(pick) {
                put(&mut bytes, sector, version.bytes.as_deref());
            }
        }
        let mut space = Vec::clone(&old.space);
        space.resize(len.div_ceil(SECTOR), true);
        FileContents::durable(Arc::new(bytes), Arc::new(space))
    }

    /// The length that survives.
    fn length(&mut self, old: &FileContents) -> usize {
        let lengths = &old.lengths.versions;
        let pick = self.pick(lengths.len(), |length| lengths[length].replaced_by);
        let Some(found) = lengths.get(pick) else { return old.len() };
        if !(found.grown_by_write && self.is_torn(found.replaced_by)) {
            return found.len;
        }
        // The file was growing sector by sector, and reached the start of a later one.
        let next = lengths.get(pick + 1).map_or(old.len(), |next| next.len);
        let mut reached = found.len;
        for sector in sectors(found.len, next).skip(1) {
            if self.random.chance(1, 2) {
                break;
            }
            reached = sector * SECTOR;
        }
        reached
    }

    /// Chooses the surviving one of `count` versions, given the stamps that replaced them; `count`
    /// is the current version. Equally, the number of surviving changes of `count`, given their
    /// stamps.
    fn pick(&mut self, count: usize, stamp_of: impl Fn(usize) -> u64) -> usize {
        if count == 0 {
            return 0;
        }
        let first = |wanted: &dyn Fn(u64) -> bool| {
            (0..count).find(|&at| wanted(stamp_of(at))).unwrap_or(count)
        };
        match self.pattern {
            CutPattern::AsOf { stamp, torn } => {
                let at = first(&|replaced_by| replaced_by > stamp);
                let more =
                    torn && at < count && stamp_of(at) == stamp + 1 && self.random.chance(1, 2);
                at + usize::from(more)
            }
            CutPattern::Without { stamp } => first(&|replaced_by| replaced_by == stamp),
            CutPattern::Scatter { keep } if self.random.chance(keep, PARTS) => count,
            CutPattern::Scatter { .. } => below(self.random, count),
        }
    }

    /// Reports whether a change that did not survive entirely may have survived in part.
    fn is_torn(&mut self, change: u64) -> bool {
        match self.pattern {
            CutPattern::AsOf { stamp, torn } => torn && change == stamp + 1,
            CutPattern::Without { .. } => false,
            CutPattern::Scatter { .. } => self.random.chance(1, 2),
        }
    }
}

/// Writes a sector, truncated at the end of `bytes`.
fn put(bytes: &mut [u8], sector: usize, from: Option<&[u8; SECTOR]>) {
    let start = sector * SECTOR;
    let end = (start + SECTOR).min(bytes.len());
    match from {
        Some(from) => bytes[start..end].copy_from_slice(&from[..end - start]),
        None => bytes[start..end].fill(0),
    }
}

fn address(node: &DirNode) -> usize {
    Arc::as_ptr(node).addr()
}

fn below(random: &mut SeededRandom, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).expect("below a usize")
}
