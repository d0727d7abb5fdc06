//! Keys of the bucket `key`.
//!
//! ```text
//!   0                8     9               17    18
//!   +----------------+-----+----------------+-----+
//!   | main revision  | `_` | sub revision   | `t` |     big-endian, so that byte order is revision order;
//!   +----------------+-----+----------------+-----+     the mark only where the change is a deletion: a tombstone
//!   0000000000000004  5f    0000000000000000  74        delete@4
//! ```

use bytes::Bytes;
use types::Revision;

/// Bytes of a revision.
pub const REVISION_BYTES: usize = 17;
/// Bytes of a revision that is marked as a tombstone.
pub const TOMBSTONE_BYTES: usize = 18;

const SEPARATOR: u8 = b'_';
const TOMBSTONE: u8 = b't';

/// A key of the bucket `key`: which change, and whether it was a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionKey {
    /// Which change.
    pub revision: Revision,
    /// Whether it deleted the key.
    pub tombstone: bool,
}

/// Why bytes are no revision. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotARevision {
    /// Neither 17 nor 18 bytes.
    #[error("invalid revision length: {0}")]
    Length(usize),
    /// Something else between the numbers.
    #[error("invalid separator in bucket key: {:?}", char::from(*.0))]
    Separator(u8),
    /// A number with its top bit set.
    #[error("negative revision: main={main} sub={sub}")]
    Negative {
        /// The first number.
        main: i64,
        /// The second.
        sub: i64,
    },
}

impl RevisionKey {
    /// The key of a put.
    #[must_use]
    pub fn put(revision: Revision) -> RevisionKey {
        RevisionKey { revision, tombstone: false }
    }

    /// The key of a deletion.
    #[must_use]
    pub fn tombstone(revision: Revision) -> RevisionKey {
        RevisionKey { revision, tombstone: true }
    }

    /// The bytes in the file.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let mut marked = [TOMBSTONE; TOMBSTONE_BYTES];
        marked[..REVISION_BYTES].copy_from_slice(&encode(self.revision));
        let len = if self.tombstone { TOMBSTONE_BYTES } else { REVISION_BYTES };
        Bytes::copy_from_slice(&marked[..len])
    }

    /// Reads a key of the file.
    ///
    /// Compat: as in etcd, an 18th byte that is no `t` is accepted and marks nothing.
    pub fn decode(bytes: &[u8]) -> Result<RevisionKey, NotARevision> {
        if bytes.len() != REVISION_BYTES && bytes.len() != TOMBSTONE_BYTES {
            return Err(NotARevision::Length(bytes.len()));
        }
        if bytes[8] != SEPARATOR {
            return Err(NotARevision::Separator(bytes[8]));
        }
        let number = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("the length was just seen to");
            i64::from_be_bytes(*bytes)
        };
        let (main, sub) = (number(0), number(9));
        if main < 0 || sub < 0 {
            return Err(NotARevision::Negative { main, sub });
        }
        let tombstone = bytes.get(REVISION_BYTES) == Some(&TOMBSTONE);
        Ok(RevisionKey { revision: Revision { main, sub }, tombstone })
    }
}

/// A revision without a mark: where a range begins, and the value of the compaction keys in `meta`.
#[must_use]
pub fn encode(revision: Revision) -> [u8; REVISION_BYTES] {
    let mut bytes = [SEPARATOR; REVISION_BYTES];
    bytes[..8].copy_from_slice(&revision.main.to_be_bytes());
    bytes[9..].copy_from_slice(&revision.sub.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_drawn() {
        let put = RevisionKey::put(Revision::new(4, 1));
        assert_eq!(&put.encode()[..], b"\0\0\0\0\0\0\0\x04_\0\0\0\0\0\0\0\x01");
        let tombstone = RevisionKey::tombstone(Revision::new(4, 1));
        assert_eq!(&tombstone.encode()[..], b"\0\0\0\0\0\0\0\x04_\0\0\0\0\0\0\0\x01t");
        for key in [put, tombstone] {
            assert_eq!(RevisionKey::decode(&key.encode()), Ok(key));
        }
    }

    #[test]
    fn byte_order_is_revision_order() {
        let revisions =
            [(0, 0), (1, 0), (1, 1), (1, 256), (2, 0), (255, 9), (256, 0), (i64::MAX, 0)];
        let keys = revisions.map(|(main, sub)| RevisionKey::put(Revision::new(main, sub)).encode());
        assert!(keys.is_sorted());
    }

    #[test]
    fn what_is_no_revision_is_refused_in_etcds_words() {
        let refused = |bytes: &[u8]| RevisionKey::decode(bytes).unwrap_err().to_string();
        assert_eq!(refused(b"short"), "invalid revision length: 5");
        assert_eq!(refused(b"0123456789abcdef0"), "invalid separator in bucket key: '8'");
        let negative = encode(Revision { main: -1, sub: 2 });
        assert_eq!(refused(&negative), "negative revision: main=-1 sub=2");
    }

    #[test]
    fn another_mark_marks_nothing() {
        let mut bytes = RevisionKey::tombstone(Revision::new(4, 0)).encode().to_vec();
        bytes[REVISION_BYTES] = b'x';
        assert!(!RevisionKey::decode(&bytes).unwrap().tombstone);
    }
}
