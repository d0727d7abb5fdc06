//! Positions in the replicated log.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A term of leadership: at most one leader each, never going back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// A position in the log. The first entry has index 1; index 0 lies before the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u64);

impl Term {
    /// Before any election.
    pub const ZERO: Term = Term(0);

    /// The term after this one.
    ///
    /// # Panics
    ///
    /// At the last term. A member that really ran 2^64 elections has other worries; one that was
    /// told of such a term by a peer must refuse the message before it gets here.
    #[must_use]
    pub fn next(self) -> Term {
        Term(self.0.checked_add(1).expect("terms are refused before they reach the last one"))
    }
}

impl Index {
    /// Before the first entry.
    pub const ZERO: Index = Index(0);
    /// Past every entry that could exist.
    pub const MAX: Index = Index(u64::MAX);

    /// The index after this one.
    #[must_use]
    pub fn next(self) -> Index {
        self + 1
    }

    /// The index before this one, or zero at zero.
    #[must_use]
    pub fn prev(self) -> Index {
        Index(self.0.saturating_sub(1))
    }
}

impl Add<u64> for Index {
    type Output = Index;

    fn add(self, entries: u64) -> Index {
        Index(self.0.checked_add(entries).expect("indexes are refused before they overflow"))
    }
}

impl AddAssign<u64> for Index {
    fn add_assign(&mut self, entries: u64) {
        *self = *self + entries;
    }
}

/// The number of entries from one position to a later one.
impl Sub for Index {
    type Output = u64;

    fn sub(self, earlier: Index) -> u64 {
        self.0.checked_sub(earlier.0).expect("distance is taken from the earlier index")
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
    fn steps_and_distances() {
        assert_eq!(Index(4).next(), Index(5));
        assert_eq!(Index(4).prev(), Index(3));
        assert_eq!(Index::ZERO.prev(), Index::ZERO);
        assert_eq!(Index(9) - Index(4), 5);
        assert_eq!(Term(4).next(), Term(5));
    }

    #[test]
    #[should_panic(expected = "earlier index")]
    fn a_distance_backwards_is_a_bug() {
        let _ = Index(4) - Index(9);
    }
}
