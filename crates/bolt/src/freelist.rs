//! Free pages, and the rules for when a freed page may be reused.
//!
//! ```text
//!  runs of free pages        [4..9) [12..13) [80..200)
//!  pending, by transaction    17: 40 41   18: 12     19: 13 14
//! ```
//!
//! A page written by transaction 15 and freed by transaction 19 belongs to the states 15 to 18. It
//! may be reused once none of these has a reader and one more commit has followed, so that neither
//! meta page leads to it. A reader of state 12 does not pin it. (bbolt reuses a page one commit
//! earlier. Then the older meta page may lead to overwritten pages, and a corrupt newer one is
//! fatal.)

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::page::{FREELIST, HEADER, Header, PageId, u64_at};

/// A run of consecutive pages: the first page and the number of pages.
pub(crate) type Run = (PageId, u64);

#[derive(Debug, Default)]
pub(crate) struct Freelist {
    /// Runs of free pages by first page. Adjacent runs are merged.
    runs: BTreeMap<PageId, u64>,
    /// The runs of `runs`, by length.
    by_len: BTreeSet<(u64, PageId)>,
    /// Number of pages in `runs`.
    free: u64,
    /// Freed runs that a meta page may still need, by transaction, oldest first.
    pending: VecDeque<(u64, Vec<Run>)>,
    /// Freed runs that a reader needs and no meta page does, each with the transaction that freed
    /// it.
    pinned: Vec<(u64, Run)>,
    /// Number of pages in `pending` and `pinned`.
    pending_pages: u64,
    /// Sorted txids of the readers at the last call of `release`.
    readers: Vec<u64>,
    /// The transaction that wrote each page, as a distance from `written_since`; 0 for pages from
    /// before it, or too long ago.
    written_by: Vec<u32>,
    written_since: u64,
}

impl Freelist {
    /// Builds the list of all pages outside `used`. `txid` is the file's newest transaction.
    pub(crate) fn from_used(used: &PageSet, high_water: PageId, txid: u64) -> Freelist {
        let mut list = Freelist { written_since: txid, ..Freelist::default() };
        let mut start = None;
        for id in 2..high_water {
            match (used.contains(id), start) {
                (false, None) => start = Some(id),
                (true, Some(first)) => {
                    list.insert(first, id - first);
                    start = None;
                }
                _ => {}
            }
        }
        if let Some(first) = start {
            list.insert(first, high_water - first);
        }
        list
    }

    /// Allocates consecutive pages.
    pub(crate) fn allocate(&mut self, pages: u64) -> Option<PageId> {
        // Single pages come from the lowest run, in order, so that they can be written in one call.
        // Longer allocations take the shortest run that fits (best fit).
        let (start, len) = if pages == 1 {
            self.runs.first_key_value().map(|(start, len)| (*start, *len))?
        } else {
            self.by_len.range((pages, 0)..).next().map(|(len, start)| (*start, *len))?
        };
        self.remove(start, len);
        if len > pages {
            self.insert(start + pages, len - pages);
        }
        Some(start)
    }

    /// Records the pages that a transaction freed. Transactions come in order.
    pub(crate) fn free(&mut self, txid: u64, runs: Vec<Run>) {
        self.pending_pages += runs.iter().map(|(_, len)| len).sum::<u64>();
        if !runs.is_empty() {
            self.pending.push_back((txid, runs));
        }
    }

    /// Records the pages that a transaction wrote.
    pub(crate) fn note_written(&mut self, txid: u64, runs: &[Run]) {
        let written_by = u32::try_from(txid - self.written_since).unwrap_or_default();
        for (start, len) in runs {
            let end = usize::try_from(start + len).expect("pages of a mapped file");
            if end > self.written_by.len() {
                self.written_by.resize(end, 0);
            }
            let start = usize::try_from(*start).expect("before the end");
            self.written_by[start..end].fill(written_by);
        }
    }

    /// Frees the pages that transactions up to `txid` freed, except pages that a reader needs.
    /// `readers` holds the sorted txids of the states that are read.
    pub(crate) fn release(&mut self, txid: u64, readers: &[u64]) {
        // Pinned runs stay pinned until one of their readers was dropped; new readers need none of
        // them.
        let mut candidates = Vec::new();
        if self.readers.iter().any(|reader| readers.binary_search(reader).is_err()) {
            candidates = std::mem::take(&mut self.pinned);
        }
        self.readers = readers.to_vec();
        while self.pending.front().is_some_and(|(by, _)| *by <= txid) {
            let (by, runs) = self.pending.pop_front().expect("front() returned it");
            candidates.extend(runs.into_iter().map(|run| (by, run)));
        }
        for (by, run) in candidates {
            // The first reader whose state may contain the run.
            let first = readers.partition_point(|reader| *reader < self.first_state_with(run.0));
            if readers.get(first).is_some_and(|reader| *reader < by) {
                self.pinned.push((by, run));
            } else {
                self.pending_pages -= run.1;
                self.add(run.0, run.1);
            }
        }
    }

