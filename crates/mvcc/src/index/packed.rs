//! A list of byte strings in one piece of memory.
//!
//! ```text
//!   "foo" "foobar" ""     bytes  f o o f o o b a r      ends  3 9 9
//! ```
//!
//! A node of the index holds some dozens of keys, each shorter than what an allocation and a pointer to it would cost. Laid out like
//! this they cost their own bytes and four more, a search stays within a few lines of the processor's cache, and a copy of the node
//! is a copy of two arrays.

use std::cmp::Ordering;
use std::ops::Range;

/// By how much memory grows when it is full: an eighth. Doubling would leave a quarter of it unused on average.
const GROWTH_SHIFT: u32 = 3;

/// A list of byte strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    /// Where each string ends.
    ends: Vec<u32>,
}

impl Packed {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all strings.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory behind it.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.place(at)]
    }

    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Where a string is in a sorted list, or where it would be.
    #[inline]
    pub(super) fn search(&self, wanted: &[u8]) -> Result<usize, usize> {
        self.search_from(0, wanted)
    }

    /// Likewise, in the strings from a place on.
    #[inline]
    pub(super) fn search_from(&self, first: usize, wanted: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (first, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(wanted) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    pub(super) fn push(&mut self, string: &[u8]) {
        self.insert(self.len(), string);
    }

    pub(super) fn insert(&mut self, at: usize, string: &[u8]) {
        let start = self.start(at);
        self.splice(start..start, string);
        if self.ends.len() == self.ends.capacity() {
            self.ends.reserve_exact((self.ends.len() >> GROWTH_SHIFT).max(1));
        }
        self.ends.insert(at, end(start));
        self.move_ends(at, 0, string.len());
    }

    pub(super) fn replace(&mut self, at: usize, string: &[u8]) {
        let place = self.place(at);
        let len = place.len();
        self.splice(place, string);
        self.move_ends(at, len, string.len());
    }

    /// Takes away the strings from a place on.
    pub(super) fn split_off(&mut self, at: usize) -> Packed {
        let start = self.start(at);
        let mut ends = self.ends.split_off(at);
        for moved in &mut ends {
            *moved -= end(start);
        }
        let bytes = self.bytes.split_off(start);
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        Packed { bytes, ends }
    }

    pub(super) fn append(&mut self, other: &Packed) {
        let start = end(self.bytes.len());
        self.bytes.reserve_exact(other.bytes.len());
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.reserve_exact(other.ends.len());
        self.ends.extend(other.ends.iter().map(|end| end + start));
    }

    fn start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.ends[at - 1] as usize }
    }

    fn place(&self, at: usize) -> Range<usize> {
        self.start(at)..self.ends[at] as usize
    }

    /// Puts other bytes in some place, and moves what is behind it.
    fn splice(&mut self, place: Range<usize>, string: &[u8]) {
        let (len, more) = (self.bytes.len(), string.len().saturating_sub(place.len()));
        if more > self.bytes.capacity() - len {
            self.bytes.reserve_exact(more.max(len >> GROWTH_SHIFT));
        }
        self.bytes.resize(len + more, 0);
        self.bytes.copy_within(place.end..len, place.start + string.len());
        self.bytes[place.start..place.start + string.len()].copy_from_slice(string);
        self.bytes.truncate(len - place.len() + string.len());
    }

    fn move_ends(&mut self, from: usize, before: usize, after: usize) {
        let (before, after) = (end(before), end(after));
        for moved in &mut self.ends[from..] {
            *moved = *moved - before + after;
        }
    }
}

/// A request, and so a key, is far shorter than this can count; and a node holds little more than one that is long.
fn end(place: usize) -> u32 {
    u32::try_from(place).expect("a node of the index is split long before")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(usize, Vec<u8>),
        Replace(usize, Vec<u8>),
        SplitAndAppend(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let string = || proptest::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            3 => (any::<usize>(), string()).prop_map(|(at, s)| Step::Insert(at, s)),
            1 => (any::<usize>(), string()).prop_map(|(at, s)| Step::Replace(at, s)),
            1 => any::<usize>().prop_map(Step::SplitAndAppend),
        ]
    }

    proptest! {
        #[test]
        fn like_a_list_of_strings(steps in proptest::collection::vec(step(), 0..60)) {
            let (mut packed, mut model) = (Packed::default(), Vec::<Vec<u8>>::new());
            for step in steps {
                let len = model.len();
                match step {
                    Step::Insert(at, string) => {
                        packed.insert(at % (len + 1), &string);
                        model.insert(at % (len + 1), string);
                    }
                    Step::Replace(at, string) if len > 0 => {
                        packed.replace(at % len, &string);
                        model[at % len] = string;
                    }
                    Step::SplitAndAppend(at) => {
                        let rest = packed.split_off(at % (len + 1));
                        prop_assert_eq!(rest.len(), len - at % (len + 1));
                        packed.append(&rest);
                    }
                    Step::Replace(..) => {}
                }
                prop_assert!(packed.iter().eq(model.iter().map(Vec::as_slice)));
                prop_assert_eq!(packed.size(), model.iter().map(Vec::len).sum::<usize>());
            }
        }
    }
}
