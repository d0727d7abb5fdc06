//! Sorted keys, each with attached bytes (its *tail*), in one allocation.
//!
//! ```text
//!   "foo/1" → x    "foo/25" → yz            common prefix "foo/", 4 bytes
//!
//!   slots                                    records
//!   head "1\0\0\0"   key ends 5   ends 6     f o o / 1 x
//!   head "25\0\0"    key ends 12  ends 14    f o o / 2 5 y z
//! ```
//!
//! A lookup is bound by cache misses. So everything is in one allocation. The slots, a few cache
//! lines, are searched by the *head* of each key: the four bytes after the prefix that all keys
//! share. The record that is found has the key and its tail side by side. A key costs its own bytes
//! and 12 more, and a clone copies one array.

use std::cmp::Ordering;
use std::ops::Range;

/// The growth of a full allocation: an eighth. Doubling would waste a quarter of the memory on
/// average.
const GROWTH_SHIFT: u32 = 3;

/// The size of a slot: three `u32`.
const SLOT_BYTES: usize = 12;

/// Sorted keys with their tails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PackedKeys {
    /// All slots, then all records.
    data: Vec<u8>,
    len: u32,
    /// The length of the prefix that all keys share.
    prefix: u32,
}

/// The fixed-size part of a record. Positions are relative to the start of the records.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Four bytes of the key as a number that sorts like the key.
    head: u32,
    key_end: u32,
    end: u32,
}

impl PackedKeys {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of all keys and tails in bytes.
    pub(super) fn size(&self) -> usize {
        self.data.len() - self.records()
    }

    /// Returns the heap memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.data.capacity()
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> &[u8] {
        let (start, records) = (self.start(at), self.records());
        &self.data[records + start..records + self.slot(at).key_end as usize]
    }

    /// Returns the tail of a key.
    #[inline]
    pub(super) fn tail(&self, at: usize) -> &[u8] {
        let (Slot { key_end, end, .. }, records) = (self.slot(at), self.records());
        &self.data[records + key_end as usize..records + end as usize]
    }

