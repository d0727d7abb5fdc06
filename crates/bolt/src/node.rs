//! Nodes: decoded, modified pages of a write transaction.
//!
//! A write transaction reads pages until it changes something. Then the leaf and the branches above
//! it become [`Node`]s that own one another, a plain tree; everything else stays on its page. An
//! element does not own its bytes but refers to them, in the mapped file or in the transaction's
//! [`Arena`], so decoding a page copies no key and no value.

use env::Map;

use crate::page::{BUCKET, ELEMENT, HEADER, LeafElement, OVERLAP, Page, PageId, compare};
use crate::write::{KEY_MAX, VALUE_MAX};

/// Address of some bytes: an offset into the mapped file or, with the highest bit set, into the
/// arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteAddr(u64);

const IN_ARENA: u64 = 1 << 63;

/// Size of an arena chunk, in bytes. A larger pair gets a chunk of its own.
const CHUNK: usize = 1 << 20;
const CHUNK_BITS: u32 = 32;

/// Maximum number of chunks kept for the next transaction.
const SPARE_MAX: usize = 16;

/// Append-only memory for the keys and values that a write transaction puts.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: Vec<Vec<u8>>,
    /// Empty chunks, reused from earlier transactions.
    spare: Vec<Vec<u8>>,
}

impl Arena {
    /// Appends a key followed by its value.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> ByteAddr {
        let len = key.len() + value.len();
        let fits = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= len;
        if !self.chunks.last().is_some_and(fits) {
            let spare = if len <= CHUNK { self.spare.pop() } else { None };
            self.chunks.push(spare.unwrap_or_else(|| Vec::with_capacity(len.max(CHUNK))));
        }
        let index = self.chunks.len() as u64 - 1;
        let chunk = self.chunks.last_mut().expect("just pushed if there was none");
        let addr = ByteAddr(IN_ARENA | index << CHUNK_BITS | chunk.len() as u64);
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(value);
        addr
    }

    /// Returns an empty arena that keeps some memory for the next transaction.
    pub(crate) fn into_empty(self) -> Arena {
        let ordinary = |chunk: &Vec<u8>| (CHUNK..2 * CHUNK).contains(&chunk.capacity());
        let mut spare: Vec<Vec<u8>> =
            self.chunks.into_iter().filter(ordinary).chain(self.spare).collect();
        spare.truncate(SPARE_MAX);
        spare.iter_mut().for_each(Vec::clear);
        Arena { chunks: Vec::new(), spare }
    }
}

/// The memory that the addresses of a transaction's nodes refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeBytes<'a> {
    pub(crate) map: &'a Map,
    pub(crate) arena: &'a Arena,
}

impl<'a> NodeBytes<'a> {
    #[inline]
    pub(crate) fn get(&self, addr: ByteAddr, skip: u32, len: u32) -> &'a [u8] {
        let (skip, len) = (u64::from(skip), len as usize);
        if addr.0 & IN_ARENA == 0 {
            let offset = usize::try_from(addr.0 + skip).expect("offsets in a map fit usize");
            return self.map.get(offset, len).expect("the page was read from this range");
        }
        let addr = addr.0 & !IN_ARENA;
        let chunk = usize::try_from(addr >> CHUNK_BITS).expect("chunk indexes fit usize");
        let start = usize::try_from((addr & u64::from(u32::MAX)) + skip)
            .expect("offsets in a chunk fit usize");
        &self.arena.chunks[chunk][start..start + len]
    }

    pub(crate) fn key(&self, key: &KeyRef) -> &'a [u8] {
        self.get(key.addr, 0, key.len)
    }
}

/// A key, by address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRef {
    pub(crate) addr: ByteAddr,
    pub(crate) len: u32,
}

impl KeyRef {
    /// The key of an empty leaf.
    pub(crate) const EMPTY: KeyRef = KeyRef { addr: ByteAddr(0), len: 0 };
}

/// A key-value pair or nested bucket in a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafEntry {
    pub(crate) key: KeyRef,
    pub(crate) value_len: u32,
    pub(crate) is_bucket: bool,
}

impl LeafEntry {
    /// Encoded size on a page, in bytes.
    pub(crate) fn size(&self) -> usize {
        ELEMENT + self.key.len as usize + self.value_len as usize
    }

    pub(crate) fn flags(&self) -> u32 {
        if self.is_bucket { BUCKET } else { 0 }
    }

