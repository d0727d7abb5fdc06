//! Opens the store of a database: rebuilds the index from all revisions.
//!
//! The database holds revisions in order; the index needs the revisions of each key. One thread
//! reads the database and another builds the index. Chunks pass between them through a bounded
//! queue. Each chunk is sorted by key before it is indexed, so that neighboring keys hit the same
//! cached nodes.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use backend::schema::revision::{self, RevisionKey};
use backend::schema::{Bucket, meta};
use backend::{BackendView, Read, ReadError, Value};
use bytes::Bytes;
use types::{LeaseId, Revision};

use crate::error::Fault;
use crate::hash::decode;
use crate::index::{KeyMeta, TreeIndex};
use crate::kv::KeyValueRef;
use crate::store::{FIRST_REVISION, Leases, NEVER_COMPACTED, StoreState};

/// The number of revisions in a chunk.
const CHUNK: usize = 1 << 16;
/// The maximum number of chunks that wait to be indexed.
const CHUNKS_MAX: usize = 2;

/// The largest credible revision or version. A larger one is corruption: the next number has to
/// exist too.
const NUMBER_MAX: i64 = 1 << 62;

type Chunk<'a> = Vec<(RevisionKey, Value<'a>)>;

/// The result of a restore.
pub(crate) struct Restored {
    pub(crate) state: StoreState,
    /// The revision of a compaction that was scheduled and not finished.
    pub(crate) unfinished: Option<i64>,
}

/// The index under construction, the highest revision, and the attached leases.
#[derive(Default)]
struct IndexBuilder {
    index: TreeIndex,
    newest: i64,
    leases: BTreeMap<Bytes, LeaseId>,
}

pub(crate) fn restore(view: &BackendView, leases: &dyn Leases) -> Result<Restored, Fault> {
    let finished = meta::finished_compaction(view)?;
    let scheduled = meta::scheduled_compaction(view)?;
    let built = std::thread::scope(|scope| {
        let (send, receive) = sync_channel(CHUNKS_MAX);
        let builder = scope.spawn(|| build(receive));
        let read = read_all(view, send);
        let built = builder.join().expect("the index builder does not panic");
        read.and(built)
    })?;
    for (key, lease) in &built.leases {
        leases.attach(*lease, key);
    }
    let compacted = finished.unwrap_or(NEVER_COMPACTED);
    // The last revision may be deleted and compacted; then the finished compaction gives the
    // current revision. If the compaction was cut short after its last batch, the scheduled one
    // does.
    let current = built.newest.max(FIRST_REVISION).max(compacted).max(scheduled.unwrap_or(0));
    if current > NUMBER_MAX {
        let key = revision::encode(Revision::new(current, 0));
        return Err(ReadError::malformed(Bucket::Key, &key, "revision exceeds 2^62").into());
    }
    let state = StoreState { index: built.index, current, compacted };
    let unfinished = scheduled.filter(|scheduled| *scheduled > compacted);
    tracing::info!(current, compacted, keys = state.index.len(), "restored the keys");
    Ok(Restored { state, unfinished })
}

#[expect(clippy::needless_pass_by_value, reason = "dropping the sender ends the receiver's loop")]
fn read_all<'a>(view: &'a BackendView, to: SyncSender<Chunk<'a>>) -> Result<(), Fault> {
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut last = None;
    for item in view.all(Bucket::Key)? {
        let item = item?;
        let key = decode(&item.key)?;
        if last.replace(key.revision) == Some(key.revision) {
            // Once as a put and once as a tombstone.
            return Err(ReadError::malformed(Bucket::Key, &item.key, "duplicate revision").into());
        }
        chunk.push((key, item.value));
        if chunk.len() == CHUNK {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK));
            if to.send(full).is_err() {
                // The index builder failed, and returns the error.
                return Ok(());
            }
        }
    }
    let _ = to.send(chunk);
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "dropping the receiver stops the sender")]
fn build(from: Receiver<Chunk<'_>>) -> Result<IndexBuilder, Fault> {
    let mut builder = IndexBuilder::default();
    for chunk in &from {
        let parsed = chunk.iter().map(|(at, value)| Ok((*at, parse(*at, value)?)));
        let mut parsed = parsed.collect::<Result<Vec<_>, Fault>>()?;
        // The sort is stable: the revisions of a key stay in order.
        parsed.sort_by_key(|(_, kv)| kv.key);
        parsed.into_iter().for_each(|(at, kv)| builder.add(at, kv));
    }
    Ok(builder)
}

impl IndexBuilder {
    fn add(&mut self, at: RevisionKey, kv: KeyValueRef<'_>) {
        self.newest = self.newest.max(at.revision.main);
        let (created, version) = match at.tombstone {
            // The create revision of a deleted key is unknown and not needed.
            true => (0, 1),
            false => (kv.create_revision, kv.version),
        };
        let found = KeyMeta { modified: at.revision, created, version };
        if !self.index.maybe_restore(kv.key, found, at.tombstone) {
            tracing::warn!(revision = %at.revision, "skipped a tombstone of a key that does not exist");
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

/// Compat: `etcdutl snapshot restore --bump-revision` writes a record without a value, to raise the
/// revision of the store. As in etcd, it belongs to the empty key, which no request can name, and
/// compactions keep it: the hash depends on it.
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
        return Err(wrong("revision exceeds 2^62"));
    }
    let created = (1..=at.revision.main).contains(&kv.create_revision);
    if !at.tombstone && (!created || kv.version < 1) {
        return Err(wrong("invalid create revision or version"));
    }
    Ok(kv)
}
