//! A change of a key, as watchers receive it.
//!
//! An event carries the encoded `mvccpb.KeyValue` that is stored under its revision. A tombstone is
//! stored as the key alone; its event has the revision appended, as the next field of the message:
//!
//! ```text
//!   put foo at 7       0a 03 f o o   10 07   18 07   20 01   2a 03 b a r    as stored
//!   delete foo at 8    0a 03 f o o   18 08                                  stored without 18 08
//! ```
//!
//! Each change has one event, which all watchers share: a clone is a pointer to the same bytes.

use bytes::{BufMut as _, Bytes, BytesMut};
use types::Revision;

use crate::kv::{self, KeyValueRef};

/// Tag of field 3, `mod_revision`, with wire type varint.
const TAG_MOD_REVISION: u8 = 3 << 3;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A put.
    Put,
    /// A delete.
    Delete,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The type.
    pub kind: EventKind,
    /// The revision; `main` is the `mod_revision` of the key.
    pub revision: Revision,
    /// Whether the put created the key.
    pub created: bool,
    /// The key, a slice of `kv`.
    pub key: Bytes,
    /// The encoded `mvccpb.KeyValue`; for a delete, only the key and its `mod_revision`.
    pub kv: Bytes,
}

impl Event {
    /// Builds the event of a stored revision. Returns `None` if the bytes are not a `KeyValue`.
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

    /// Builds the event of a delete.
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
