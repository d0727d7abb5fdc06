//! The store: the index, the stored values, and the range of revisions that can be read.
//!
//! ```text
//!    compacted 4      current 9
//!        |                |
//!   ..3  4  5  6  7  8  9         reads at 4 to 9; the next write transaction is revision 10
//! ```
//!
//! A single writer, the applier, uses a [`WriteTxn`]. It puts values into a backend
//! transaction and revisions into the index, where no reader sees them yet: all reads are at
//! `current` or below. After the backend transaction is committed, [`Store::publish`] advances
//! `current`, which makes the whole revision visible at once.
//!
//! A read of one key holds the lock for the lookup. A read of a range clones the index, which
//! copies one pointer, and releases the lock. Both take their view of the backend under the same
//! lock. A compaction removes revisions from the index first and from the backend later, so every
//! revision that a reader finds in its index is in its view.

use backend::schema::Bucket;
use backend::{Backend, BackendView, Tx};
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use proto::etcdserverpb::{RangeRequest, TxnRequest};
use types::LeaseId;

use crate::compaction::Compactions;
use crate::error::{Error, Fault};
use crate::event::Event;
use crate::hash::HashStorage;
use crate::index::TreeIndex;
use crate::range::RangeQuery;
use crate::read_view::ReadView;
use crate::response::{RangeResult, TxnResult};
use crate::txn;
use crate::value_reader::read_stored;
use crate::write::WriteTxn;

/// The revision of an empty store.
pub const FIRST_REVISION: i64 = 1;

/// The compacted revision of a store that was never compacted.
pub const NEVER_COMPACTED: i64 = -1;

/// The settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The maximum number of revisions that one compaction turn scans. Zero selects the default.
    pub compaction_batch_limit: usize,
}

/// The default of etcd's `--compaction-batch-limit`.
pub const COMPACTION_BATCH_LIMIT_DEFAULT: usize = 1000;

impl Default for Config {
    fn default() -> Config {
        Config { compaction_batch_limit: COMPACTION_BATCH_LIMIT_DEFAULT }
    }
}

/// The lessor as the store sees it. The owner of both implements it.
pub trait Leases {
    /// Returns whether a lease exists.
    fn contains(&self, id: LeaseId) -> bool;
    /// Returns the lease that a key is attached to.
    fn lease_of(&self, key: &[u8]) -> Option<LeaseId>;
    /// Attaches a key to a lease.
    fn attach(&self, id: LeaseId, key: &[u8]);
    /// Detaches a key from a lease.
    fn detach(&self, id: LeaseId, key: &[u8]);
}

/// A lessor without leases.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLeases;

impl Leases for NoLeases {
    fn contains(&self, _: LeaseId) -> bool {
        false
    }

    fn lease_of(&self, _: &[u8]) -> Option<LeaseId> {
        None
    }

    fn attach(&self, _: LeaseId, _: &[u8]) {}

    fn detach(&self, _: LeaseId, _: &[u8]) {}
}

/// The keys and their history.
#[derive(Debug)]
pub struct Store {
    pub(crate) backend: Backend,
    pub(crate) config: Config,
    pub(crate) state: RwLock<StoreState>,
    pub(crate) compactions: Compactions,
    pub(crate) hashes: HashStorage,
}

/// The state that readers and the writer share.
#[derive(Debug)]
pub(crate) struct StoreState {
    pub(crate) index: TreeIndex,
    pub(crate) current: i64,
    pub(crate) compacted: i64,
}

/// The changes of a write transaction, which become visible when they are committed.
#[derive(Debug)]
#[must_use = "a revision is not visible before it is committed"]
pub struct Changes {
    base: i64,
    revision: i64,
    events: Vec<Event>,
}

impl Changes {
    pub(crate) fn new(base: i64, revision: i64, events: Vec<Event>) -> Changes {
        Changes { base, revision, events }
    }

    /// Returns whether the transaction changed nothing. Such a transaction has no revision of its
    /// own.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.revision == self.base
    }

    /// Returns the revision of the store after the transaction.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the event of each change, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Drops the events but keeps the revision, so that watchers miss the transaction. A planted
    /// bug, which the simulator has to find.
    pub fn lose_events(&mut self) {
        self.events.clear();
    }
}

