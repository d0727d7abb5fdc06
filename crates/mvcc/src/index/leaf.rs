//! A leaf of the index: some dozens of keys with their key indexes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use types::Revision;

use super::key_index::{KeyCompaction, KeyIndex};
use super::long_key_index::LongKeyIndex;
use super::packed_keys::PackedKeys;
use super::{KeyMeta, KeyRange};

/// A larger leaf is split, if it has two keys.
const BYTES_MAX: usize = if cfg!(test) { 256 } else { 4096 };
/// A smaller leaf is merged with its neighbor, if there is room.
const BYTES_MIN: usize = BYTES_MAX / 4;
/// A longer key index becomes a [`LongKeyIndex`].
const HISTORY_BYTES_MAX: usize = 96;
/// A [`LongKeyIndex`] with fewer revisions becomes a short one again.
const LONG_REVISIONS_MIN: usize = 8;
/// Marks a key whose index is a [`LongKeyIndex`]. An encoded key index is never empty.
const LONG_MARKER: &[u8] = &[];

/// Sorted keys with their key indexes.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    /// The keys, each with its encoded key index.
    keys: PackedKeys,
    /// The long key indexes, which are few.
    long: BTreeMap<Box<[u8]>, Arc<LongKeyIndex>>,
    /// The number of keys that exist at the latest revision.
    pub(super) live: u64,
    /// The newest revision in the leaf.
    pub(super) newest: i64,
}

