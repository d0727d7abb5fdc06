//! Cutting nodes into pages, and giving each a free place.

use crate::bucket::{BUCKET_HEADER, BucketHeader};
use crate::freelist::{self, Freelist, Run};
use crate::node::{Branch, Bytes, Child, Elements, Entry, Key, Node};
use crate::page::{BRANCH, COUNT_MAX, ELEMENT, HEADER, Header, LEAF, PageId};

/// Fewest children of a branch page, so that trees stay shallow.
const CHILDREN_MIN: usize = 2;

/// An inline bucket takes at most this share of a page.
const INLINE_SHARE: usize = 4;

/// Pages on their way to the file.
#[derive(Debug)]
pub(crate) struct Output<'w> {
    pub(crate) page_size: usize,
    pub(crate) high_water: PageId,
    freelist: &'w mut Freelist,
    /// The pages' bytes, in the order they were made.
    pub(crate) bytes: Vec<u8>,
    /// Which pages these are: runs whose bytes follow each other.
    pub(crate) runs: Vec<Run>,
}

impl<'w> Output<'w> {
    /// Takes a buffer to fill, so that it need not be allocated for each commit.
    pub(crate) fn new(
        page_size: usize,
        high_water: PageId,
        freelist: &'w mut Freelist,
        mut buffer: Vec<u8>,
    ) -> Output<'w> {
        buffer.clear();
        Output { page_size, high_water, freelist, bytes: buffer, runs: Vec::new() }
    }

    /// Writes a tree, and tells the page of its root. What it was read from is given up.
    pub(crate) fn tree(
        &mut self,
        root: Child,
        fill: f64,
        bytes: Bytes<'_>,
        freed: &mut Vec<Run>,
    ) -> PageId {
        let mut pages = match root {
            Child::Page(id) => return id,
            Child::Node(node) => self.node(*node, fill, bytes, freed),
        };
        loop {
            match pages.pop() {
                Some(Branch { child: Child::Page(id), .. }) if pages.is_empty() => return id,
                Some(last) => pages.push(last),
                None => unreachable!("a node becomes at least one page"),
            }
            pages = self.branches(&pages, fill, bytes);
        }
    }

    /// Writes a node and what is below it; gives what the branch above has in its place.
    fn node(
        &mut self,
        node: Node,
        fill: f64,
        bytes: Bytes<'_>,
        freed: &mut Vec<Run>,
    ) -> Vec<Branch> {
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

    fn leaves(&mut self, entries: &[Entry], fill: f64, bytes: Bytes<'_>) -> Vec<Branch> {
        let cuts = cuts(entries.iter().map(Entry::size), self.page_size, fill, 1);
        let mut pages = Vec::with_capacity(cuts.len());
        let mut rest = entries;
        for len in cuts {
            let (chunk, behind) = rest.split_at(len);
            rest = behind;
            let size = HEADER + chunk.iter().map(Entry::size).sum::<usize>();
            let id = self.begin_page(size, LEAF, chunk.len());
            write_entries(chunk, bytes, &mut self.bytes);
            self.end_page();
            // An empty leaf is a whole tree, which nobody asks for its key.
            let key = chunk.first().map_or(Key::EMPTY, |first| first.key);
            pages.push(Branch { key, child: Child::Page(id) });
        }
        pages
    }

    fn branches(&mut self, branches: &[Branch], fill: f64, bytes: Bytes<'_>) -> Vec<Branch> {
        let cuts = cuts(branches.iter().map(Branch::size), self.page_size, fill, CHILDREN_MIN);
        let mut pages = Vec::with_capacity(cuts.len());
        let mut rest = branches;
        for len in cuts {
            let (chunk, behind) = rest.split_at(len);
            rest = behind;
            let size = HEADER + chunk.iter().map(Branch::size).sum::<usize>();
            let id = self.begin_page(size, BRANCH, chunk.len());
            write_branches(chunk, bytes, &mut self.bytes);
            self.end_page();
            pages.push(Branch { key: chunk[0].key, child: Child::Page(id) });
        }
        pages
    }

    /// A fresh page for so many bytes. Its header is written; its elements follow.
    fn begin_page(&mut self, size: usize, flags: u16, count: usize) -> PageId {
        let pages = size.div_ceil(self.page_size) as u64;
        let id = self.allocate(pages);
        self.note_run(id, pages);
        let count = u16::try_from(count).expect("cuts keep to COUNT_MAX");
        let overflow = u32::try_from(pages - 1).expect("cuts keep pages short");
        self.bytes.extend_from_slice(&Header { id, flags, count, overflow }.encode());
        id
    }

    /// The rest of a page is zeros.
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

    /// Saves the list of pages that the new state does not use: those free now, and those that were given up or are about to be.
    pub(crate) fn save_freelist(&mut self, freed: &[Run]) -> PageId {
        // Taking a place for it may make the list shorter, never longer.
        let given_up: u64 = freed.iter().map(|(_, len)| len).sum();
        let most =
            usize::try_from(self.freelist.unused() + given_up).expect("pages of a mapped file");
        let pages = freelist::saved_size(most).div_ceil(self.page_size);
        let id = self.allocate(pages as u64);
        let mut ids = self.freelist.unused_ids();
        ids.extend(freed.iter().flat_map(|(start, len)| *start..start + len));
        ids.sort_unstable();
        let overflow = u32::try_from(pages - 1).expect("as many as the file has pages");
        self.note_run(id, pages as u64);
        let start = self.bytes.len();
        freelist::save(&ids, id, overflow, &mut self.bytes);
        // As many pages as were taken, though the list may have become shorter.
        self.bytes.resize(start + pages * self.page_size, 0);
        id
    }
}