impl Store {
    /// Opens the store of a backend: creates missing buckets and rebuilds the index.
    pub fn open(backend: Backend, leases: &dyn Leases, mut config: Config) -> Result<Store, Fault> {
        if config.compaction_batch_limit == 0 {
            config.compaction_batch_limit = COMPACTION_BATCH_LIMIT_DEFAULT;
        }
        backend.create_buckets(&[Bucket::Key, Bucket::Meta])?;
        let restored = crate::restore::restore(&backend.view(), leases)?;
        let store = Store {
            backend,
            config,
            state: RwLock::new(restored.state),
            compactions: Compactions::default(),
            hashes: HashStorage::default(),
        };
        if let Some(at) = restored.unfinished {
            store.resume_compaction(at);
        }
        Ok(store)
    }

    /// Returns the last revision.
    #[must_use]
    pub fn current(&self) -> i64 {
        self.state().current
    }

    /// Returns the compacted revision, below which nothing can be read, or [`NEVER_COMPACTED`].
    #[must_use]
    pub fn compacted(&self) -> i64 {
        self.state().compacted
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.state().index.live()
    }

    /// Returns the memory of the index in bytes, without allocator overhead. Visits every node.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        let index = self.state().index.clone();
        index.bytes()
    }

    /// Executes a range request.
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResult, Error> {
        let state = self.state();
        let query = RangeQuery::new(request, state.current, state.compacted)?;
        let view = self.backend.view();
        let selection = if query.is_of_one_key() {
            let selection = query.select(&state.index);
            drop(state);
            selection
        } else {
            // Long ranges read a copy, so that no writer waits for them.
            let index = state.index.clone();
            drop(state);
            query.select(&index)
        };
        Ok(query.load(selection, &view)?)
    }

    /// Executes a read-only transaction.
    ///
    /// # Panics
    /// If the transaction is not read-only ([`txn::is_read_only`]).
    pub fn read_txn(&self, request: &TxnRequest) -> Result<TxnResult, Error> {
        let reader = self.reader();
        txn::read(&reader.read_view(), request)
    }

    /// Returns a view of the store at the current revision.
    #[must_use]
    pub fn reader(&self) -> Reader {
        let state = self.state();
        let StoreState { current, compacted, .. } = *state;
        Reader { index: state.index.clone(), view: self.backend.view(), current, compacted }
    }

    /// Begins a write transaction within a backend transaction. There is one at a time.
    #[must_use]
    pub fn write<'a, 'b>(&'a self, tx: &'a mut Tx<'b>, leases: &'a dyn Leases) -> WriteTxn<'a, 'b> {
        WriteTxn::new(self, tx, leases)
    }

    /// Makes the changes of a write transaction visible, after the backend transaction is
    /// committed.
    pub fn publish(&self, changes: &Changes) {
        self.state_mut().current = changes.revision;
    }

    /// Returns the encoded `KeyValue` of a key at a revision, or `None` if the key does not exist
    /// then.
    pub fn value_at(&self, key: &[u8], revision: i64) -> Result<Option<Bytes>, Error> {
        let state = self.state();
        if revision < state.compacted {
            return Err(Error::Compacted);
        }
        if revision > state.current {
            return Err(Error::FutureRevision);
        }
        let Some(found) = state.index.get(key, revision) else { return Ok(None) };
        let view = self.backend.view();
        drop(state);
        Ok(Some(read_stored(found.modified, &view)?.into_bytes()))
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, StoreState> {
        self.state.read()
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, StoreState> {
        self.state.write()
    }
}

/// A view of the store at one revision, valid as long as it is held.
#[derive(Debug)]
pub struct Reader {
    index: TreeIndex,
    view: BackendView,
    current: i64,
    compacted: i64,
}

impl Reader {
    pub(crate) fn read_view(&self) -> ReadView<'_, BackendView> {
        let Reader { index, view, current, compacted } = self;
        ReadView { index, values: view, current: *current, compacted: *compacted }
    }

    /// Returns the revision of the view.
    #[must_use]
    pub fn current(&self) -> i64 {
        self.current
    }

    /// Executes a range request.
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResult, Error> {
        self.read_view().range(request)
    }
}
