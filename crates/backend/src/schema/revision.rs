//! Keys of the bucket `key`: revisions.
//!
//! ```text
//!   0                8     9               17    18
//!   +----------------+-----+----------------+-----+
//!   | main revision  | `_` | sub revision   | `t` |     big-endian: byte order is revision order;
//!   +----------------+-----+----------------+-----+     the `t` marks a tombstone
//!   0000000000000004  5f    0000000000000000  74        delete@4
//! ```

use bytes::Bytes;
use types::Revision;

/// Size of an encoded revision, in bytes.
pub const REVISION_BYTES: usize = 17;
/// Size of an encoded tombstone, in bytes.
pub const TOMBSTONE_BYTES: usize = 18;

const SEPARATOR: u8 = b'_';
const TOMBSTONE: u8 = b't';

/// A key of the bucket `key`: the revision of a change, and whether it is a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionKey {
    /// The revision of the change.
    pub revision: Revision,
    /// The change deletes the key.
    pub tombstone: bool,
}

/// Error of bytes that are not a revision. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRevision {
    /// The length is neither 17 nor 18 bytes.
    #[error("invalid revision length: {0}")]
    Length(usize),
    /// The separator is wrong.
    #[error("invalid separator in bucket key: {:?}", char::from(*.0))]
    Separator(u8),
    /// A number is negative.
    #[error("negative revision: main={main} sub={sub}")]
    Negative {
        /// The main revision.
        main: i64,
        /// The sub revision.
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

    /// Encodes the key.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let mut marked = [TOMBSTONE; TOMBSTONE_BYTES];
        marked[..REVISION_BYTES].copy_from_slice(&encode(self.revision));
        let len = if self.tombstone { TOMBSTONE_BYTES } else { REVISION_BYTES };
        Bytes::copy_from_slice(&marked[..len])
    }

    /// Decodes a key.
    ///
    /// Compat: as in etcd, an 18th byte other than `t` is accepted and ignored.
    pub fn decode(bytes: &[u8]) -> Result<RevisionKey, InvalidRevision> {
        if bytes.len() != REVISION_BYTES && bytes.len() != TOMBSTONE_BYTES {
            return Err(InvalidRevision::Length(bytes.len()));
        }
        if bytes[8] != SEPARATOR {
            return Err(InvalidRevision::Separator(bytes[8]));
        }
        let number = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("the length was checked");
            i64::from_be_bytes(*bytes)
        };
        let (main, sub) = (number(0), number(9));
        if main < 0 || sub < 0 {
            return Err(InvalidRevision::Negative { main, sub });
        }
        let tombstone = bytes.get(REVISION_BYTES) == Some(&TOMBSTONE);
        Ok(RevisionKey { revision: Revision { main, sub }, tombstone })
    }
}

/// Encodes a revision without a tombstone mark: the start of a range, or the value of a compaction
/// key in `meta`.
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
    fn keys_have_the_documented_encoding() {
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
    fn invalid_revisions_are_refused_with_etcds_texts() {
        let refused = |bytes: &[u8]| RevisionKey::decode(bytes).unwrap_err().to_string();
        assert_eq!(refused(b"short"), "invalid revision length: 5");
        assert_eq!(refused(b"0123456789abcdef0"), "invalid separator in bucket key: '8'");
        let negative = encode(Revision { main: -1, sub: 2 });
        assert_eq!(refused(&negative), "negative revision: main=-1 sub=2");
    }

    #[test]
    fn an_unknown_mark_is_ignored() {
        let mut bytes = RevisionKey::tombstone(Revision::new(4, 0)).encode().to_vec();
        bytes[REVISION_BYTES] = b'x';
        assert!(!RevisionKey::decode(&bytes).unwrap().tombstone);
    }
}
