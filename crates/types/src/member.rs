//! The id of a member.

use std::fmt;

/// Identifies one member of a cluster.
///
/// On the wire and in files zero means no member (no leader, no vote). In the code that absence is
/// an `Option`; [`MemberId::from_wire`] and [`MemberId::to_wire`] convert.
///
/// Printed in lower-case hexadecimal, as etcd prints member ids everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl MemberId {
    /// Reads an id in which zero means none.
    #[must_use]
    pub fn from_wire(raw: u64) -> Option<MemberId> {
        (raw != 0).then_some(MemberId(raw))
    }

    /// Writes an id, or zero for none.
    #[must_use]
    pub fn to_wire(id: Option<MemberId>) -> u64 {
        id.map_or(0, |id| id.0)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_no_member() {
        assert_eq!(MemberId::from_wire(0), None);
        assert_eq!(MemberId::from_wire(7), Some(MemberId(7)));
        assert_eq!(MemberId::to_wire(None), 0);
        assert_eq!(MemberId::to_wire(Some(MemberId(7))), 7);
    }

    #[test]
    fn member_ids_print_as_hexadecimal() {
        assert_eq!(MemberId(0x8e9e_05c5_2164_694d).to_string(), "8e9e05c52164694d");
    }
}
