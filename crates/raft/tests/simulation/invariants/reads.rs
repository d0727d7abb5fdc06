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
    committed_before: Vec<Index>,
}

impl Reads {
    /// Records a request and returns the number of the read.
    pub(crate) fn request(&mut self, committed: Index) -> u64 {
        self.committed_before.push(committed);
        self.committed_before.len() as u64 - 1
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
        let committed_before =
            usize::try_from(read).ok().and_then(|at| self.committed_before.get(at).copied());
        let Some(committed_before) = committed_before else {
            return ensure(false, Invariant::LinearizableReads, || {
                format!("{member} answers read {read}, which was never requested")
            });
        };
        ensure(by_lease || index >= committed_before, Invariant::LinearizableReads, || {
            format!(
                "{member} may serve read {read} at {index}; {committed_before} was committed before it"
            )
        })?;
        ensure(index <= committed, Invariant::LinearizableReads, || {
            format!("{member} may serve read {read} at {index}; only {committed} is committed")
        })
    }
}