impl Leaf {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the heap memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let keys: usize = self.long.keys().map(|key| key.len() + size_of_val(key)).sum();
        let long = self.long.values().map(|long| size_of::<LongKeyIndex>() + long.heap_bytes());
        let long = keys + long.sum::<usize>();
        self.keys.heap_bytes() + long
    }

    /// Returns the shortest separator: greater than all keys of this leaf, and not greater than any
    /// key of the one above.
    pub(super) fn bound(&self, above: &Leaf) -> Box<[u8]> {
        let (last, first) = (self.keys.key(self.len() - 1), above.keys.key(0));
        let common = last.iter().zip(first).take_while(|(one, other)| one == other).count();
        first[..=common].into()
    }

    #[inline]
    pub(super) fn get(&self, key: &[u8], revision: i64) -> Option<KeyMeta> {
        self.found(self.keys.find(key)?, revision)
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.keys.find(key).is_some()
    }

    /// Calls `f` with the keys of a range that exist at a revision, in order.
    pub(super) fn visit<F>(&self, range: &KeyRange<'_>, revision: i64, f: &mut F) -> ControlFlow<()>
    where
        F: FnMut(&[u8], KeyMeta) -> ControlFlow<()>,
    {
        for at in self.positions(range) {
            if let Some(found) = self.found(at, revision) {
                f(self.keys.key(at), found)?;
            }
        }
        ControlFlow::Continue(())
    }

    pub(super) fn count(&self, range: &KeyRange<'_>, revision: i64) -> u64 {
        self.positions(range).filter(|at| self.found(*at, revision).is_some()).count() as u64
    }

    /// Adds a revision of a known key, or a new key. Returns the key before it.
    pub(super) fn add(&mut self, key: &[u8], found: KeyMeta, tombstone: bool) -> Option<KeyMeta> {
        self.newest = self.newest.max(found.modified.main);
        let before = match self.keys.search(key) {
            Ok(at) => self.add_to(at, found.modified, tombstone),
            Err(at) => {
                let mut history = Vec::with_capacity(HISTORY_BYTES_MAX);
                KeyIndex::begin(found, tombstone, &mut history);
                self.keys.insert(at, key, &history);
                None
            }
        };
        self.live = self.live - u64::from(before.is_some()) + u64::from(!tombstone);
        before
    }

    /// Returns whether the leaf has to be split.
    pub(super) fn is_full(&self) -> bool {
        self.size() > BYTES_MAX && self.len() > 1
    }

    /// Returns whether another leaf can be merged into this one.
    pub(super) fn has_room_for(&self, other: &Leaf) -> bool {
        self.size() + other.size() <= BYTES_MAX / 2
    }

    /// Returns whether the leaf should be merged with a neighbor.
    pub(super) fn is_underfull(&self) -> bool {
        self.size() < BYTES_MIN
    }

    /// Splits off the upper half; or only the last key if it was just added, because ascending keys
    /// may follow.
    pub(super) fn split(&mut self, added: &[u8]) -> Leaf {
        let last = self.len() - 1;
        let at = if self.keys.key(last) == added { last } else { self.len() / 2 };
        let keys = self.keys.split_off(at);
        let long = self.long.split_off(keys.key(0));
        let mut upper = Leaf { keys, long, live: 0, newest: self.newest };
        upper.live = upper.count_live();
        self.live -= upper.live;
        upper
    }

    /// Merges the neighbor above into this leaf.
    pub(super) fn join(&mut self, above: &Leaf) {
        self.keys.append(&above.keys);
        self.long.extend(above.long.iter().map(|(key, long)| (key.clone(), Arc::clone(long))));
        self.live += above.live;
        self.newest = self.newest.max(above.newest);
    }

    /// Returns the effect of a compaction on each key.
    pub(super) fn plan_compaction(&self, at: i64) -> impl Iterator<Item = KeyCompaction> {
        (0..self.len()).map(move |position| self.plan_for(position, at))
    }

    /// Returns the leaf after a compaction.
    pub(super) fn compact(&self, at: i64) -> Leaf {
        let mut left = Leaf { newest: self.newest, ..Leaf::default() };
        let mut buffer = Vec::with_capacity(HISTORY_BYTES_MAX);
        for position in 0..self.len() {
            let kept = self.plan_for(position, at);
            if !kept.empty {
                buffer.clear();
                let long = self.compact_one(position, kept, at, &mut buffer);
                let key = self.keys.key(position);
                left.keys.push(key, &buffer);
                left.long.extend(long.map(|long| (key.into(), long)));
            }
        }
        left.live = left.count_live();
        left
    }

    /// Encodes a key index after a compaction, or returns it if it stays long.
    fn compact_one(
        &self,
        position: usize,
        kept: KeyCompaction,
        at: i64,
        out: &mut Vec<u8>,
    ) -> Option<Arc<LongKeyIndex>> {
        let Some(long) = self.long_at(position) else {
            match kept.drops {
                true => KeyIndex(self.keys.tail(position)).compact(at, out),
                false => out.extend_from_slice(self.keys.tail(position)),
            }
            return None;
        };
        let left = if kept.drops { Arc::new(long.compact(at)) } else { Arc::clone(long) };
        if left.len() < LONG_REVISIONS_MIN {
            left.write(out);
            return None;
        }
        Some(left)
    }

    fn add_to(&mut self, at: usize, revision: Revision, tombstone: bool) -> Option<KeyMeta> {
        let old = self.keys.tail(at);
        if old == LONG_MARKER {
            let long =
                self.long.get_mut(self.keys.key(at)).expect("a marked key has a long key index");
            let before = long.at(i64::MAX);
            Arc::make_mut(long).add(revision, tombstone);
            return before;
        }
        let before = KeyIndex(old).at(i64::MAX);
        let mut new = Vec::with_capacity(HISTORY_BYTES_MAX + HISTORY_BYTES_MAX / 2);
        KeyIndex(old).add(revision, tombstone, &mut new);
        if new.len() > HISTORY_BYTES_MAX {
            let long = Arc::new(LongKeyIndex::from(KeyIndex(&new)));
            self.long.insert(self.keys.key(at).into(), long);
            new.clear();
        }
        self.keys.replace_tail(at, &new);
        before
    }

    #[inline]
    fn found(&self, at: usize, revision: i64) -> Option<KeyMeta> {
        match self.long_at(at) {
            None => KeyIndex(self.keys.tail(at)).at(revision),
            Some(long) => long.at(revision),
        }
    }

    fn plan_for(&self, at: usize, compaction: i64) -> KeyCompaction {
        match self.long_at(at) {
            None => KeyIndex(self.keys.tail(at)).plan_compaction(compaction),
            Some(long) => long.plan_compaction(compaction),
        }
    }

    #[inline]
    fn long_at(&self, at: usize) -> Option<&Arc<LongKeyIndex>> {
        let is_long = self.keys.tail(at) == LONG_MARKER;
        is_long
            .then(|| self.long.get(self.keys.key(at)).expect("a marked key has a long key index"))
    }

    fn count_live(&self) -> u64 {
        let live = |at: &usize| match self.long_at(*at) {
            None => KeyIndex(self.keys.tail(*at)).is_live(),
            Some(long) => long.is_live(),
        };
        (0..self.len()).filter(live).count() as u64
    }

    fn positions(&self, range: &KeyRange<'_>) -> std::ops::Range<usize> {
        let position = |key: &[u8]| self.keys.search(key).unwrap_or_else(|position| position);
        let from = position(range.from);
        let to = range.to.map_or(self.len(), position);
        from..to.max(from)
    }

    fn size(&self) -> usize {
        self.keys.size()
    }
}
