//! Which pages are free, and when a page that was given up becomes free.
//!
//! ```text
//!  runs of free pages        [4..9) [12..13) [80..200)
//!  given up by transaction    17: 40 41   18: 12     19: 13 14
//! ```
//!
//! A page written by transaction 15 and given up by transaction 19 belongs to the states 15 to 18. It becomes free when none of these is
//! read any more and another commit has followed, so that neither meta page leads to it. A reader of state 12 does not hold it up. (bbolt
//! reuses it one commit earlier; then the older meta page may lead into pages that were written over, and a damaged newer one cannot be
//! survived.)

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::page::{FREELIST, HEADER, Header, PageId, u64_at};

/// Pages in a row, from the first for a number of them.
pub(crate) type Run = (PageId, u64);

#[derive(Debug, Default)]
pub(crate) struct Freelist {
    /// Runs of free pages by their start, never touching each other.
    runs: BTreeMap<PageId, u64>,
    /// The same by length.
    by_len: BTreeSet<(u64, PageId)>,
    /// Pages in the runs.
    free: u64,
    /// Runs given up, by transaction, oldest first.
    pending: VecDeque<(u64, Vec<Run>)>,
    /// Runs that some reader holds up: given up by a transaction that neither meta page knows.
    held_up: Vec<(u64, Run)>,
    /// Pages in both.
    pending_pages: u64,
    /// The states that were read when it was last seen what they hold up, in order.
    readers: Vec<u64>,
    /// The transaction that wrote each page, counted from `born_from`; zero for those that were there before, or long ago.
    born: Vec<u32>,
    born_from: u64,
}

