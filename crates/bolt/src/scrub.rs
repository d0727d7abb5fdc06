//! Looking for bit rot: every page in use, compared with its checksum.

use crate::checksums::Verdict;
use crate::db::Db;
use crate::error::Damaged;
use crate::freelist::PageSet;
use crate::page::{Page, PageId};
use crate::snapshot::{Snapshot, root};

/// A walk through the pages of one state, in steps, so that it can go on in the background.
#[derive(Debug)]
pub struct Scrub<'db> {
    db: &'db Db,
    snapshot: Snapshot,
    todo: Vec<PageId>,
    seen: PageSet,
    report: ScrubReport,
}

/// What a scrub has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Pages that are as they were written.
    pub verified: u64,
    /// Pages that were seen for the first time: from now on they are compared.
    pub learned: u64,
    /// Pages that are not as they were written, or that cannot be read at all.
    pub damaged: Vec<Damaged>,
}

/// Most damaged pages that are reported one by one.
const DAMAGED_MAX: usize = 1000;

impl Db {
    /// Begins to compare the pages of the newest state with their checksums. None if the database keeps none
    /// ([`Options::checksums`](crate::Options::checksums)).
    pub fn scrub(&self) -> Option<Scrub<'_>> {
        self.checksums.as_ref()?;
        let snapshot = self.snapshot();
        let todo = vec![snapshot.state.meta.root];
        Some(Scrub {
            db: self,
            snapshot,
            todo,
            seen: PageSet::default(),
            report: ScrubReport::default(),
        })
    }
}

impl Scrub<'_> {
    /// Goes on for some pages. True while there are more.
    pub fn step(&mut self, pages: usize) -> bool {
        for _ in 0..pages {
            let Some(id) = self.todo.pop() else { return false };
            if let Err(damaged) = self.look_at(id)
                && self.report.damaged.len() < DAMAGED_MAX
            {
                self.report.damaged.push(damaged);
            }
        }
        !self.todo.is_empty()
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

    fn look_at(&mut self, id: PageId) -> Result<(), Damaged> {
        let state = &self.snapshot.state;
        if !self.seen.insert(id.min(state.meta.high_water)) {
            return Err(state.damaged(id, "reached twice"));
        }
        // The checksum first: a page that is not what was written need not be understood.
        let (_, bytes) = state.raw(id).map_err(|reason| state.damaged(id, reason))?;
        let page = state.page(id)?;
        let checksums = self.db.checksums.as_ref().expect("a scrub is only begun with checksums");
        for (at, part) in (id..).zip(bytes.chunks_exact(state.meta.page_size)) {
            match checksums.verify(at, part) {
                Verdict::Same => self.report.verified += 1,
                Verdict::Learned => self.report.learned += 1,
                Verdict::Differs => {
                    return Err(state.damaged(
                        at,
                        "differs from its checksum: the disk does not hold what was written",
                    ));
                }
            }
        }
        push_below(&self.snapshot, &page, &mut self.todo)
    }
}

/// The pages that a page leads to.
fn push_below(snapshot: &Snapshot, page: &Page<'_>, todo: &mut Vec<PageId>) -> Result<(), Damaged> {
    let state = &snapshot.state;
    let named = |reason| state.damaged(page.id, reason);
    for index in 0..page.count() {
        if !page.is_leaf {
            todo.push(page.child(index).map_err(named)?);
        } else if page.is_bucket(index).map_err(named)? {
            let element = page.leaf_element(index).map_err(named)?;
            let inner = root(state).inner(element)?;
            todo.extend(Some(inner.root_page()).filter(|id| *id != 0));
        }
    }
    Ok(())
}
