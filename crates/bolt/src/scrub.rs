//! Looking for bit rot: every page in use, compared with its checksum.
//!
//! A scrub goes through the file by page numbers, some at a time, and holds nothing in between: a state that is held keeps its pages from
//! being reused, and a round through a large file takes hours. Each step takes the newest state, notes which of the next pages it
//! uses and what is known of them, and then reads those, which the state keeps as they are meanwhile.

use std::sync::{Arc, PoisonError};

use crate::checksums::{Checksums, Known, Verdict};
use crate::db::Db;
use crate::error::Damaged;
use crate::page::PageId;
use crate::state::State;

/// A walk through the pages of a database, in steps, so that it can go on in the background. Nobody waits for it.
#[derive(Debug)]
pub struct Scrub<'db> {
    db: &'db Db,
    checksums: &'db Checksums,
    next: PageId,
    report: ScrubReport,
}

/// What a scrub has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Pages that are as they were written.
    pub verified: u64,
    /// Pages that were seen for the first time: from now on they are compared.
    pub learned: u64,
    /// Pages that are not as they were written.
    pub damaged: Vec<Damaged>,
}

/// Most damaged pages that are reported one by one.
const DAMAGED_MAX: usize = 1000;

const DIFFERS: &str = "differs from its checksum: the disk does not hold what was written";

/// Some pages in use, and the state that keeps them.
struct Portion {
    state: Arc<State>,
    ids: Vec<PageId>,
    next: PageId,
    known: Known,
}

impl Db {
    /// Begins to compare the pages in use with their checksums. None if the database keeps none
    /// ([`Options::checksums`](crate::Options::checksums)), or is only read.
    pub fn scrub(&self) -> Option<Scrub<'_>> {
        let checksums = self.checksums.as_ref().filter(|_| !self.options().read_only)?;
        Some(Scrub { db: self, checksums, next: 0, report: ScrubReport::default() })
    }
}

impl Scrub<'_> {
    /// Goes on for some pages. True while there are more.
    pub fn step(&mut self, pages: usize) -> bool {
        let mut portion = self.portion(pages);
        let page_size = portion.state.meta.page_size;
        let mut page = vec![0; page_size];
        for (index, id) in portion.ids.iter().enumerate() {
            // By reading, not through the map: there, a sector that cannot be read would end the process.
            if let Err(error) = portion.state.file.read_exact_at(&mut page, id * page_size as u64) {
                self.report.note(&portion.state, *id, format!("cannot be read: {error}"));
                continue;
            }
            match portion.known.verify(index, &page) {
                Verdict::Same => self.report.verified += 1,
                Verdict::New => self.report.learned += 1,
                Verdict::Differs => self.report.note(&portion.state, *id, DIFFERS.to_owned()),
            }
        }
        self.checksums.learn(&portion.ids, &portion.known);
        self.next = portion.next;
        self.next < portion.state.meta.high_water
    }

    /// Goes on to the end, and tells what was found.
    pub fn finish(mut self) -> ScrubReport {
        while self.step(usize::MAX) {}
        self.report
    }

    /// What was found so far.
    pub fn report(&self) -> &ScrubReport {
        &self.report
    }

    /// The next pages in use. While the writer is held, state, free pages and checksums belong together.
    fn portion(&self, pages: usize) -> Portion {
        let writer = self.db.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.db.state();
        let (ids, next) = writer.freelist.used_from(self.next, state.meta.high_water, pages);
        let known = self.checksums.known(&ids);
        Portion { state, ids, next, known }
    }
}

impl ScrubReport {
    fn note(&mut self, state: &State, id: PageId, reason: String) {
        if self.damaged.len() < DAMAGED_MAX {
            self.damaged.push(state.damaged(id, reason));
        }
    }
}
