//! A write transaction: the changes of one revision.
//!
//! Each change gets the next sub-revision. In a transaction that begins at revision 7:
//!
//! ```text
//!   put a        8.0   index a {.., 8.0}         backend key 8.0  → KeyValue a
//!   delete b     8.1   index b {.., 8.1t}        backend key 8.1t → KeyValue b, key only
//! ```

use backend::Tx;
use backend::schema::Bucket;
use backend::schema::revision::RevisionKey;
use bytes::{Bytes, BytesMut};
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest};
use types::{LeaseId, Revision};

use crate::error::{Error, Fault};
use crate::event::{Event, EventKind};
use crate::kv::{self, KeyValueRef};
use crate::read_view::ReadView;
use crate::response::{DeleteRangeResult, Kvs, PutResult};
use crate::store::{Changes, Leases, Store};
use crate::value_reader::parse_stored;

/// `DeleteRangeResponse.prev_kvs`.
const PREV_KVS: u8 = 3;

/// The changes that become one revision, `begin + 1`. Reads see the changes made so far.
///
/// Dropping it does not undo the changes to the index: a member that cannot commit has to stop.
#[derive(Debug)]
pub struct WriteTxn<'a, 'b> {
    store: &'a Store,
    pub(crate) tx: &'a mut Tx<'b>,
    leases: LeasesRef<'a>,
    begin: i64,
    changes: Vec<Event>,
}

/// A lessor, wrapped because [`Leases`] does not require `Debug`.
pub(crate) struct LeasesRef<'a>(pub(crate) &'a dyn Leases);

impl std::fmt::Debug for LeasesRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Leases")
    }
}

impl<'a, 'b> WriteTxn<'a, 'b> {
    pub(crate) fn new(store: &'a Store, tx: &'a mut Tx<'b>, leases: &'a dyn Leases) -> Self {
        let begin = store.current();
        WriteTxn { store, tx, leases: LeasesRef(leases), begin, changes: Vec::new() }
    }

