//! The store together with its watchers: the type that a member works with.
//!
//! ```text
//!   apply            write ─► WriteTxn ─► finish ─► Changes ─┐
//!                                                            ▼
//!   commit           tx.commit() ─► under the hub's lock: Store::publish, then synced watchers
//!                                                            │
//!   watch thread     sync_watchers ◄── wake ─────────────────┘   unsynced watchers and victims
//!
//!   snapshot         next = successor(new backend);  next.take_over(|| replace the state)
//! ```
//!
//! Invariants:
//!
//! - Readers and watchers see a transaction at the same instant. A client that creates a watcher or
//!   requests progress sees both the revision and its events, or neither.
//! - An event is delivered after its revision is readable.
//! - Watchers outlive the database: a successor serves the watchers of its predecessor.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use backend::{Backend, CommitError, Tx};
use bytes::Bytes;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest};

use crate::compaction::{CompactionTicket, CompactionTurn};
use crate::error::{Error, Fault};
use crate::event::Event;
use crate::hash::KeyValueHash;
use crate::response::{DeleteRangeResult, PutResult, RangeResult, TxnResult};
use crate::store::{Changes, Config, Leases, Store};
use crate::watch::{self, History, HistoryError, Hub, HubTurn, Notify, Stream};
use crate::write::WriteTxn;

/// The result of a write within a backend transaction, and its changes for
/// [`WatchableStore::commit`].
#[derive(Debug)]
pub struct Write<T> {
    /// The result of the operation.
    pub result: Result<T, Error>,
    /// The changes; empty if nothing was changed.
    pub changes: Changes,
}

/// A [`Store`] whose changes are delivered to watchers.
pub struct WatchableStore {
    store: Store,
    hub: Hub,
}

impl WatchableStore {
    /// Opens the store of a backend, without watchers. `wake` is called when
    /// [`WatchableStore::sync_watchers`] has work to do, or [`WatchableStore::tick_progress`] has
    /// to be called earlier than it returned; never with a lock held.
    ///
    /// # Errors
    /// If the database is damaged or cannot be written.
    pub fn open(
        backend: Backend,
        leases: &dyn Leases,
        config: Config,
        watch: &watch::Config,
        wake: Notify,
    ) -> Result<WatchableStore, Fault> {
        let store = Store::open(backend, leases, config)?;
        let hub = Hub::new(store.current(), watch, wake);
        Ok(WatchableStore { store, hub })
    }

    /// Opens the store of another backend, which is to replace this one after a snapshot was
    /// received. Both share the watchers, which stay at this store until
    /// [`WatchableStore::take_over`]. Takes as long as reading all keys; no transaction may be
    /// committed meanwhile.
    ///
    /// # Errors
    /// If the new database is damaged or cannot be written.
    pub fn successor(
        &self,
        backend: Backend,
        leases: &dyn Leases,
    ) -> Result<WatchableStore, Fault> {
        let store = Store::open(backend, leases, self.store.config)?;
        Ok(WatchableStore { store, hub: self.hub.clone() })
    }

    /// Moves the watchers of the predecessor to this store. `make_visible` replaces the predecessor
    /// for readers; both happen as one step for clients that create a watcher or request progress.
    ///
    /// Watchers continue at the revision they have reached. They read the revisions in between from
    /// the history of this store, and are canceled if those are compacted.
    pub fn take_over(&self, make_visible: impl FnOnce()) {
        self.hub.restore(self.store.current(), make_visible);
    }

    /// Begins a write transaction within a backend transaction. There is one at a time.
    #[must_use]
    pub fn write<'a, 'b>(&'a self, tx: &'a mut Tx<'b>, leases: &'a dyn Leases) -> WriteTxn<'a, 'b> {
        self.store.write(tx, leases)
    }

    /// Puts a key in a backend transaction.
    #[must_use]
    pub fn put(&self, tx: &mut Tx<'_>, leases: &dyn Leases, put: &PutRequest) -> Write<PutResult> {
        self.run(tx, leases, |txn| txn.put(put))
    }

    /// Deletes keys in a backend transaction.
    #[must_use]
    pub fn delete_range(
        &self,
        tx: &mut Tx<'_>,
        leases: &dyn Leases,
        delete: &DeleteRangeRequest,
    ) -> Write<DeleteRangeResult> {
        self.run(tx, leases, |txn| txn.delete_range(delete))
    }

    /// Executes a transaction on keys in a backend transaction. With `skip_ranges`, its ranges find
    /// nothing: there is no client to read them.
    #[must_use]
    pub fn txn(
        &self,
        tx: &mut Tx<'_>,
        leases: &dyn Leases,
        request: &TxnRequest,
        skip_ranges: bool,
    ) -> Write<TxnResult> {
        self.run(tx, leases, |txn| txn.txn(request, skip_ranges))
    }

    fn run<T>(
        &self,
        tx: &mut Tx<'_>,
        leases: &dyn Leases,
        operation: impl FnOnce(&mut WriteTxn<'_, '_>) -> Result<T, Error>,
    ) -> Write<T> {
        let mut txn = self.write(tx, leases);
        let result = operation(&mut txn);
        Write { result, changes: txn.finish() }
    }

