//! Entries of the replicated log, and their sizes.
//!
//! ```text
//! index   1        2        3
//! term    1        1        2
//! data    (empty)  "put a"  "put b"      an entry with no data opens each leader's term
//! ```
//!
//! Two sizes count against different limits. The *payload* is the proposed data; it limits the
//! uncommitted entries of a leader and the bytes in flight. The *encoded size* is the size of the
//! entry inside a message; it limits messages and batches of committed entries.

use bytes::Bytes;
use types::{Index, Term};

/// An entry of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The term of the leader that created the entry.
    pub term: Term,
    /// The position of the entry.
    pub index: Index,
    /// The meaning of `data`.
    pub kind: EntryType,
    /// Compat: as in etcd, whether the type is encoded although it is `Normal`, that is zero. It
    /// has no meaning, but re-encoding must preserve the bytes. etcd up to 3.6 always encodes it;
    /// 3.7 only does so in the empty entry that replaces a refused conf change.
    pub type_written: bool,
    /// The payload; shared, so that a clone costs a reference count.
    pub data: Bytes,
}

/// The meaning of the data of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryType {
    /// A request for the state machine. Empty in the first entry of a leader's term.
    #[default]
    Normal,
    /// A conf change of one member in the older encoding.
    ConfChange,
    /// A conf change of any number of members. Empty data leaves a joint configuration.
    ConfChangeV2,
}

impl EntryType {
    /// Returns etcd's name of the type, as traces and tools print it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EntryType::Normal => "EntryNormal",
            EntryType::ConfChange => "EntryConfChange",
            EntryType::ConfChangeV2 => "EntryConfChangeV2",
        }
    }

    /// Reports whether the entry changes the configuration.
    #[must_use]
    pub fn is_conf_change(self) -> bool {
        self != EntryType::Normal
    }
}

/// Identifies an entry. Two logs that contain the same id are equal up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryId {
    /// The term of the entry.
    pub term: Term,
    /// The index of the entry.
    pub index: Index,
}

impl Entry {
    /// Returns a proposal without a position; the leader assigns term and index.
    #[must_use]
    pub fn normal(data: Bytes) -> Entry {
        Entry { data, ..Entry::default() }
    }

    /// Returns the empty entry that replaces a refused conf change.
    pub(crate) fn refused_conf_change() -> Entry {
        Entry { type_written: true, ..Entry::default() }
    }

    /// Returns the id of this entry.
    #[must_use]
    pub fn id(&self) -> EntryId {
        EntryId { term: self.term, index: self.index }
    }

    /// Returns the size of the payload in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.data.len() as u64
    }

    /// Returns the encoded size in bytes, as etcd encodes the entry: with data only if there is
    /// some, and with the type only if it is not zero or was present before.
    #[must_use]
    pub fn encoded_bytes(&self) -> u64 {
        let kind = if self.kind.is_conf_change() || self.type_written { 2 } else { 0 };
        let data = match self.payload_bytes() {
            0 => 0,
            len => 1 + varint_bytes(len) + len,
        };
        kind + 1 + varint_bytes(self.term.0) + 1 + varint_bytes(self.index.0) + data
    }
}

/// Returns the payload bytes of several entries.
#[must_use]
pub(crate) fn payload_bytes(entries: &[Entry]) -> u64 {
    entries.iter().map(Entry::payload_bytes).sum()
}

/// Returns the encoded bytes of several entries.
#[must_use]
pub(crate) fn encoded_bytes(entries: &[Entry]) -> u64 {
    entries.iter().map(Entry::encoded_bytes).sum()
}

/// Returns the number of leading entries that fit into `max_bytes` of encoded size. Returns at
/// least one for a non-empty slice, so that an entry larger than every limit still gets through.
#[must_use]
pub(crate) fn fitting_count(entries: &[Entry], max_bytes: u64) -> usize {
    let mut total = 0u64;
    for (position, entry) in entries.iter().enumerate() {
        total = total.saturating_add(entry.encoded_bytes());
        if total > max_bytes && position > 0 {
            return position;
        }
    }
    entries.len()
}

/// Returns the length of a base-128 varint: seven bits per byte, at least one byte.
fn varint_bytes(value: u64) -> u64 {
    u64::from((63 - (value | 1).leading_zeros()) / 7 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_grow_every_seven_bits() {
        for (value, bytes) in
            [(0, 1), (1, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)]
        {
            assert_eq!(varint_bytes(value), bytes, "{value}");
        }
    }

    #[test]
    fn at_least_one_entry_fits() {
        let entries: Vec<Entry> = (1..=3)
            .map(|i| Entry { index: Index(i), ..Entry::normal(Bytes::from_static(b"0123456789")) })
            .collect();
        let one = entries[0].encoded_bytes();
        assert_eq!(fitting_count(&entries, 0), 1);
        assert_eq!(fitting_count(&entries, 2 * one - 1), 1);
        assert_eq!(fitting_count(&entries, 2 * one), 2);
        assert_eq!(fitting_count(&entries, u64::MAX), 3);
        assert_eq!(fitting_count(&[], 0), 0);
    }
}
