//! A read reflects everything that was committed on any member when it was requested.
//!
//! This holds for reads that a quorum confirms. Lease-based reads depend on clocks and on members
//! that do not restart; for them only the converse is checked: no read is ahead of the commit
//! index.

use types::{Index, MemberId};

use super::{Check, Invariant, ensure};

/// The reads of a run, by number.
#[derive(Default)]
pub(crate) struct Reads {
    /// The commit index when each read was requested.
    asked: Vec<Index>,
}

impl Reads {
    /// Records a request and returns the number of the read.
    pub(crate) fn ask(&mut self, committed: Index) -> u64 {
        self.asked.push(committed);
        self.asked.len() as u64 - 1
    }

    /// Checks the read index of a read.
    pub(crate) fn answered(
        &self,
        member: MemberId,
        read: u64,
        index: Index,
        committed: Index,
        by_lease: bool,
    ) -> Check {
        let asked = usize::try_from(read).ok().and_then(|at| self.asked.get(at).copied());
        let Some(asked) = asked else {
            return ensure(false, Invariant::LinearizableReads, || {
                format!("{member} answers read {read}, which was never requested")
            });
        };
        ensure(by_lease || index >= asked, Invariant::LinearizableReads, || {
            format!("{member} may serve read {read} at {index}; {asked} was committed before it")
        })?;
        ensure(index <= committed, Invariant::LinearizableReads, || {
            format!("{member} may serve read {read} at {index}; only {committed} is committed")
        })
    }
}
