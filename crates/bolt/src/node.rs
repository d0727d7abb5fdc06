//! A page that is being changed: its elements taken apart, in memory.
//!
//! A write transaction reads pages until it changes something. Then the leaf, and the branches above it, become [`Node`]s owned by
//! one another, as a plain tree; everything else stays on its page. An element does not own its bytes: it says where they are, in the
//! mapped file or in the transaction's [`Arena`], so taking a page apart copies no key and no value.

use env::Map;

use crate::page::{BUCKET, ELEMENT, HEADER, LeafElement, OVERLAP, Page, PageId, compare};
use crate::write::{KEY_MAX, VALUE_MAX};

/// Where some bytes are: an offset into the mapped file or, with the highest bit, a place in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

const IN_ARENA: u64 = 1 << 63;

/// Bytes of an arena's chunk; a pair that is larger gets a chunk of its own.
const CHUNK: usize = 1 << 20;
const CHUNK_BITS: u32 = 32;

/// Chunks kept for the next transaction.
const SPARE_MAX: usize = 16;

/// What a write transaction has put: keys and values, only ever added to.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: Vec<Vec<u8>>,
    /// Empty ones, left by the transaction before.
    spare: Vec<Vec<u8>>,
}

impl Arena {
    /// Keeps a key and its value behind each other.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Place {
        let len = key.len() + value.len();
        let fits = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= len;
        if !self.chunks.last().is_some_and(fits) {
            let spare = if len <= CHUNK { self.spare.pop() } else { None };
            self.chunks.push(spare.unwrap_or_else(|| Vec::with_capacity(len.max(CHUNK))));
        }
        let index = self.chunks.len() as u64 - 1;
        let chunk = self.chunks.last_mut().expect("one was just made if there was none");
        let place = Place(IN_ARENA | index << CHUNK_BITS | chunk.len() as u64);
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(value);
        place
    }

    /// Nothing, and some memory for the next transaction.
    pub(crate) fn emptied(self) -> Arena {
        let ordinary = |chunk: &Vec<u8>| (CHUNK..2 * CHUNK).contains(&chunk.capacity());
        let mut spare: Vec<Vec<u8>> =
            self.chunks.into_iter().filter(ordinary).chain(self.spare).collect();
        spare.truncate(SPARE_MAX);
        spare.iter_mut().for_each(Vec::clear);
        Arena { chunks: Vec::new(), spare }
    }
}

/// The bytes that the nodes of a transaction speak of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    pub(crate) map: &'a Map,
    pub(crate) arena: &'a Arena,
}

impl<'a> Bytes<'a> {
    #[inline]
    pub(crate) fn get(&self, place: Place, skip: u32, len: u32) -> &'a [u8] {
        let (skip, len) = (u64::from(skip), len as usize);
        if place.0 & IN_ARENA == 0 {
            let offset = usize::try_from(place.0 + skip).expect("an address in memory");
            return self.map.get(offset, len).expect("was read from there");
        }
        let place = place.0 & !IN_ARENA;
        let chunk = usize::try_from(place >> CHUNK_BITS).expect("an index of chunks");
        let start = usize::try_from((place & u64::from(u32::MAX)) + skip).expect("within a chunk");
        &self.arena.chunks[chunk][start..start + len]
    }

    pub(crate) fn key(&self, key: &Key) -> &'a [u8] {
        self.get(key.place, 0, key.len)
    }
}

/// A key by its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) place: Place,
    pub(crate) len: u32,
}

impl Key {
    /// No key: that of an empty leaf.
    pub(crate) const EMPTY: Key = Key { place: Place(0), len: 0 };
}

/// A pair or bucket in a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) value_len: u32,
    pub(crate) is_bucket: bool,
}

impl Entry {
    /// Bytes that the entry takes on a page.
    pub(crate) fn size(&self) -> usize {
        ELEMENT + self.key.len as usize + self.value_len as usize
    }

    pub(crate) fn flags(&self) -> u32 {
        if self.is_bucket { BUCKET } else { 0 }
    }

    pub(crate) fn read<'a>(&self, bytes: Bytes<'a>) -> LeafElement<'a> {
        LeafElement {
            is_bucket: self.is_bucket,
            key: bytes.key(&self.key),
            value: bytes.get(self.key.place, self.key.len, self.value_len),
        }
    }
}

/// A child of a branch, with the first key below it when the branch was read. Only an element's own order is sure:
/// what lies below may have changed since, and the key is set right when the child is written.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) key: Key,
    pub(crate) child: Child,
}

