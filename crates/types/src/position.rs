//! Positions in the replicated log.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A Raft term: at most one leader each, never decreasing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// A position in the log. The first entry has index 1; index 0 is before the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u64);

impl Term {
    /// The term before any election.
    pub const ZERO: Term = Term(0);

    /// Returns the next term.
    ///
    /// # Panics
    ///
    /// Panics at the last term. Messages with such terms are refused before they get here, and no
    /// cluster holds 2^64 elections.
    #[must_use]
    pub fn next(self) -> Term {
        Term(self.0.checked_add(1).expect("terms are bounded by message validation"))
    }
}

impl Index {
    /// The position before the first entry.
    pub const ZERO: Index = Index(0);
    /// The position after every possible entry.
    pub const MAX: Index = Index(u64::MAX);

    /// Returns the next index.
    #[must_use]
    pub fn next(self) -> Index {
        self + 1
    }

    /// Returns the previous index, or zero at zero.
    #[must_use]
    pub fn prev(self) -> Index {
        Index(self.0.saturating_sub(1))
    }
}

impl Add<u64> for Index {
    type Output = Index;

    fn add(self, entries: u64) -> Index {
        Index(self.0.checked_add(entries).expect("indexes are bounded by message validation"))
    }
}

impl AddAssign<u64> for Index {
    fn add_assign(&mut self, entries: u64) {
        *self = *self + entries;
    }
}

/// The number of entries from an earlier position to this one.
impl Sub for Index {
    type Output = u64;

    fn sub(self, earlier: Index) -> u64 {
        self.0.checked_sub(earlier.0).expect("a distance is computed from the earlier index")
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_step_and_subtract() {
        assert_eq!(Index(4).next(), Index(5));
        assert_eq!(Index(4).prev(), Index(3));
        assert_eq!(Index::ZERO.prev(), Index::ZERO);
        assert_eq!(Index(9) - Index(4), 5);
        assert_eq!(Term(4).next(), Term(5));
    }

    #[test]
    #[should_panic(expected = "earlier index")]
    fn a_negative_distance_panics() {
        let _ = Index(4) - Index(9);
    }
}