    /// Commits a backend transaction, then makes its changes visible to readers and delivers them
    /// to watchers, as one step. Streams are notified on this thread, after all locks are released.
    /// Returns the last revision.
    ///
    /// # Errors
    /// If the backend refuses the transaction: the member has to stop.
    ///
    /// # Panics
    /// If the revision of the changes is not larger than that of all commits before.
    pub fn commit(&self, tx: Tx<'_>, changes: &Changes) -> Result<i64, CommitError> {
        tx.commit()?;
        if !changes.is_empty() {
            let (revision, events) = (changes.revision(), changes.events());
            self.hub.publish(revision, events, || self.store.publish(changes));
        }
        Ok(self.store.current())
    }
}

/// Reads and compaction: as on [`Store`].
impl WatchableStore {
    /// Returns the last revision.
    #[must_use]
    pub fn current(&self) -> i64 {
        self.store.current()
    }

    /// Returns the compacted revision, or [`NEVER_COMPACTED`](crate::NEVER_COMPACTED).
    #[must_use]
    pub fn compacted(&self) -> i64 {
        self.store.compacted()
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.store.keys()
    }

    /// Executes a range request: [`Store::range`].
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResult, Error> {
        self.store.range(request)
    }

    /// Executes a read-only transaction: [`Store::read_txn`].
    pub fn read_txn(&self, request: &TxnRequest) -> Result<TxnResult, Error> {
        self.store.read_txn(request)
    }

    /// Schedules a compaction: [`Store::compact`].
    pub fn compact(&self, tx: &mut Tx<'_>, at: i64) -> Result<CompactionTicket, Error> {
        self.store.compact(tx, at)
    }

    /// Executes a bounded part of the scheduled compactions: [`Store::turn_compaction`].
    pub fn turn_compaction(&self) -> Result<CompactionTurn, Fault> {
        self.store.turn_compaction()
    }

    /// Whether a compaction is finished: [`Store::is_compacted`].
    #[must_use]
    pub fn is_compacted(&self, ticket: CompactionTicket) -> bool {
        self.store.is_compacted(ticket)
    }

    /// Returns the ticket of the compaction that was scheduled last.
    #[must_use]
    pub fn last_compaction(&self) -> CompactionTicket {
        self.store.last_compaction()
    }

    /// Calls back when a compaction is finished: [`Store::when_compacted`].
    pub fn when_compacted(&self, ticket: CompactionTicket, call: Box<dyn FnOnce() + Send>) {
        self.store.when_compacted(ticket, call);
    }

    /// Hashes the keys at a revision: [`Store::hash_kv`].
    pub fn hash_kv(&self, revision: i64) -> Result<(KeyValueHash, i64), Error> {
        self.store.hash_kv(revision)
    }

    /// Hashes the keys as a compaction at a revision would: [`Store::hash_as_compacted`].
    pub fn hash_as_compacted(&self, revision: i64) -> Result<Option<KeyValueHash>, Error> {
        self.store.hash_as_compacted(revision)
    }

    /// Returns the comparable hashes of the last compactions: [`Store::compaction_hashes`].
    #[must_use]
    pub fn compaction_hashes(&self) -> Vec<KeyValueHash> {
        self.store.compaction_hashes()
    }
}

/// Watchers: as on [`Hub`].
impl WatchableStore {
    /// Opens a watch stream for a client: [`Hub::stream`].
    #[must_use]
    pub fn watch_stream(&self, notify: Notify, now: Duration, jitter: Duration) -> Stream {
        self.hub.stream(notify, now, jitter)
    }

    /// Executes a bounded part of the work for watchers that are behind: [`Hub::turn`].
    ///
    /// # Errors
    /// If history cannot be read: the member has to stop.
    pub fn sync_watchers(&self) -> Result<HubTurn, HistoryError> {
        self.hub.turn(&self.store)
    }

    /// Sends the progress notifications that are due. Returns the time of the next one.
    pub fn tick_progress(&self, now: Duration) -> Option<Duration> {
        self.hub.tick_progress(now)
    }

    /// Returns the number of watch streams.
    #[must_use]
    pub fn watch_streams(&self) -> usize {
        self.hub.streams()
    }

    /// Returns the number of watchers.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.hub.watchers()
    }

    /// Returns the number of watchers that are behind: unsynced watchers and victims.
    #[must_use]
    pub fn slow_watchers(&self) -> usize {
        self.hub.slow_watchers()
    }

    /// Returns the number of events in the queues of the streams.
    #[must_use]
    pub fn pending_events(&self) -> usize {
        self.hub.pending_events()
    }
}

impl History for WatchableStore {
    fn current(&self) -> i64 {
        self.store.current()
    }

    fn compacted(&self) -> i64 {
        self.store.compacted()
    }

    fn changes(
        &self,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        self.store.changes(from, to, f)
    }

    fn value_at(&self, key: &[u8], revision: i64) -> Result<Option<Bytes>, HistoryError> {
        History::value_at(&self.store, key, revision)
    }
}

impl fmt::Debug for WatchableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchableStore")
            .field("revision", &self.current())
            .field("watchers", &self.watchers())
            .finish_non_exhaustive()
    }
}
