//! Reading a store back from its file.
//!
//! The file has every revision in order, and the index wants keys: each revision is one step in the history of its key. One thread walks the file
//! and another builds the index; between them go chunks, of which a few may wait. A chunk is put into the index in the order of its keys: neighbours are found where
//! the one before them was, and the processor has not to wait for memory each time.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use backend::schema::revision::{self, RevisionKey};
use backend::schema::{Bucket, meta};
use backend::{Read, ReadError, Value, View};
use bytes::Bytes;
use types::{LeaseId, Revision};

use crate::error::Fault;
use crate::hash::decode;
use crate::index::{KeyMeta, TreeIndex};
use crate::kv::KeyValueRef;
use crate::store::{FIRST_REVISION, Leases, NEVER_COMPACTED, StoreState};

/// Revisions in a chunk.
const CHUNK: usize = 1 << 16;
/// Chunks that may wait to be indexed.
const CHUNKS_MAX: usize = 2;

/// A file that says it has come further is damaged: nobody has written that much, and the next revision, or version, must exist.
const NUMBER_MAX: i64 = 1 << 62;

type Chunk<'a> = Vec<(RevisionKey, Value<'a>)>;

/// What was read.
pub(crate) struct Restored {
    pub(crate) state: StoreState,
    /// A compaction that was begun and not finished.
    pub(crate) unfinished: Option<i64>,
}

/// What the index is built from, and what else comes to light on the way.
#[derive(Default)]
struct IndexBuilder {
    index: TreeIndex,
    newest: i64,
    leases: BTreeMap<Bytes, LeaseId>,
}

pub(crate) fn restore(view: &View, leases: &dyn Leases) -> Result<Restored, Fault> {
    let finished = meta::finished_compaction(view)?;
    let scheduled = meta::scheduled_compaction(view)?;
    let built = std::thread::scope(|scope| {
        let (send, receive) = sync_channel(CHUNKS_MAX);
        let builder = scope.spawn(|| build(receive));
        let read = read_all(view, send);
        let built = builder.join().expect("building an index does not panic");
        read.and(built)
    })?;
    for (key, lease) in &built.leases {
        leases.attach(*lease, key);
    }
    let compacted = finished.unwrap_or(NEVER_COMPACTED);
    // What was written last may have been deleted and compacted since: then only the compaction tells how far it had come. And if that was cut
    // short after its last batch, only its beginning does.
    let current = built.newest.max(FIRST_REVISION).max(compacted).max(scheduled.unwrap_or(0));
    if current > NUMBER_MAX {
        let key = revision::encode(Revision::new(current, 0));
        return Err(ReadError::malformed(Bucket::Key, &key, "no store comes that far").into());
    }
    let state = StoreState { index: built.index, current, compacted };
    let unfinished = scheduled.filter(|scheduled| *scheduled > compacted);
    tracing::info!(current, compacted, keys = state.index.len(), "restored the keys");
    Ok(Restored { state, unfinished })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "dropped at the end, so that the receiver learns of it"
)]
fn read_all<'a>(view: &'a View, to: SyncSender<Chunk<'a>>) -> Result<(), Fault> {
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut last = None;
    for item in view.all(Bucket::Key)? {
        let item = item?;
        let key = decode(&item.key)?;
        if last.replace(key.revision) == Some(key.revision) {
            // As a put and as a deletion.
            return Err(ReadError::malformed(Bucket::Key, &item.key, "a revision twice").into());
        }
        chunk.push((key, item.value));
        if chunk.len() == CHUNK {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK));
            if to.send(full).is_err() {
                // Whoever builds has found something wrong, and says so.
                return Ok(());
            }
        }
    }
    let _ = to.send(chunk);
    Ok(())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "dropped at an error, so that the sender learns of it"
)]
fn build(from: Receiver<Chunk<'_>>) -> Result<IndexBuilder, Fault> {
    let mut builder = IndexBuilder::default();
    for chunk in &from {
        let parsed = chunk.iter().map(|(at, value)| Ok((*at, parse(*at, value)?)));
        let mut parsed = parsed.collect::<Result<Vec<_>, Fault>>()?;
        // Stable: the revisions of a key stay in order.
        parsed.sort_by_key(|(_, kv)| kv.key);
        parsed.into_iter().for_each(|(at, kv)| builder.add(at, kv));
    }
    Ok(builder)
}

impl IndexBuilder {
    fn add(&mut self, at: RevisionKey, kv: KeyValueRef<'_>) {
        self.newest = self.newest.max(at.revision.main);
        let (created, version) = match at.tombstone {
            // When it was created is no longer known; nobody asks for it any more.
            true => (0, 1),
            false => (kv.create_revision, kv.version),
        };
        let found = KeyMeta { modified: at.revision, created, version };
        if !self.index.maybe_restore(kv.key, found, at.tombstone) {
            tracing::warn!(revision = %at.revision, "skipped a deletion of a key that is not there");
        }
        self.note_lease(kv.key, LeaseId::from_wire(kv.lease).filter(|_| !at.tombstone));
    }

    fn note_lease(&mut self, key: &[u8], lease: Option<LeaseId>) {
        match lease {
            Some(lease) => drop(self.leases.insert(Bytes::copy_from_slice(key), lease)),
            None if self.leases.is_empty() => {}
            None => drop(self.leases.remove(key)),
        }
    }
}

/// Compat: `etcdutl snapshot restore --bump-revision` leaves a record without a value, to make the store begin at a later revision. As in etcd it stands for the key
/// without a name, which nobody can ask for, and compactions keep it: hashes are to stay the same.
fn bumped(at: RevisionKey) -> KeyValueRef<'static> {
    KeyValueRef { create_revision: at.revision.main, version: 1, ..KeyValueRef::default() }
}

fn parse(at: RevisionKey, value: &[u8]) -> Result<KeyValueRef<'_>, Fault> {
    let wrong = |reason: &str| {
        Fault::Read(ReadError::malformed(Bucket::Key, &at.encode(), reason.to_owned()))
    };
    if value.is_empty() && !at.tombstone {
        return Ok(bumped(at));
    }
    let kv = KeyValueRef::parse(value).ok_or_else(|| wrong("not a KeyValue"))?;
    if at.revision.sub > NUMBER_MAX || kv.version > NUMBER_MAX {
        return Err(wrong("no store comes that far"));
    }
    let created = (1..=at.revision.main).contains(&kv.create_revision);
    if !at.tombstone && (!created || kv.version < 1) {
        return Err(wrong("created after it was put, or never"));
    }
    Ok(kv)
}
