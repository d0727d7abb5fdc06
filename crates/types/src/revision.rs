//! Positions in the history of the store.

use std::fmt;

/// The revision of one change: the `sub`-th change of the transaction with store revision `main`.
///
/// Signed as on the wire, and never negative: input is validated before it becomes a `Revision`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// The revision of the store, equal for all changes of a transaction.
    pub main: i64,
    /// The position of the change in its transaction, from zero.
    pub sub: i64,
}

impl Revision {
    /// The revision before every change.
    pub const ZERO: Revision = Revision { main: 0, sub: 0 };

    /// Returns the revision of the `sub`-th change of the transaction at `main`.
    #[must_use]
    pub const fn new(main: i64, sub: i64) -> Revision {
        Revision { main, sub }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.main, self.sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_ordered_by_main_then_sub() {
        assert!(Revision::new(2, 9) < Revision::new(3, 0));
        assert!(Revision::new(3, 0) < Revision::new(3, 1));
        assert_eq!(Revision::new(3, 1).to_string(), "3.1");
    }
}