    pub(crate) fn read<'a>(&self, bytes: NodeBytes<'a>) -> LeafElement<'a> {
        LeafElement {
            is_bucket: self.is_bucket,
            key: bytes.key(&self.key),
            value: bytes.get(self.key.addr, self.key.len, self.value_len),
        }
    }
}

/// A child of a branch, with the first key below it at the time the branch was read. The keys of a
/// branch stay sorted, but the subtree may have changed since; the key is corrected when the child
/// is written.
#[derive(Debug)]
pub(crate) struct BranchEntry {
    pub(crate) key: KeyRef,
    pub(crate) child: Child,
}

impl BranchEntry {
    pub(crate) fn size(&self) -> usize {
        ELEMENT + self.key.len as usize
    }
}

/// A subtree: unchanged on its page, or a modified node.
#[derive(Debug)]
pub(crate) enum Child {
    Page(PageId),
    Node(Box<Node>),
}

/// A decoded page that is being modified.
#[derive(Debug)]
pub(crate) struct Node {
    /// The page it was read from and its length in pages; freed when the node is written elsewhere.
    pub(crate) source: Option<(PageId, u64)>,
    /// An element was removed, so the node may have become too small.
    pub(crate) shrunk: bool,
    pub(crate) elements: Elements,
}

/// The elements of a node.
#[derive(Debug)]
pub(crate) enum Elements {
    Leaf(Vec<LeafEntry>),
    Branch(Vec<BranchEntry>),
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

    /// Encoded size on a page, in bytes.
    pub(crate) fn size(&self) -> usize {
        HEADER
            + match &self.elements {
                Elements::Leaf(entries) => entries.iter().map(LeafEntry::size).sum::<usize>(),
                Elements::Branch(branches) => branches.iter().map(BranchEntry::size).sum(),
            }
    }

    /// Decodes a page. `base` is the offset of its first byte in the map.
    pub(crate) fn read(page: &Page<'_>, base: u64) -> Result<Node, &'static str> {
        let addr = |key: &[u8]| {
            // Distance of two addresses within the same slice.
            let offset = key.as_ptr().addr() - page.bytes().as_ptr().addr();
            let len = u32::try_from(key.len()).map_err(|_| "key too large")?;
            Ok::<_, &'static str>(KeyRef { addr: ByteAddr(base + offset as u64), len })
        };
        let elements = if page.is_leaf {
            let entry = |index| {
                let found = page.leaf_element(index)?;
                Ok(LeafEntry {
                    key: addr(found.key)?,
                    value_len: u32::try_from(found.value.len()).map_err(|_| "value too large")?,
                    is_bucket: found.is_bucket,
                })
            };
            Elements::Leaf((0..page.count()).map(entry).collect::<Result<_, &'static str>>()?)
        } else {
            let branch = |index| {
                let child = Child::Page(page.child(index)?);
                Ok(BranchEntry { key: addr(page.key(index)?)?, child })
            };
            Elements::Branch((0..page.count()).map(branch).collect::<Result<_, &'static str>>()?)
        };
        let node = Node::new(elements);
        node.verify(page)?;
        Ok(node)
    }

    /// Verifies that keys are sorted, or a key would be found in one position and changed in
    /// another, and that elements do not overlap.
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
            return Err("key or value too large");
        }
        if self.size() > page.bytes().len() { Err(OVERLAP) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_small() {
        assert!(size_of::<LeafEntry>() <= 24, "{}", size_of::<LeafEntry>());
        assert!(size_of::<BranchEntry>() <= 32, "{}", size_of::<BranchEntry>());
    }

    #[test]
    fn large_values_get_a_chunk_of_their_own() {
        let mut arena = Arena::default();
        let (small, large) = (vec![1; 10], vec![2; 3 * CHUNK]);
        let first = arena.add(b"a", &small);
        let second = arena.add(b"b", &large);
        let third = arena.add(b"c", &small);
        let map = env_map();
        let bytes = NodeBytes { map: &map, arena: &arena };
        assert_eq!(bytes.get(first, 1, 10), small);
        assert_eq!(bytes.get(second, 0, 1), b"b");
        assert_eq!(bytes.get(second, 1, 3 << 20), large);
        assert_eq!(bytes.get(third, 0, 1), b"c");
    }

    /// Returns the map of an empty file.
    fn env_map() -> Map {
        use env::{Create, Disk, Open, SimDisk};
        let disk = SimDisk::new(0);
        let file = disk.open("file".as_ref(), Open::create(Create::New)).unwrap();
        // SAFETY: nothing writes to the file.
        #[expect(unsafe_code, reason = "a test needs some map")]
        unsafe {
            file.map(0, None).unwrap()
        }
    }
}
