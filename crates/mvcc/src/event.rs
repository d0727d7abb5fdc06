//! A change of a key, as watchers see it.
//!
//! What is stored under a revision is an encoded `mvccpb.KeyValue`, and that is what an event carries. A tombstone is stored as its
//! key alone; watchers are also told when it was, so its revision is appended, as the next field of the message:
//!
//! ```text
//!   put foo at 7       0a 03 f o o   10 07   18 07   20 01   2a 03 b a r        as stored
//!   delete foo at 8    0a 03 f o o   18 08                                      stored without the 18 08
//! ```
//!
//! An event is made once for each change and shared by everybody who watches: clones are pointers to the same bytes.

use bytes::{BufMut as _, Bytes, BytesMut};
use types::Revision;

use crate::kv::{self, KeyValueRef};

/// Field 3, `mod_revision`, as a number.
const TAG_MOD_REVISION: u8 = 3 << 3;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A key was put.
    Put,
    /// A key was deleted.
    Delete,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// When: `main` is the key's new `mod_revision`.
    pub revision: Revision,
    /// Whether the key was not there before.
    pub created: bool,
    /// The key: a part of `kv`.
    pub key: Bytes,
    /// An encoded `mvccpb.KeyValue`: of a deleted key, only the key and its `mod_revision`.
    pub kv: Bytes,
}

impl Event {
    /// From what is stored under a revision. None if that is no `KeyValue`.
    #[must_use]
    pub fn from_stored(revision: Revision, tombstone: bool, stored: Bytes) -> Option<Event> {
        let parsed = KeyValueRef::parse(&stored)?;
        if tombstone {
            return Some(Event::delete(revision, parsed.key));
        }
        let created = parsed.create_revision == revision.main;
        let key = stored.slice_ref(parsed.key);
        Some(Event { kind: EventKind::Put, revision, created, key, kv: stored })
    }

    /// The deletion of a key.
    #[must_use]
    pub fn delete(revision: Revision, key: &[u8]) -> Event {
        let mut kv = BytesMut::with_capacity(key.len() + 2 * kv::FIELD_BYTES_MAX);
        let start = kv::encode_tombstone(key, &mut kv);
        kv.put_u8(TAG_MOD_REVISION);
        kv::put_varint(revision.main.cast_unsigned(), &mut kv);
        let kv = kv.freeze();
        let key = kv.slice(start..start + key.len());
        Event { kind: EventKind::Delete, revision, created: false, key, kv }
    }
}
