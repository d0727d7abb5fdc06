//! Positions in the history of the keys.

use std::fmt;

/// One change of one key: the `sub`-th of the transaction that made the store's revision `main`.
///
/// Signed as on the wire, and never negative: what comes from outside is refused before it becomes one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// The revision of the store, the same for all changes of a transaction.
    pub main: i64,
    /// Which of them this is, from zero.
    pub sub: i64,
}

impl Revision {
    /// Before every change.
    pub const ZERO: Revision = Revision { main: 0, sub: 0 };

    /// The `sub`-th change of the transaction at `main`.
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
    fn order_is_by_transaction_then_by_change() {
        assert!(Revision::new(2, 9) < Revision::new(3, 0));
        assert!(Revision::new(3, 0) < Revision::new(3, 1));
        assert_eq!(Revision::new(3, 1).to_string(), "3.1");
    }
}