    /// Returns the position of a key.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        // A key with another prefix may have the head of a key, but equals none.
        let head = head_of(key.get(self.prefix as usize..)?);
        self.search_equal_heads(head, key).ok()
    }

    /// Returns the position of a key, or where it would be inserted.
    #[inline]
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        if self.is_empty() {
            return Err(0);
        }
        let prefix = self.prefix as usize;
        let beginning = &key[..prefix.min(key.len())];
        match beginning.cmp(&self.key(0)[..prefix]) {
            Ordering::Less => Err(0),
            Ordering::Equal => self.search_equal_heads(head_of(&key[prefix..]), key),
            Ordering::Greater => Err(self.len()),
        }
    }

    pub(super) fn push(&mut self, key: &[u8], tail: &[u8]) {
        self.insert(self.len(), key, tail);
    }

    pub(super) fn insert(&mut self, at: usize, key: &[u8], tail: &[u8]) {
        let start = self.start(at);
        let offset = self.records() + start;
        self.splice(offset..offset, &[key, tail]);
        let key_end = number(start + key.len());
        let slot = Slot { head: 0, key_end, end: key_end + number(tail.len()) };
        self.splice(at * SLOT_BYTES..at * SLOT_BYTES, &[&slot.encode()]);
        self.len += 1;
        self.shift_ends(at + 1, 0, key.len() + tail.len());
        self.rebuild_head(at);
    }

    /// Replaces the tail of a key.
    pub(super) fn replace_tail(&mut self, at: usize, tail: &[u8]) {
        let (slot, records) = (self.slot(at), self.records());
        let before = (slot.end - slot.key_end) as usize;
        self.splice(records + slot.key_end as usize..records + slot.end as usize, &[tail]);
        self.set_slot(at, Slot { end: slot.key_end + number(tail.len()), ..slot });
        self.shift_ends(at + 1, before, tail.len());
    }

    /// Splits off the keys from a position on.
    pub(super) fn split_off(&mut self, at: usize) -> PackedKeys {
        let (lower, upper) = (self.part(0..at), self.part(at..self.len()));
        *self = lower;
        upper
    }

    /// Appends keys that are all greater.
    pub(super) fn append(&mut self, other: &PackedKeys) {
        let mut both = PackedKeys { len: self.len + other.len, ..PackedKeys::default() };
        both.data.reserve_exact(self.data.len() + other.data.len());
        both.data.extend_from_slice(&self.data[..self.records()]);
        both.data.extend_from_slice(&other.data[..other.records()]);
        both.data.extend_from_slice(&self.data[self.records()..]);
        both.data.extend_from_slice(&other.data[other.records()..]);
        both.shift_ends(self.len(), 0, self.size());
        both.rebuild_heads();
        *self = both;
    }

    /// Copies a range of positions.
    fn part(&self, range: Range<usize>) -> PackedKeys {
        let (from, to) = (self.start(range.start), self.start(range.end));
        let slots = &self.data[range.start * SLOT_BYTES..range.end * SLOT_BYTES];
        let records = &self.data[self.records() + from..self.records() + to];
        let data = [slots, records].concat();
        let mut part = PackedKeys { data, len: number(range.len()), prefix: 0 };
        part.shift_ends(0, from, 0);
        part.rebuild_heads();
        part
    }

    /// Searches the keys with a given head by comparing whole keys.
    #[inline]
    fn search_equal_heads(&self, head: u32, key: &[u8]) -> Result<usize, usize> {
        let mut low = self.partition(0, |other| other < head);
        let mut high = low;
        // Usually at most one key has the head.
        while high < self.len() && self.head(high) == head && high - low < 4 {
            high += 1;
        }
        if high - low == 4 {
            high = self.partition(high, |other| other <= head);
        }
        while low < high {
            let middle = low.midpoint(high);
            match self.key(middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Returns the first position from `from` whose head fails a predicate that holds for all
    /// before it.
    #[inline]
    fn partition(&self, from: usize, holds: impl Fn(u32) -> bool) -> usize {
        let (mut low, mut high) = (from, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if holds(self.head(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns where the records begin.
    #[inline]
    fn records(&self) -> usize {
        self.len() * SLOT_BYTES
    }

    /// Returns where a record begins.
    #[inline]
    fn start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.slot(at - 1).end as usize }
    }

    #[inline]
    fn head(&self, at: usize) -> u32 {
        read(&self.data, at * SLOT_BYTES)
    }

    #[inline]
    fn slot(&self, at: usize) -> Slot {
        let bytes: &[u8; SLOT_BYTES] =
            self.data[at * SLOT_BYTES..].first_chunk().expect("a slot has 12 bytes");
        Slot { head: read(bytes, 0), key_end: read(bytes, 4), end: read(bytes, 8) }
    }

    fn set_slot(&mut self, at: usize, slot: Slot) {
        self.data[at * SLOT_BYTES..(at + 1) * SLOT_BYTES].copy_from_slice(&slot.encode());
    }

    /// Sets the head of an inserted key; or all heads, if the common prefix changed.
    fn rebuild_head(&mut self, at: usize) {
        let outermost = at == 0 || at + 1 == self.len();
        if outermost && self.common_prefix() != self.prefix as usize {
            return self.rebuild_heads();
        }
        let head = head_of(&self.key(at)[self.prefix as usize..]);
        self.set_slot(at, Slot { head, ..self.slot(at) });
    }

    fn rebuild_heads(&mut self) {
        self.prefix = number(self.common_prefix());
        for at in 0..self.len() {
            let head = head_of(&self.key(at)[self.prefix as usize..]);
            self.set_slot(at, Slot { head, ..self.slot(at) });
        }
    }

    /// Returns the length of the common prefix. Keys are sorted, so the first and the last
    /// determine it.
    fn common_prefix(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let (first, last) = (self.key(0), self.key(self.len() - 1));
        first.iter().zip(last).take_while(|(one, other)| one == other).count()
    }

    /// Replaces a range of bytes, and moves those after it.
    fn splice(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        let new: usize = parts.iter().map(|part| part.len()).sum();
        let (len, more) = (self.data.len(), new.saturating_sub(range.len()));
        if more > self.data.capacity() - len {
            self.data.reserve_exact(more.max(len >> GROWTH_SHIFT));
        }
        self.data.resize(len + more, 0);
        self.data.copy_within(range.end..len, range.start + new);
        let mut at = range.start;
        for part in parts {
            self.data[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.data.truncate(len - range.len() + new);
    }

    /// Adjusts the positions of records after the length of an earlier one changed.
    fn shift_ends(&mut self, from: usize, before: usize, after: usize) {
        let (before, after) = (number(before), number(after));
        let moved = |end: u32| end - before + after;
        for at in from..self.len() {
            let Slot { head, key_end, end } = self.slot(at);
            self.set_slot(at, Slot { head, key_end: moved(key_end), end: moved(end) });
        }
    }
}

impl Slot {
    fn encode(self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..4].copy_from_slice(&self.head.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.key_end.to_le_bytes());
        bytes[8..].copy_from_slice(&self.end.to_le_bytes());
        bytes
    }
}

/// Returns the first four bytes as a big-endian number, padded with zeros. Preserves the order of
/// keys.
#[inline]
fn head_of(rest: &[u8]) -> u32 {
    if let Some(four) = rest.first_chunk() {
        return u32::from_be_bytes(*four);
    }
    let mut head = [0; 4];
    head[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(head)
}

#[inline]
fn read(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("a slot has 12 bytes"))
}

/// Converts a position. Keys are bounded by the request size, and a node holds little more than one
/// long key.
fn number(offset: usize) -> u32 {
    u32::try_from(offset).expect("a node is split long before it has 4 GiB")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Put(Vec<u8>, Vec<u8>),
        Find(Vec<u8>),
        SplitAndAppend(usize),
        Split(usize, bool),
    }

    /// Keys with common prefixes, without, and with zeros alone.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let bytes =
            |len| proptest::collection::vec(prop_oneof![Just(0), Just(1), any::<u8>()], len);
        let prefix =
            prop_oneof![Just(Vec::new()), Just(b"common_prefix/".to_vec()), Just(b"com".to_vec())];
        (prefix, bytes(0..9)).prop_map(|(prefix, rest)| [prefix, rest].concat())
    }

    fn step() -> impl Strategy<Value = Step> {
        let tail = || proptest::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            6 => (key(), tail()).prop_map(|(key, tail)| Step::Put(key, tail)),
            3 => key().prop_map(Step::Find),
            1 => any::<usize>().prop_map(Step::SplitAndAppend),
            1 => (any::<usize>(), any::<bool>()).prop_map(|(at, lower)| Step::Split(at, lower)),
        ]
    }

    fn pairs(packed: &PackedKeys) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..packed.len()).map(|at| (packed.key(at).to_vec(), packed.tail(at).to_vec())).collect()
    }

    proptest! {
        #[test]
        fn packed_keys_equal_a_btree_map(steps in proptest::collection::vec(step(), 0..80)) {
            let (mut packed, mut model) = (PackedKeys::default(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
            for step in steps {
                let len = model.len();
                match step {
                    Step::Put(key, tail) => {
                        match packed.search(&key) {
                            Ok(at) => packed.replace_tail(at, &tail),
                            Err(at) => packed.insert(at, &key, &tail),
                        }
                        model.insert(key, tail);
                    }
                    Step::Find(key) => {
                        let position = model.keys().position(|other| *other >= key).unwrap_or(len);
                        let exists = model.contains_key(&key);
                        prop_assert_eq!(packed.find(&key), exists.then_some(position));
                        prop_assert_eq!(packed.search(&key), if exists { Ok(position) } else { Err(position) });
                    }
                    Step::SplitAndAppend(at) => {
                        let upper = packed.split_off(at % (len + 1));
                        prop_assert_eq!(upper.len(), len - at % (len + 1));
                        packed.append(&upper);
                    }
                    Step::Split(at, keep_lower) => {
                        let at = at % (len + 1);
                        let upper = packed.split_off(at);
                        let mut upper_model = model.clone();
                        if let Some(bound) = model.keys().nth(at).cloned() {
                            upper_model = model.split_off(&bound);
                        } else {
                            upper_model.clear();
                        }
                        if !keep_lower {
                            (packed, model) = (upper, upper_model);
                        }
                    }
                }
                prop_assert_eq!(pairs(&packed), model.clone().into_iter().collect::<Vec<_>>());
                let size: usize = model.iter().map(|(key, tail)| key.len() + tail.len()).sum();
                prop_assert_eq!(packed.size(), size);
            }
        }
    }
}
