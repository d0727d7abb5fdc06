//! Spilling: cuts nodes into pages and assigns them to free locations.

use crate::bucket::{BUCKET_HEADER, BucketHeader};
use crate::freelist::{self, Freelist, Run};
use crate::node::{BranchEntry, Child, Elements, KeyRef, LeafEntry, Node, NodeBytes};
use crate::page::{BRANCH, COUNT_MAX, ELEMENT, HEADER, Header, LEAF, PageId};

/// Minimum number of children of a branch page, to keep trees shallow.
const CHILDREN_MIN: usize = 2;

/// An inline bucket takes at most a page divided by this.
const INLINE_SHARE: usize = 4;

/// Encoded pages, ready to be written to the file.
#[derive(Debug)]
pub(crate) struct PageOutput<'w> {
    pub(crate) page_size: usize,
    pub(crate) high_water: PageId,
    freelist: &'w mut Freelist,
    /// The bytes of the pages, in the order of allocation.
    pub(crate) bytes: Vec<u8>,
    /// The locations of the pages: runs whose bytes follow each other in `bytes`.
    pub(crate) runs: Vec<Run>,
}

impl<'w> PageOutput<'w> {
    /// Creates an output on a reused buffer, which saves an allocation per commit.
    pub(crate) fn new(
        page_size: usize,
        high_water: PageId,
        freelist: &'w mut Freelist,
        mut buffer: Vec<u8>,
    ) -> PageOutput<'w> {
        buffer.clear();
        PageOutput { page_size, high_water, freelist, bytes: buffer, runs: Vec::new() }
    }

    /// Encodes a tree and returns its root page. Frees the pages that its nodes were read from.
    pub(crate) fn tree(
        &mut self,
        root: Child,
        fill: f64,
        bytes: NodeBytes<'_>,
        freed: &mut Vec<Run>,
    ) -> PageId {
        let mut pages = match root {
            Child::Page(id) => return id,
            Child::Node(node) => self.node(*node, fill, bytes, freed),
        };
        loop {
            match pages.pop() {
                Some(BranchEntry { child: Child::Page(id), .. }) if pages.is_empty() => return id,
                Some(last) => pages.push(last),
                None => unreachable!("a node spills into at least one page"),
            }
            pages = self.branches(&pages, fill, bytes);
        }
    }

    /// Encodes a node and its subtree. Returns the branch elements that refer to it.
    fn node(
        &mut self,
        node: Node,
        fill: f64,
        bytes: NodeBytes<'_>,
        freed: &mut Vec<Run>,
    ) -> Vec<BranchEntry> {
        freed.extend(node.source);
        match node.elements {
            Elements::Leaf(entries) => self.leaves(&entries, fill, bytes),
            Elements::Branch(branches) => {
                let mut written = Vec::with_capacity(branches.len());
                for branch in branches {
                    match branch.child {
                        Child::Page(_) => written.push(branch),
                        Child::Node(child) => {
                            written.append(&mut self.node(*child, fill, bytes, freed));
                        }
                    }
                }
                self.branches(&written, fill, bytes)
            }
        }
    }

    fn leaves(
        &mut self,
        entries: &[LeafEntry],
        fill: f64,
        bytes: NodeBytes<'_>,
    ) -> Vec<BranchEntry> {
        let cuts = cuts(entries.iter().map(LeafEntry::size), self.page_size, fill, 1);
        let mut pages = Vec::with_capacity(cuts.len());
        let mut rest = entries;
        for len in cuts {
            let (chunk, tail) = rest.split_at(len);
            rest = tail;
            let size = HEADER + chunk.iter().map(LeafEntry::size).sum::<usize>();
            let id = self.begin_page(size, LEAF, chunk.len());
            write_entries(chunk, bytes, &mut self.bytes);
            self.end_page();
            // The key of an empty leaf is never used: such a leaf is a whole tree.
            let key = chunk.first().map_or(KeyRef::EMPTY, |first| first.key);
            pages.push(BranchEntry { key, child: Child::Page(id) });
        }
        pages
    }

    fn branches(
        &mut self,
        branches: &[BranchEntry],
        fill: f64,
        bytes: NodeBytes<'_>,
    ) -> Vec<BranchEntry> {
        let cuts = cuts(branches.iter().map(BranchEntry::size), self.page_size, fill, CHILDREN_MIN);
        let mut pages = Vec::with_capacity(cuts.len());
        let mut rest = branches;
        for len in cuts {
            let (chunk, tail) = rest.split_at(len);
            rest = tail;
            let size = HEADER + chunk.iter().map(BranchEntry::size).sum::<usize>();
            let id = self.begin_page(size, BRANCH, chunk.len());
            write_branches(chunk, bytes, &mut self.bytes);
            self.end_page();
            pages.push(BranchEntry { key: chunk[0].key, child: Child::Page(id) });
        }
        pages
    }

    /// Allocates a page of `size` bytes and writes its header. The elements follow.
    fn begin_page(&mut self, size: usize, flags: u16, count: usize) -> PageId {
        let pages = size.div_ceil(self.page_size) as u64;
        let id = self.allocate(pages);
        self.note_run(id, pages);
        let count = u16::try_from(count).expect("cuts keep to COUNT_MAX");
        let overflow = u32::try_from(pages - 1).expect("cuts keep pages short");
        self.bytes.extend_from_slice(&Header { id, flags, count, overflow }.encode());
        id
    }

    /// Pads the page with zeros.
    fn end_page(&mut self) {
        let len = self.bytes.len().next_multiple_of(self.page_size);
        self.bytes.resize(len, 0);
    }

    fn note_run(&mut self, id: PageId, pages: u64) {
        match self.runs.last_mut() {
            Some((start, len)) if *start + *len == id => *len += pages,
            _ => self.runs.push((id, pages)),
        }
    }

    fn allocate(&mut self, pages: u64) -> PageId {
        self.freelist.allocate(pages).unwrap_or_else(|| {
            let id = self.high_water;
            self.high_water += pages;
            id
        })
    }

    /// Encodes the list of pages that the new state does not use: free, pending, and freed by this
    /// transaction.
    pub(crate) fn save_freelist(&mut self, freed: &[Run]) -> PageId {
        // Allocating the page of the list may shorten the list, never lengthen it.
        let freed_pages: u64 = freed.iter().map(|(_, len)| len).sum();
        let most =
            usize::try_from(self.freelist.unused() + freed_pages).expect("pages of a mapped file");
        let pages = freelist::saved_size(most).div_ceil(self.page_size);
        let id = self.allocate(pages as u64);
        let mut ids = self.freelist.unused_ids();
        ids.extend(freed.iter().flat_map(|(start, len)| *start..start + len));
        ids.sort_unstable();
        let overflow = u32::try_from(pages - 1).expect("as many as the file has pages");
        self.note_run(id, pages as u64);
        let start = self.bytes.len();
        freelist::save(&ids, id, overflow, &mut self.bytes);
        // Fills all allocated pages, although the list may have become shorter.
        self.bytes.resize(start + pages * self.page_size, 0);
        id
    }
}