    /// The first state that may contain a page.
    fn first_state_with(&self, id: PageId) -> u64 {
        let written_by =
            usize::try_from(id).ok().and_then(|id| self.written_by.get(id).copied()).unwrap_or(0);
        if written_by == 0 { 0 } else { self.written_since + u64::from(written_by) }
    }

    /// All freed runs that are not reusable yet.
    fn pending_runs(&self) -> impl Iterator<Item = Run> {
        let waiting = self.pending.iter().flat_map(|(_, runs)| runs.iter().copied());
        waiting.chain(self.pinned.iter().map(|(_, run)| *run))
    }

    /// Number of pages that the newest state does not use.
    pub(crate) fn unused(&self) -> u64 {
        self.free + self.pending_pages
    }

    /// The pages that the newest state does not use, in order.
    pub(crate) fn unused_ids(&self) -> Vec<PageId> {
        let free = self.runs.iter().map(|(start, len)| (*start, *len));
        let mut runs: Vec<Run> = free.chain(self.pending_runs()).collect();
        runs.sort_unstable();
        runs.into_iter().flat_map(|(start, len)| start..start + len).collect()
    }

    /// Returns up to `most` pages, starting at `from`, that the newest state uses, and the page to
    /// continue at.
    pub(crate) fn used_from(
        &self,
        from: PageId,
        high_water: PageId,
        most: usize,
    ) -> (Vec<PageId>, PageId) {
        let mut pending = PageSet::default();
        for id in self.pending_runs().flat_map(|(start, len)| start..start + len) {
            pending.insert(id);
        }
        let mut used = Vec::new();
        let mut id = from.max(2);
        while id < high_water && used.len() < most {
            if let Some((start, len)) = self.runs.range(..=id).next_back()
                && id < start + len
            {
                id = start + len;
                continue;
            }
            if !pending.contains(id) {
                used.push(id);
            }
            id += 1;
        }
        (used, id)
    }

    /// Adds a run to the free runs and merges it with its neighbors.
    fn add(&mut self, mut start: PageId, mut len: u64) {
        if let Some((&before, &before_len)) = self.runs.range(..start).next_back() {
            assert!(before + before_len <= start, "page {start} is freed twice");
            if before + before_len == start {
                self.remove(before, before_len);
                (start, len) = (before, before_len + len);
            }
        }
        if let Some((&after, &after_len)) = self.runs.range(start..).next() {
            assert!(start + len <= after, "page {after} is freed twice");
            if start + len == after {
                self.remove(after, after_len);
                len += after_len;
            }
        }
        self.insert(start, len);
    }

    fn insert(&mut self, start: PageId, len: u64) {
        self.runs.insert(start, len);
        self.by_len.insert((len, start));
        self.free += len;
    }

    fn remove(&mut self, start: PageId, len: u64) {
        self.runs.remove(&start);
        self.by_len.remove(&(len, start));
        self.free -= len;
    }
}

/// Value of the header's count if the real count is the first number after the header.
const COUNT_ELSEWHERE: u16 = 0xffff;

/// Size of a saved list, in bytes.
pub(crate) fn saved_size(ids: usize) -> usize {
    HEADER + 8 * (ids + usize::from(ids >= usize::from(COUNT_ELSEWHERE)))
}

/// Appends a saved list, at page `id` with `overflow` further pages, to `page`.
pub(crate) fn save(ids: &[PageId], id: PageId, overflow: u32, page: &mut Vec<u8>) {
    let count = u16::try_from(ids.len()).unwrap_or(COUNT_ELSEWHERE);
    page.extend_from_slice(&Header { id, flags: FREELIST, count, overflow }.encode());
    let elsewhere = (count == COUNT_ELSEWHERE).then_some(ids.len() as u64);
    page.extend(elsewhere.iter().chain(ids).flat_map(|number| number.to_le_bytes()));
}

/// Decodes the list saved in a page.
pub(crate) fn load(header: Header, page: &[u8]) -> Result<Vec<PageId>, &'static str> {
    const BEYOND: &str = "freelist longer than its page";
    if header.flags != FREELIST {
        return Err("not a freelist page");
    }
    let (count, skip) = if header.count == COUNT_ELSEWHERE {
        let count = page.get(HEADER..HEADER + 8).ok_or(BEYOND)?;
        (usize::try_from(u64_at(count, 0)).map_err(|_| BEYOND)?, HEADER + 8)
    } else {
        (usize::from(header.count), HEADER)
    };
    let bytes = count.checked_mul(8).and_then(|len| page.get(skip..)?.get(..len)).ok_or(BEYOND)?;
    Ok(bytes.chunks_exact(8).map(|id| u64_at(id, 0)).collect())
}

