//! The id of a lease.

use std::fmt;

/// Identifies a lease. Zero means no lease: a key with lease 0 is not attached to any.
///
/// Printed as etcd prints it, 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl LeaseId {
    /// Reads an id in which zero means none.
    #[must_use]
    pub fn from_wire(raw: i64) -> Option<LeaseId> {
        (raw != 0).then_some(LeaseId(raw))
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ids_print_as_sixteen_hex_digits() {
        assert_eq!(LeaseId(0x694d_81bd_3c5e).to_string(), "0000694d81bd3c5e");
        assert_eq!(LeaseId::from_wire(0), None);
        assert_eq!(LeaseId::from_wire(-1), Some(LeaseId(-1)));
    }
}
