//! What is found after a power cut.
//!
//! Everything unsynced is decided sector by sector and name by name, but coins alone would hardly ever
//! find the cases that break programs. So each cut first draws a [`Mood`], which bends all its coins the same way:
//!
//! ```text
//! changes since the last syncs    #4     #5     #6     #7
//! AsOf 0                          .      .      .      .       nothing survives
//! AsOf 7                          x      x      x      x       all survives
//! AsOf 6                          x      x      x      .       the last is missing
//! AsOf 5, torn                    x      x      ?      .       the disk stopped in the middle of a change
//! Without 5                       x      .      x      x       reordered: one is missing, and later ones are there
//! Scatter                         ?      ?      ?      ?       a coin for every sector of every change
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::contents::{Contents, Unsynced, sectors};
use super::folder::{Entry, FileState, Folder, FolderNode, Names};
use super::{SECTOR, lock};
use crate::SeededRandom;

/// How many changes back a cut may reach when it leaves the rest in order: two to this power.
const REACH_BITS: u64 = 7;

/// Coins are weighed in this many parts.
const PARTS: u64 = 16;

/// Which changes survive.
#[derive(Clone, Copy, Debug)]
enum Mood {
    /// Those up to a number. If torn, also any part of the one after it.
    AsOf { stamp: u64, torn: bool },
    /// All but one.
    Without { stamp: u64 },
    /// Each sector by its own coin, new with `keep` parts.
    Scatter { keep: u64 },
}

impl Mood {
    /// A mood for a disk that has seen changes up to number `last`.
    fn draw(random: &mut SeededRandom, last: u64) -> Mood {
        let reach = random.below(REACH_BITS + 1);
        let recent = last.saturating_sub(random.below(1 << reach));
        match random.below(10) {
            0 => Mood::AsOf { stamp: 0, torn: false },
            1 => Mood::AsOf { stamp: last, torn: false },
            2 => Mood::AsOf { stamp: last.saturating_sub(1), torn: false },
            3 => Mood::AsOf { stamp: last.saturating_sub(1), torn: true },
            4 => Mood::AsOf { stamp: recent, torn: true },
            5 | 6 => Mood::Without { stamp: recent },
            _ => Mood::Scatter { keep: random.below(PARTS + 1) },
        }
    }
}

/// Builds the tree that a machine finds when it comes back.
pub(super) fn cut(root: &FolderNode, random: &mut SeededRandom, last: u64) -> FolderNode {
    let mood = Mood::draw(random, last);
    Cut { random, mood, placed: BTreeSet::new() }.folder(root)
}

struct Cut<'a> {
    random: &'a mut SeededRandom,
    mood: Mood,
    /// The folders that were found, by address. Lost moves between folders could show one in two places, even inside
    /// itself; as after a check of the file system, it stays where it was found first.
    placed: BTreeSet<usize>,
}

impl Cut<'_> {
    fn folder(&mut self, node: &FolderNode) -> FolderNode {
        self.placed.insert(address(node));
        let folder = lock(node);
        let changes = folder.pending();
        let survive = self.pick(changes.len(), |change| changes[change].stamp);
        let mut names = Names::new();
        for (name, entry) in folder.names_after(survive) {
            let entry = match entry {
                Entry::Dir(inner) if self.placed.contains(&address(&inner)) => continue,
                Entry::Dir(inner) => Entry::Dir(self.folder(&inner)),
                Entry::File(file) => {
                    let contents = self.contents(&lock(&file).contents);
                    Entry::File(Arc::new(Mutex::new(FileState::new(contents))))
                }
            };
            names.insert(name, entry);
        }
        Arc::new(Mutex::new(Folder::durable(names)))
    }

    fn contents(&mut self, old: &Contents) -> Contents {
        if old.sectors.is_empty() && old.lengths.versions.is_empty() {
            return Contents::durable(Arc::clone(&old.bytes), Arc::clone(&old.space));
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
        Contents::durable(Arc::new(bytes), Arc::new(space))
    }

    /// The length that survives.
    fn length(&mut self, old: &Contents) -> usize {
        let lengths = &old.lengths.versions;
        let pick = self.pick(lengths.len(), |length| lengths[length].replaced_by);
        let Some(found) = lengths.get(pick) else { return old.len() };
        if !(found.grown_by_write && self.is_torn(found.replaced_by)) {
            return found.len;
        }
        // It was growing sector by sector, and got as far as the start of one of those that follow.
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

    /// Which of `count` versions survives, given the change that replaced each: one past the last is what there is now. The
    /// same is how many of `count` changes survive, given their numbers.
    fn pick(&mut self, count: usize, stamp_of: impl Fn(usize) -> u64) -> usize {
        if count == 0 {
            return 0;
        }
        let first = |wanted: &dyn Fn(u64) -> bool| {
            (0..count).find(|&at| wanted(stamp_of(at))).unwrap_or(count)
        };
        match self.mood {
            Mood::AsOf { stamp, torn } => {
                let at = first(&|replaced_by| replaced_by > stamp);
                let more =
                    torn && at < count && stamp_of(at) == stamp + 1 && self.random.chance(1, 2);
                at + usize::from(more)
            }
            Mood::Without { stamp } => first(&|replaced_by| replaced_by == stamp),
            Mood::Scatter { keep } if self.random.chance(keep, PARTS) => count,
            Mood::Scatter { .. } => below(self.random, count),
        }
    }

    /// Whether a change that did not survive whole may have survived in part.
    fn is_torn(&mut self, change: u64) -> bool {
        match self.mood {
            Mood::AsOf { stamp, torn } => torn && change == stamp + 1,
            Mood::Without { .. } => false,
            Mood::Scatter { .. } => self.random.chance(1, 2),
        }
    }
}

/// Puts a sector, or as much of it as there is room for.
fn put(bytes: &mut [u8], sector: usize, from: Option<&[u8; SECTOR]>) {
    let start = sector * SECTOR;
    let end = (start + SECTOR).min(bytes.len());
    match from {
        Some(from) => bytes[start..end].copy_from_slice(&from[..end - start]),
        None => bytes[start..end].fill(0),
    }
}

fn address(node: &FolderNode) -> usize {
    Arc::as_ptr(node).addr()
}

fn below(random: &mut SeededRandom, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).expect("below a usize")
}