    /// Returns the revision of the store as this transaction sees it.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.begin + i64::from(!self.changes.is_empty())
    }

    /// Returns whether nothing was changed yet.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }

    /// Executes a put request.
    pub fn put(&mut self, request: &PutRequest) -> Result<PutResult, Error> {
        self.check_put(request)?;
        Ok(self.put_checked(request)?)
    }

    /// Executes a delete request.
    pub fn delete_range(
        &mut self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResult, Error> {
        Ok(self.delete_range_checked(request)?)
    }

    /// Deletes the keys that exist, in the given order.
    pub fn delete_keys(&mut self, keys: &[Bytes]) -> Result<(), Fault> {
        for key in keys {
            if self.store.state().index.get(key, self.revision()).is_some() {
                self.delete(key)?;
            }
        }
        Ok(())
    }

    /// Ends the transaction. The changes become visible when they are committed and published.
    pub fn finish(self) -> Changes {
        Changes::new(self.begin, self.revision(), self.changes)
    }

    /// Checks that a put can succeed: its lease exists, and so does the key if its value or lease
    /// is to be kept.
    pub(crate) fn check_put(&self, request: &PutRequest) -> Result<(), Error> {
        let PutRequest { key, lease, ignore_value, ignore_lease, .. } = request;
        let lease = LeaseId::from_wire(*lease);
        if lease.is_some_and(|lease| !self.leases.0.contains(lease)) {
            return Err(Error::LeaseNotFound);
        }
        let needs_key = *ignore_value || *ignore_lease;
        if needs_key && self.store.state().index.get(key, self.revision()).is_none() {
            return Err(Error::KeyNotFound);
        }
        Ok(())
    }

    pub(crate) fn put_checked(&mut self, request: &PutRequest) -> Result<PutResult, Fault> {
        let PutRequest { key, value, lease, .. } = request;
        if !(request.prev_kv || request.ignore_value || request.ignore_lease) {
            self.set(key, value, *lease)?;
            return Ok(PutResult { revision: self.revision(), prev_kv: None });
        }
        let before = self.with(|view| {
            Ok(view.get(key)?.map(|(revision, stored)| (revision, stored.into_bytes())))
        })?;
        let parsed = match &before {
            Some((revision, stored)) => parse_stored(*revision, stored)?,
            None => KeyValueRef::default(),
        };
        let value = if request.ignore_value { parsed.value } else { value };
        let lease = if request.ignore_lease { parsed.lease } else { *lease };
        self.set(key, value, lease)?;
        let prev_kv = before.filter(|_| request.prev_kv).map(|(_, stored)| stored);
        Ok(PutResult { revision: self.revision(), prev_kv })
    }

    pub(crate) fn delete_range_checked(
        &mut self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResult, Fault> {
        let DeleteRangeRequest { key, range_end, prev_kv } = request;
        let prev_kvs = match prev_kv {
            true => self.with(|view| view.all(key, range_end, PREV_KVS))?,
            false => Kvs::new(PREV_KVS),
        };
        let keys = self.with(|view| Ok(view.keys(key, range_end)))?;
        for key in &keys {
            self.delete(key)?;
        }
        let deleted = i64::try_from(keys.len()).expect("keys in memory fit into an i64");
        Ok(DeleteRangeResult { revision: self.revision(), deleted, prev_kvs })
    }

    /// Calls `f` with the store as this transaction sees it.
    pub(crate) fn with<T>(
        &self,
        f: impl FnOnce(&ReadView<'_, Tx<'b>>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let state = self.store.state();
        let (index, compacted) = (state.index.clone(), state.compacted);
        // Reads from a copy of the index, so that the lock is not held for the whole read.
        drop(state);
        f(&ReadView { index: &index, values: &*self.tx, current: self.revision(), compacted })
    }

    fn set(&mut self, key: &Bytes, value: &[u8], lease: i64) -> Result<(), Fault> {
        let revision = self.next();
        let before = self.store.state_mut().index.put(key, revision);
        let create_revision = before.map_or(revision.main, |found| found.created);
        let stored = KeyValueRef {
            key,
            create_revision,
            mod_revision: revision.main,
            version: before.map_or(1, |found| found.version + 1),
            value,
            lease,
        }
        .encode();
        self.tx.put(Bucket::Key, RevisionKey::put(revision).encode(), stored.clone())?;
        self.move_lease(key, before.is_some(), LeaseId::from_wire(lease));
        let created = create_revision == revision.main;
        let key = key_of(&stored, key.len());
        self.changes.push(Event { kind: EventKind::Put, revision, created, key, kv: stored });
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Fault> {
        let revision = self.next();
        self.store.state_mut().index.tombstone(key, revision);
        let mut stored = BytesMut::with_capacity(key.len() + kv::FIELD_BYTES_MAX);
        kv::encode_tombstone(key, &mut stored);
        self.tx.put(Bucket::Key, RevisionKey::tombstone(revision).encode(), stored.freeze())?;
        if let Some(lease) = self.leases.0.lease_of(key) {
            self.leases.0.detach(lease, key);
        }
        self.changes.push(Event::delete(revision, key));
        Ok(())
    }

    fn move_lease(&self, key: &[u8], existed: bool, lease: Option<LeaseId>) {
        let leases = self.leases.0;
        let before = if existed { leases.lease_of(key) } else { None };
        if before == lease {
            return;
        }
        if let Some(before) = before {
            leases.detach(before, key);
        }
        if let Some(lease) = lease {
            leases.attach(lease, key);
        }
    }

    fn next(&self) -> Revision {
        let sub = i64::try_from(self.changes.len()).expect("changes in memory fit into an i64");
        Revision::new(self.begin + 1, sub)
    }
}

/// Returns the key within its encoded `KeyValue`: it follows a tag and a length.
fn key_of(stored: &Bytes, len: usize) -> Bytes {
    let start = kv::message_len(len) - len;
    stored.slice(start..start + len)
}