/// Decides how many elements go into each page. All go into one page if they fit. Otherwise each
/// page is filled up to the fraction `fill`, with at least `fewest` elements and at most
/// [`COUNT_MAX`].
fn cuts(
    sizes: impl Iterator<Item = usize> + Clone,
    page_size: usize,
    fill: f64,
    fewest: usize,
) -> Vec<usize> {
    let (count, total) =
        sizes.clone().fold((0, HEADER), |(count, total), size| (count + 1, total + size));
    if total <= page_size && count <= COUNT_MAX {
        return vec![count];
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a fraction of a page size, which is small and positive"
    )]
    let limit = (page_size as f64 * fill) as usize;
    let mut cuts = Vec::with_capacity(total / limit.max(1) + 1);
    let (mut taken, mut used, mut left) = (0, HEADER, count);
    for size in sizes {
        // The last page needs its minimum too.
        if taken >= COUNT_MAX || (taken >= fewest && used + size > limit && left >= fewest) {
            cuts.push(taken);
            (taken, used) = (0, HEADER);
        }
        taken += 1;
        used += size;
        left -= 1;
    }
    cuts.push(taken);
    cuts
}

fn write_entries(entries: &[LeafEntry], bytes: NodeBytes<'_>, page: &mut Vec<u8>) {
    // Distance from an element to its key: the elements that follow, and the pairs before.
    let mut distance = entries.len() * ELEMENT;
    for entry in entries {
        let numbers = [entry.flags(), position(distance), entry.key.len, entry.value_len];
        page.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        distance = distance + entry.size() - 2 * ELEMENT;
    }
    for entry in entries {
        // The value follows the key in the source too.
        page.extend_from_slice(bytes.get(entry.key.addr, 0, entry.key.len + entry.value_len));
    }
}

