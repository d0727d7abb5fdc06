//! Scrub: detects bit rot by comparing every used page with its checksum.
//!
//! A scrub walks the file in page order, a few pages at a time, and pins no state in between: a
//! pinned state keeps its pages from being reused, and a pass over a large file takes hours. Each
//! step takes the newest state, looks up which of the next pages it uses and their checksums, and
//! reads those pages, which the state keeps unchanged meanwhile.

use std::sync::{Arc, PoisonError};

use crate::checksums::{Checksums, KnownSums, SumVerdict};
use crate::db::Db;
use crate::error::CorruptPage;
use crate::page::PageId;
use crate::state::CommittedState;

/// A pass over all used pages of a database, in steps, so that it can run in the background without
/// blocking readers or writers.
#[derive(Debug)]
pub struct Scrub<'db> {
    db: &'db Db,
    checksums: &'db Checksums,
    next: PageId,
    report: ScrubReport,
}

/// The findings of a scrub so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Pages that match their checksum.
    pub verified: u64,
    /// Pages without a known checksum; the scrub recorded one for the next pass.
    pub learned: u64,
    /// Pages that do not match their checksum, or cannot be read.
    pub corrupt: Vec<CorruptPage>,
}

/// Maximum number of corrupt pages reported individually.
const DAMAGED_MAX: usize = 1000;

const MISMATCH: &str = "page checksum mismatch: the disk does not hold what was written";

/// The used pages of one step, and the state that pins them.
struct ScrubBatch {
    state: Arc<CommittedState>,
    ids: Vec<PageId>,
    next: PageId,
    known: KnownSums,
}

impl Db {
    /// Starts a pass over the used pages. Returns `None` if the database keeps no checksums
    /// ([`Options::checksums`](crate::Options::checksums)) or is read-only.
    pub fn scrub(&self) -> Option<Scrub<'_>> {
        let checksums = self.checksums.as_ref().filter(|_| !self.options().read_only)?;
        Some(Scrub { db: self, checksums, next: 0, report: ScrubReport::default() })
    }
}

impl Scrub<'_> {
    /// Verifies the next `pages` used pages. Returns true while more remain.
    pub fn step(&mut self, pages: usize) -> bool {
        let mut batch = self.batch(pages);
        let page_size = batch.state.meta.page_size;
        let mut page = vec![0; page_size];
        for (index, id) in batch.ids.iter().enumerate() {
            // Reads instead of using the map: an unreadable sector would raise a signal there and
            // end the process.
            if let Err(error) = batch.state.file.read_exact_at(&mut page, id * page_size as u64) {
                self.report.note(&batch.state, *id, format!("cannot be read: {error}"));
                continue;
            }
            match batch.known.verify(index, &page) {
                SumVerdict::Matches => self.report.verified += 1,
                SumVerdict::Unknown => self.report.learned += 1,
                SumVerdict::Mismatch => self.report.note(&batch.state, *id, MISMATCH.to_owned()),
            }
        }
        self.checksums.learn(&batch.ids, &batch.known);
        self.next = batch.next;
        self.next < batch.state.meta.high_water
    }

    /// Runs to the end and returns the findings.
    pub fn finish(mut self) -> ScrubReport {
        while self.step(usize::MAX) {}
        self.report
    }

    /// The findings so far.
    pub fn report(&self) -> &ScrubReport {
        &self.report
    }

    /// Selects the pages of the next step. The writer lock makes state, freelist and checksums
    /// consistent with each other.
    fn batch(&self, pages: usize) -> ScrubBatch {
        // Works on a poisoned lock too: a file that refuses writes is still read, so bit rot in it
        // still matters. A transaction that panicked changed only its own memory. If it panicked in
        // `commit`, the freelist may lack pages that it took, and those are checked needlessly.
        let writer = self.db.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.db.state();
        let (ids, next) = writer.freelist.used_from(self.next, state.meta.high_water, pages);
        let known = self.checksums.known(&ids);
        ScrubBatch { state, ids, next, known }
    }
}

impl ScrubReport {
    fn note(&mut self, state: &CommittedState, id: PageId, reason: String) {
        if self.corrupt.len() < DAMAGED_MAX {
            self.corrupt.push(state.corrupt(id, reason));
        }
    }
}