/// A set of pages as a bitmap.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// Adds a page. Returns false if the set already has it.
    pub(crate) fn insert(&mut self, id: PageId) -> bool {
        let (word, bit) = Self::position(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let fresh = self.words[word] & bit == 0;
        self.words[word] |= bit;
        fresh
    }

    pub(crate) fn contains(&self, id: PageId) -> bool {
        let (word, bit) = Self::position(id);
        self.words.get(word).is_some_and(|found| found & bit != 0)
    }

    fn position(id: PageId) -> (usize, u64) {
        (usize::try_from(id / 64).expect("a page of a mapped file"), 1 << (id % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(runs: &[Run]) -> Freelist {
        let mut list = Freelist::default();
        for (start, len) in runs {
            list.add(*start, *len);
        }
        list
    }

    #[test]
    fn adjacent_runs_merge() {
        let list = list(&[(10, 2), (14, 1), (12, 2), (3, 1)]);
        assert_eq!(list.runs, BTreeMap::from([(3, 1), (10, 5)]));
        assert_eq!(list.free, 6);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_a_page_twice_panics() {
        list(&[(10, 3), (11, 1)]);
    }

    #[test]
    fn single_pages_come_from_the_lowest_run_and_longer_ones_from_the_best_fit() {
        let mut list = list(&[(3, 1), (10, 5), (20, 2)]);
        assert_eq!(list.allocate(2), Some(20), "the shortest run that fits");
        assert_eq!(list.allocate(1), Some(3));
        assert_eq!(list.allocate(1), Some(10));
        assert_eq!(list.allocate(4), Some(11));
        assert_eq!(list.allocate(1), None);
        assert_eq!(list.free, 0);
    }

    #[test]
    fn freed_pages_stay_pending_until_released() {
        let mut list = Freelist::default();
        list.free(5, vec![(7, 2)]);
        list.free(6, vec![(9, 1)]);
        assert_eq!((list.allocate(1), list.unused()), (None, 3));
        assert_eq!(list.unused_ids(), [7, 8, 9]);
        list.release(5, &[]);
        assert_eq!((list.allocate(2), list.allocate(1)), (Some(7), None));
        list.release(9, &[]);
        assert_eq!(list.allocate(1), Some(9));
    }

    #[test]
    fn a_reader_pins_only_the_pages_of_its_state() {
        let mut list = Freelist { written_since: 10, ..Freelist::default() };
        list.note_written(13, &[(30, 1)]);
        list.note_written(15, &[(50, 2)]);
        list.free(17, vec![(20, 1), (30, 1), (50, 2)]);
        list.release(17, &[14]);
        assert_eq!(
            (list.allocate(2), list.allocate(1)),
            (Some(50), None),
            "written after state 14"
        );
        assert_eq!(list.unused(), 2);
        list.release(18, &[14, 16]);
        assert_eq!(list.allocate(1), None);
        // CommittedState 16 has both pages as well, so releasing state 14 alone frees nothing.
        list.release(19, &[16]);
        assert_eq!(list.allocate(1), None);
        list.release(20, &[17]);
        assert_eq!((list.allocate(1), list.allocate(1)), (Some(20), Some(30)));
    }

    #[test]
    fn pages_neither_free_nor_pending_are_used() {
        let mut list = list(&[(4, 2), (9, 1)]);
        list.free(5, vec![(7, 1)]);
        assert_eq!(list.used_from(0, 12, 100), (vec![2, 3, 6, 8, 10, 11], 12));
        assert_eq!(list.used_from(0, 12, 3), (vec![2, 3, 6], 7));
        assert_eq!(list.used_from(7, 12, 1), (vec![8], 9));
        assert_eq!(list.used_from(12, 12, 5), (vec![], 12));
    }

    #[test]
    fn pages_outside_the_used_set_are_free() {
        let mut used = PageSet::default();
        for id in [2, 3, 6, 70] {
            assert!(used.insert(id));
            assert!(!used.insert(id));
        }
        let list = Freelist::from_used(&used, 80, 5);
        assert_eq!(list.runs, BTreeMap::from([(4, 2), (7, 63), (71, 9)]));
    }

    #[test]
    fn a_saved_list_of_any_length_loads() {
        for len in [0, 1, 0xfffe, 0xffff, 0x1_0001] {
            let ids: Vec<PageId> = (2..2 + len).collect();
            let mut page = Vec::new();
            save(&ids, 9, 0, &mut page);
            assert_eq!(page.len(), saved_size(ids.len()));
            let header = Header::decode(page.first_chunk().unwrap());
            assert_eq!(load(header, &page).unwrap(), ids);
        }
    }

    #[test]
    fn a_list_with_a_wrong_length_is_refused() {
        let mut page = Vec::new();
        save(&[2, 3], 9, 0, &mut page);
        let header = Header::decode(page.first_chunk().unwrap());
        assert!(load(Header { count: 7, ..header }, &page).is_err());
        assert!(load(Header { count: COUNT_ELSEWHERE, ..header }, &[0xff; 64]).is_err());
        assert!(load(Header { flags: 2, ..header }, &page).is_err());
    }
}
