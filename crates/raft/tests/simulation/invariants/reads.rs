//! A read sees everything that was committed, anywhere, when it was asked for.
//!
//! Holds for reads that are confirmed by a quorum. Reads by lease rest on clocks and on members that do not
//! restart; for those only the other half is checked: nobody reads the future.

use types::{Index, MemberId};

use super::{Check, Invariant, ensure};

/// The reads of a run, by number.
#[derive(Default)]
pub(crate) struct Reads {
    /// What was committed anywhere when each read was asked for.
    asked: Vec<Index>,
}

impl Reads {
    /// Somebody asks. Gives the number of the read.
    pub(crate) fn ask(&mut self, committed: Index) -> u64 {
        self.asked.push(committed);
        self.asked.len() as u64 - 1
    }

    /// A read may be served from this index on.
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
                format!("{member} answers read {read}, which nobody asked for")
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