fn write_branches(branches: &[BranchEntry], bytes: NodeBytes<'_>, page: &mut Vec<u8>) {
    let mut distance = branches.len() * ELEMENT;
    for branch in branches {
        let Child::Page(child) = branch.child else { unreachable!("children are written first") };
        page.extend(position(distance).to_le_bytes());
        page.extend(branch.key.len.to_le_bytes());
        page.extend(child.to_le_bytes());
        distance = distance + branch.size() - 2 * ELEMENT;
    }
    for branch in branches {
        page.extend_from_slice(bytes.key(&branch.key));
    }
}

fn position(distance: usize) -> u32 {
    u32::try_from(distance).expect("a page with several elements is bounded by two pairs")
}

/// Encodes the tree as the value of an inline bucket, if it is small enough.
pub(crate) fn inline(
    root: &Child,
    sequence: u64,
    page_size: usize,
    bytes: NodeBytes<'_>,
) -> Option<Vec<u8>> {
    let Child::Node(node) = root else { return None };
    let Elements::Leaf(entries) = &node.elements else { return None };
    let size = node.size();
    // A quarter of a very large page may hold more elements than a page can count.
    if size > page_size / INLINE_SHARE
        || entries.len() > COUNT_MAX
        || entries.iter().any(|entry| entry.is_bucket)
    {
        return None;
    }
    let mut value = Vec::with_capacity(BUCKET_HEADER + size);
    value.extend(BucketHeader { root: 0, sequence }.encode());
    let count = u16::try_from(entries.len()).expect("at most COUNT_MAX");
    value.extend(Header { id: 0, flags: LEAF, count, overflow: 0 }.encode());
    write_entries(entries, bytes, &mut value);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sizes: &[usize], fill: f64, fewest: usize) -> Vec<usize> {
        cuts(sizes.iter().copied(), 4096, fill, fewest)
    }

    #[test]
    fn elements_that_fit_one_page_stay_together() {
        assert_eq!(cut(&[], 0.5, 1), [0]);
        assert_eq!(cut(&[1000; 4], 0.5, 1), [4]);
    }

    #[test]
    fn pages_are_filled_to_the_given_fraction() {
        assert_eq!(cut(&[100; 100], 0.5, 1), [20; 5]);
        assert_eq!(cut(&[100; 100], 0.9, 1), [36, 36, 28]);
        assert_eq!(cut(&[100; 100], 1.0, 1), [40, 40, 20]);
    }

    #[test]
    fn an_element_larger_than_a_page_is_alone_in_its_leaf() {
        assert_eq!(cut(&[10, 9000, 10, 10], 0.5, 1), [1, 1, 2]);
    }

    #[test]
    fn a_branch_has_at_least_two_children() {
        assert_eq!(cut(&[9000; 5], 0.5, 2), [2, 3]);
        assert_eq!(cut(&[9000; 4], 0.5, 2), [2, 2]);
    }

    #[test]
    fn no_page_exceeds_the_element_limit() {
        let sizes = vec![17; 200_000];
        let cuts = cuts(sizes.iter().copied(), 1 << 24, 1.0, 1);
        assert_eq!(cuts.iter().sum::<usize>(), 200_000);
        assert!(cuts.iter().all(|len| *len <= COUNT_MAX));
    }
}
