//! An entry of the replicated log, and what it weighs.
//!
//! ```text
//! index   1        2        3
//! term    1        1        2
//! data    (empty)  "put a"  "put b"      an entry with no data opens each leader's term
//! ```
//!
//! Two weights count for different limits. The *payload* is the bytes somebody asked to store; it
//! bounds what a leader has accepted but not committed, and what is in flight. The *encoded size*
//! is what the entry takes inside a message; it bounds messages and batches of committed entries.

use bytes::Bytes;
use types::{Index, Term};

/// One entry of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The term of the leader that created the entry.
    pub term: Term,
    /// The position of the entry.
    pub index: Index,
    /// What `data` holds.
    pub kind: EntryType,
    /// Whether the type is written although it is normal, and so zero. It means nothing, but bytes shall
    /// stay what they were: up to 3.6 etcd writes it always, since then in one case only, the empty
    /// entry that takes the place of a refused change of membership.
    pub type_written: bool,
    /// The payload; shared, so that a clone costs a reference count.
    pub data: Bytes,
}

/// What the data of an entry means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryType {
    /// A request for the state machine. Empty in the entry that opens a term.
    #[default]
    Normal,
    /// A change of one member, in the older encoding.
    ConfChange,
    /// Any change of membership, also joint. Empty data leaves a joint configuration.
    ConfChangeV2,
}

impl EntryType {
    /// etcd's name for the type, as traces and tools print it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EntryType::Normal => "EntryNormal",
            EntryType::ConfChange => "EntryConfChange",
            EntryType::ConfChangeV2 => "EntryConfChangeV2",
        }
    }

    /// Whether the entry changes the configuration.
    #[must_use]
    pub fn is_conf_change(self) -> bool {
        self != EntryType::Normal
    }
}

/// Names an entry: two logs that hold the same id hold the same entries up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryId {
    /// The term of the entry.
    pub term: Term,
    /// The index of the entry.
    pub index: Index,
}

impl Entry {
    /// A proposal that has no position yet: the leader gives it term and index.
    #[must_use]
    pub fn normal(data: Bytes) -> Entry {
        Entry { data, ..Entry::default() }
    }

    /// An empty entry in place of a change of membership that may not be made.
    pub(crate) fn in_place_of_refused() -> Entry {
        Entry { type_written: true, ..Entry::default() }
    }

    /// The name of this entry.
    #[must_use]
    pub fn id(&self) -> EntryId {
        EntryId { term: self.term, index: self.index }
    }

    /// Bytes of payload.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.data.len() as u64
    }

    /// Bytes this entry takes as a protobuf message, as etcd encodes it: the data only where there is
    /// some, the type where it says something or was written before.
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

/// The payload of several entries.
#[must_use]
pub(crate) fn payload_bytes(entries: &[Entry]) -> u64 {
    entries.iter().map(Entry::payload_bytes).sum()
}

/// The encoded size of several entries.
#[must_use]
pub(crate) fn encoded_bytes(entries: &[Entry]) -> u64 {
    entries.iter().map(Entry::encoded_bytes).sum()
}

/// How many leading entries fit into `max_bytes` of encoded size: at least one if there is any, so
/// that an entry larger than every limit still gets through.
#[must_use]
pub(crate) fn fitting(entries: &[Entry], max_bytes: u64) -> usize {
    let mut total = 0u64;
    for (position, entry) in entries.iter().enumerate() {
        total = total.saturating_add(entry.encoded_bytes());
        if total > max_bytes && position > 0 {
            return position;
        }
    }
    entries.len()
}

/// Bytes of a base-128 varint: seven bits each, at least one byte.
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
        assert_eq!(fitting(&entries, 0), 1);
        assert_eq!(fitting(&entries, 2 * one - 1), 1);
        assert_eq!(fitting(&entries, 2 * one), 2);
        assert_eq!(fitting(&entries, u64::MAX), 3);
        assert_eq!(fitting(&[], 0), 0);
    }
}