/// Where to cut elements into pages: how many go into each. One page if all fit; otherwise each is filled up to the share given, with
/// at least `fewest` and no more than a page can count.
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
        reason = "a share of a page size, which is small and positive"
    )]
    let limit = (page_size as f64 * fill) as usize;
    let mut cuts = Vec::with_capacity(total / limit.max(1) + 1);
    let (mut taken, mut used, mut left) = (0, HEADER, count);
    for size in sizes {
        // The last page must have its fewest too.
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

fn write_entries(entries: &[Entry], bytes: Bytes<'_>, page: &mut Vec<u8>) {
    // From an element to its key: over the elements that follow, and the pairs before.
    let mut distance = entries.len() * ELEMENT;
    for entry in entries {
        let numbers = [entry.flags(), position(distance), entry.key.len, entry.value_len];
        page.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        distance = distance + entry.size() - 2 * ELEMENT;
    }
    for entry in entries {
        // The value follows the key, where it comes from too.
        page.extend_from_slice(bytes.get(entry.key.place, 0, entry.key.len + entry.value_len));
    }
}

fn write_branches(branches: &[Branch], bytes: Bytes<'_>, page: &mut Vec<u8>) {
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
    u32::try_from(distance)
        .expect("a page of several elements is at most as long as two pairs, or short")
}

/// The value of an inline bucket, if the tree is small enough to be one.
pub(crate) fn inline(
    root: &Child,
    sequence: u64,
    page_size: usize,
    bytes: Bytes<'_>,
) -> Option<Vec<u8>> {
    let Child::Node(node) = root else { return None };
    let Elements::Leaf(entries) = &node.elements else { return None };
    let size = node.size();
    // A quarter of a very large page would hold more than a page can count.
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
    fn what_fits_a_page_stays_together() {
        assert_eq!(cut(&[], 0.5, 1), [0]);
        assert_eq!(cut(&[1000; 4], 0.5, 1), [4]);
    }

    #[test]
    fn pages_are_filled_as_told() {
        assert_eq!(cut(&[100; 100], 0.5, 1), [20; 5]);
        assert_eq!(cut(&[100; 100], 0.9, 1), [36, 36, 28]);
        assert_eq!(cut(&[100; 100], 1.0, 1), [40, 40, 20]);
    }

    #[test]
    fn what_is_larger_than_a_page_is_alone_in_a_leaf() {
        assert_eq!(cut(&[10, 9000, 10, 10], 0.5, 1), [1, 1, 2]);
    }

    #[test]
    fn a_branch_has_two_children_at_least() {
        assert_eq!(cut(&[9000; 5], 0.5, 2), [2, 3]);
        assert_eq!(cut(&[9000; 4], 0.5, 2), [2, 2]);
    }

    #[test]
    fn no_page_counts_further_than_it_can() {
        let sizes = vec![17; 200_000];
        let cuts = cuts(sizes.iter().copied(), 1 << 24, 1.0, 1);
        assert_eq!(cuts.iter().sum::<usize>(), 200_000);
        assert!(cuts.iter().all(|len| *len <= COUNT_MAX));
    }
}