impl Branch {
    pub(crate) fn size(&self) -> usize {
        ELEMENT + self.key.len as usize
    }
}

/// A subtree: on its page, or being changed.
#[derive(Debug)]
pub(crate) enum Child {
    Page(PageId),
    Node(Box<Node>),
}

/// A page being changed.
#[derive(Debug)]
pub(crate) struct Node {
    /// The page it was read from, with the number of pages it takes: free once the node is written elsewhere.
    pub(crate) source: Option<(PageId, u64)>,
    /// Something was taken out, so it may have become too small.
    pub(crate) shrunk: bool,
    pub(crate) elements: Elements,
}

/// What a node has.
#[derive(Debug)]
pub(crate) enum Elements {
    Leaf(Vec<Entry>),
    Branch(Vec<Branch>),
}

impl Node {
    pub(crate) fn new(elements: Elements) -> Node {
        Node { source: None, shrunk: false, elements }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.elements {
            Elements::Leaf(entries) => entries.len(),
            Elements::Branch(branches) => branches.len(),
        }
    }

    /// Bytes it takes on a page.
    pub(crate) fn size(&self) -> usize {
        HEADER
            + match &self.elements {
                Elements::Leaf(entries) => entries.iter().map(Entry::size).sum::<usize>(),
                Elements::Branch(branches) => branches.iter().map(Branch::size).sum(),
            }
    }

    /// Takes a page apart. `base` is where its bytes lie in the map.
    pub(crate) fn read(page: &Page<'_>, base: u64) -> Result<Node, &'static str> {
        let place = |key: &[u8]| {
            // The distance of two addresses in the same slice.
            let offset = key.as_ptr().addr() - page.bytes().as_ptr().addr();
            let len = u32::try_from(key.len()).map_err(|_| "a key too long")?;
            Ok::<_, &'static str>(Key { place: Place(base + offset as u64), len })
        };
        let elements = if page.is_leaf {
            let entry = |index| {
                let found = page.leaf_element(index)?;
                Ok(Entry {
                    key: place(found.key)?,
                    value_len: u32::try_from(found.value.len()).map_err(|_| "a value too long")?,
                    is_bucket: found.is_bucket,
                })
            };
            Elements::Leaf((0..page.count()).map(entry).collect::<Result<_, &'static str>>()?)
        } else {
            let branch = |index| {
                let child = Child::Page(page.child(index)?);
                Ok(Branch { key: place(page.key(index)?)?, child })
            };
            Elements::Branch((0..page.count()).map(branch).collect::<Result<_, &'static str>>()?)
        };
        let node = Node::new(elements);
        node.verify(page)?;
        Ok(node)
    }

    /// What is about to be changed must be in order, or a key would be found in one place and changed in another; and its
    /// elements must not overlap.
    fn verify(&self, page: &Page<'_>) -> Result<(), &'static str> {
        for index in 1..page.count() {
            if compare(page.key(index - 1)?, page.key(index)?).is_ge() {
                return Err("keys out of order");
            }
        }
        if let Elements::Leaf(entries) = &self.elements
            && entries.iter().any(|entry| {
                entry.key.len as usize > KEY_MAX || entry.value_len as usize > VALUE_MAX
            })
        {
            return Err("a key or value longer than there can be");
        }
        if self.size() > page.bytes().len() { Err(OVERLAP) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Entry>() <= 24, "{}", size_of::<Entry>());
        assert!(size_of::<Branch>() <= 32, "{}", size_of::<Branch>());
    }

    #[test]
    fn large_values_get_a_chunk_of_their_own() {
        let mut arena = Arena::default();
        let (small, large) = (vec![1; 10], vec![2; 3 * CHUNK]);
        let first = arena.add(b"a", &small);
        let second = arena.add(b"b", &large);
        let third = arena.add(b"c", &small);
        let map = env_map();
        let bytes = Bytes { map: &map, arena: &arena };
        assert_eq!(bytes.get(first, 1, 10), small);
        assert_eq!(bytes.get(second, 0, 1), b"b");
        assert_eq!(bytes.get(second, 1, 3 << 20), large);
        assert_eq!(bytes.get(third, 0, 1), b"c");
    }

    /// A map of an empty file.
    fn env_map() -> Map {
        use env::{Create, Disk, Open, SimDisk};
        let disk = SimDisk::new(0);
        let file = disk.open("file".as_ref(), Open::create(Create::New)).unwrap();
        // SAFETY: nobody writes to it.
        #[expect(unsafe_code, reason = "a test needs some map")]
        unsafe {
            file.map(0, None).unwrap()
        }
    }
}