impl Freelist {
    /// All pages of a file but those in use, by a bit for each. `txid` is the file's newest transaction.
    pub(crate) fn from_used(used: &PageSet, high_water: PageId, txid: u64) -> Freelist {
        let mut list = Freelist { born_from: txid, ..Freelist::default() };
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

    /// Takes pages in a row.
    pub(crate) fn allocate(&mut self, pages: u64) -> Option<PageId> {
        // Single pages come from the front, one behind the other, so that they are written in one go. Longer runs take
        // the shortest that is long enough.
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

    /// Notes what a transaction gave up. Transactions come in order.
    pub(crate) fn give_up(&mut self, txid: u64, runs: Vec<Run>) {
        self.pending_pages += runs.iter().map(|(_, len)| len).sum::<u64>();
        if !runs.is_empty() {
            self.pending.push_back((txid, runs));
        }
    }

    /// Notes which pages a transaction has written.
    pub(crate) fn note_born(&mut self, txid: u64, runs: &[Run]) {
        let born = u32::try_from(txid - self.born_from).unwrap_or_default();
        for (start, len) in runs {
            let end = usize::try_from(start + len).expect("pages of a mapped file");
            if end > self.born.len() {
                self.born.resize(end, 0);
            }
            let start = usize::try_from(*start).expect("before the end");
            self.born[start..end].fill(born);
        }
    }

    /// Frees what was given up by transactions up to this one, unless one of the states that are read, in order, needs it.
    pub(crate) fn release(&mut self, txid: u64, readers: &[u64]) {
        // What is held up stays so until one of the readers has gone; new ones need none of it.
        let mut candidates = Vec::new();
        if self.readers.iter().any(|reader| readers.binary_search(reader).is_err()) {
            candidates = std::mem::take(&mut self.held_up);
        }
        self.readers = readers.to_vec();
        while self.pending.front().is_some_and(|(by, _)| *by <= txid) {
            let (by, runs) = self.pending.pop_front().expect("was just looked at");
            candidates.extend(runs.into_iter().map(|run| (by, run)));
        }
        for (by, run) in candidates {
            // The first state that is read among those that may have it.
            let first = readers.partition_point(|reader| *reader < self.born_of(run.0));
            if readers.get(first).is_some_and(|reader| *reader < by) {
                self.held_up.push((by, run));
            } else {
                self.pending_pages -= run.1;
                self.add(run.0, run.1);
            }
        }
    }

    /// The first state that may have a page.
    fn born_of(&self, id: PageId) -> u64 {
        let born = usize::try_from(id).ok().and_then(|id| self.born.get(id).copied()).unwrap_or(0);
        if born == 0 { 0 } else { self.born_from + u64::from(born) }
    }

    /// All that was given up and is not free yet.
    fn given_up(&self) -> impl Iterator<Item = Run> {
        let waiting = self.pending.iter().flat_map(|(_, runs)| runs.iter().copied());
        waiting.chain(self.held_up.iter().map(|(_, run)| *run))
    }

    /// Pages that hold nothing of the newest state.
    pub(crate) fn unused(&self) -> u64 {
        self.free + self.pending_pages
    }

    /// All of these pages, in order.
    pub(crate) fn unused_ids(&self) -> Vec<PageId> {
        let free = self.runs.iter().map(|(start, len)| (*start, *len));
        let mut runs: Vec<Run> = free.chain(self.given_up()).collect();
        runs.sort_unstable();
        runs.into_iter().flat_map(|(start, len)| start..start + len).collect()
    }

    /// Up to so many pages, from one on, that hold something of the newest state; and where to go on after them.
    pub(crate) fn used_from(
        &self,
        from: PageId,
        high_water: PageId,
        most: usize,
    ) -> (Vec<PageId>, PageId) {
        let mut given_up = PageSet::default();
        for id in self.given_up().flat_map(|(start, len)| start..start + len) {
            given_up.insert(id);
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
            if !given_up.contains(id) {
                used.push(id);
            }
            id += 1;
        }
        (used, id)
    }

    /// Puts a run back, joined with its neighbours.
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

/// In the header's count: the real one is the first number of the page.
const COUNT_ELSEWHERE: u16 = 0xffff;

/// Bytes that a saved list takes.
pub(crate) fn saved_size(ids: usize) -> usize {
    HEADER + 8 * (ids + usize::from(ids >= usize::from(COUNT_ELSEWHERE)))
}

/// Appends a list as it is saved in a page with so many further ones.
pub(crate) fn save(ids: &[PageId], id: PageId, overflow: u32, page: &mut Vec<u8>) {
    let count = u16::try_from(ids.len()).unwrap_or(COUNT_ELSEWHERE);
    page.extend_from_slice(&Header { id, flags: FREELIST, count, overflow }.encode());
    let elsewhere = (count == COUNT_ELSEWHERE).then_some(ids.len() as u64);
    page.extend(elsewhere.iter().chain(ids).flat_map(|number| number.to_le_bytes()));
}

/// The list saved in a page.
pub(crate) fn load(header: Header, page: &[u8]) -> Result<Vec<PageId>, &'static str> {
    const BEYOND: &str = "a list of free pages beyond its page";
    if header.flags != FREELIST {
        return Err("not a list of free pages");
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

/// A set of pages, a bit for each.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// Adds a page; false if it was there.
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
    fn neighbours_join() {
        let list = list(&[(10, 2), (14, 1), (12, 2), (3, 1)]);
        assert_eq!(list.runs, BTreeMap::from([(3, 1), (10, 5)]));
        assert_eq!(list.free, 6);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_page_is_freed_once() {
        list(&[(10, 3), (11, 1)]);
    }

    #[test]
    fn single_pages_come_from_the_front_and_runs_fit() {
        let mut list = list(&[(3, 1), (10, 5), (20, 2)]);
        assert_eq!(list.allocate(2), Some(20), "the shortest that fits");
        assert_eq!(list.allocate(1), Some(3));
        assert_eq!(list.allocate(1), Some(10));
        assert_eq!(list.allocate(4), Some(11));
        assert_eq!(list.allocate(1), None);
        assert_eq!(list.free, 0);
    }

    #[test]
    fn what_was_given_up_waits() {
        let mut list = Freelist::default();
        list.give_up(5, vec![(7, 2)]);
        list.give_up(6, vec![(9, 1)]);
        assert_eq!((list.allocate(1), list.unused()), (None, 3));
        assert_eq!(list.unused_ids(), [7, 8, 9]);
        list.release(5, &[]);
        assert_eq!((list.allocate(2), list.allocate(1)), (Some(7), None));
        list.release(9, &[]);
        assert_eq!(list.allocate(1), Some(9));
    }

    #[test]
    fn a_reader_holds_up_what_its_state_has_and_nothing_else() {
        let mut list = Freelist { born_from: 10, ..Freelist::default() };
        list.note_born(13, &[(30, 1)]);
        list.note_born(15, &[(50, 2)]);
        list.give_up(17, vec![(20, 1), (30, 1), (50, 2)]);
        list.release(17, &[14]);
        assert_eq!(
            (list.allocate(2), list.allocate(1)),
            (Some(50), None),
            "written after state 14"
        );
        assert_eq!(list.unused(), 2);
        list.release(18, &[14, 16]);
        assert_eq!(list.allocate(1), None);
        // State 16 has both as well; with 14 alone gone, nothing changes.
        list.release(19, &[16]);
        assert_eq!(list.allocate(1), None);
        list.release(20, &[17]);
        assert_eq!((list.allocate(1), list.allocate(1)), (Some(20), Some(30)));
    }

    #[test]
    fn what_is_neither_free_nor_given_up_is_used() {
        let mut list = list(&[(4, 2), (9, 1)]);
        list.give_up(5, vec![(7, 1)]);
        assert_eq!(list.used_from(0, 12, 100), (vec![2, 3, 6, 8, 10, 11], 12));
        assert_eq!(list.used_from(0, 12, 3), (vec![2, 3, 6], 7));
        assert_eq!(list.used_from(7, 12, 1), (vec![8], 9));
        assert_eq!(list.used_from(12, 12, 5), (vec![], 12));
    }

    #[test]
    fn the_rest_of_a_file_is_free() {
        let mut used = PageSet::default();
        for id in [2, 3, 6, 70] {
            assert!(used.insert(id));
            assert!(!used.insert(id));
        }
        let list = Freelist::from_used(&used, 80, 5);
        assert_eq!(list.runs, BTreeMap::from([(4, 2), (7, 63), (71, 9)]));
    }

    #[test]
    fn a_saved_list_is_loaded_at_any_length() {
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
    fn a_list_that_lies_about_its_length_is_refused() {
        let mut page = Vec::new();
        save(&[2, 3], 9, 0, &mut page);
        let header = Header::decode(page.first_chunk().unwrap());
        assert!(load(Header { count: 7, ..header }, &page).is_err());
        assert!(load(Header { count: COUNT_ELSEWHERE, ..header }, &[0xff; 64]).is_err());
        assert!(load(Header { flags: 2, ..header }, &page).is_err());
    }
}
