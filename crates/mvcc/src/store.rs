//! The store: the index, the values behind it, and the revisions between which it can be read.
//!
//! ```text
//!    compacted 4      current 9
//!        |                |
//!   ..3  4  5  6  7  8  9            reads at 4 to 9;  the next write transaction makes revision 10
//! ```
//!
//! One writer at a time, whoever applies the log, goes through a [`WriteTxn`]: it puts values into a transaction of the backend and revisions into
//! the index, where nobody looks for them yet, since everybody reads at `current` or before. When the transaction of the backend is
//! committed, [`Store::publish`] moves `current`, and all of it is there at once.
//!
//! Readers take a lock to look at one key, and a copy of the index, which costs a pointer, to look at more. They read values from a view of the
//! backend taken under the same lock: what a compaction drops from the index first, and from the backend later, is in both or not asked for.

use backend::schema::Bucket;
use backend::{Backend, Tx, View};
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

/// The revision of a store that nothing was written to.
pub const FIRST_REVISION: i64 = 1;

/// The compacted revision of a store that was never compacted.
pub const NEVER_COMPACTED: i64 = -1;

/// How a store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most revisions that a compaction looks at in one turn. Zero is the default.
    pub compaction_batch_limit: usize,
}

/// Etcd's `--compaction-batch-limit`.
pub const COMPACTION_BATCH_LIMIT_DEFAULT: usize = 1000;

impl Default for Config {
    fn default() -> Config {
        Config { compaction_batch_limit: COMPACTION_BATCH_LIMIT_DEFAULT }
    }
}

/// What keys have to do with leases. Neither knows the other: whoever owns both joins them.
pub trait Leases {
    /// Whether there is such a lease.
    fn contains(&self, id: LeaseId) -> bool;
    /// The lease that a key is attached to.
    fn lease_of(&self, key: &[u8]) -> Option<LeaseId>;
    /// A key is attached to a lease.
    fn attach(&self, id: LeaseId, key: &[u8]);
    /// A key is no longer attached to a lease.
    fn detach(&self, id: LeaseId, key: &[u8]);
}

/// Without leases.
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

/// KeySelector and their history.
#[derive(Debug)]
pub struct Store {
    pub(crate) backend: Backend,
    pub(crate) config: Config,
    pub(crate) state: RwLock<StoreState>,
    pub(crate) compactions: Compactions,
    pub(crate) hashes: HashStorage,
}

/// What readers and the writer share.
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

    /// Whether the transaction changed nothing. Then it has no revision of its own.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.revision == self.base
    }

    /// The revision of the store after the transaction.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The event of each change, in order.
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
    /// Makes the buckets that are missing, and reads what is there.
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

    /// The last revision.
    #[must_use]
    pub fn current(&self) -> i64 {
        self.state().current
    }

    /// The revision before which nothing is kept; [`NEVER_COMPACTED`] if everything is.
    #[must_use]
    pub fn compacted(&self) -> i64 {
        self.state().compacted
    }

    /// How many keys there are.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.state().index.live()
    }

    /// Bytes of memory that the index takes, without what the allocator adds. Looks at all of it.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        let index = self.state().index.clone();
        index.bytes()
    }

    /// Answers a range.
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResult, Error> {
        let state = self.state();
        let query = RangeQuery::new(request, state.current, state.compacted)?;
        let view = self.backend.view();
        let selection = if query.is_of_one_key() {
            let selection = query.select(&state.index);
            drop(state);
            selection
        } else {
            // However many keys there are, and were: nobody waits for the walk.
            let index = state.index.clone();
            drop(state);
            query.select(&index)
        };
        Ok(query.load(selection, &view)?)
    }

    /// Answers a transaction that only reads.
    ///
    /// # Panics
    /// If it does not ([`txn::is_read_only`]).
    pub fn read_txn(&self, request: &TxnRequest) -> Result<TxnResult, Error> {
        let reader = self.reader();
        txn::read(&reader.read_view(), request)
    }

    /// The store as it is now.
    #[must_use]
    pub fn reader(&self) -> Reader {
        let state = self.state();
        let StoreState { current, compacted, .. } = *state;
        Reader { index: state.index.clone(), view: self.backend.view(), current, compacted }
    }

    /// Begins a write transaction, as part of one of the backend. There is one at a time.
    #[must_use]
    pub fn write<'a, 'b>(&'a self, tx: &'a mut Tx<'b>, leases: &'a dyn Leases) -> WriteTxn<'a, 'b> {
        WriteTxn::new(self, tx, leases)
    }

    /// Makes visible what a write transaction did, once that of the backend is committed.
    pub fn publish(&self, changes: &Changes) {
        self.state_mut().current = changes.revision;
    }

    /// The stored form of a key at a revision; none if it is not there then.
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

/// The store at one moment, for as long as it is kept.
#[derive(Debug)]
pub struct Reader {
    index: TreeIndex,
    view: View,
    current: i64,
    compacted: i64,
}

impl Reader {
    pub(crate) fn read_view(&self) -> ReadView<'_, View> {
        let Reader { index, view, current, compacted } = self;
        ReadView { index, values: view, current: *current, compacted: *compacted }
    }

    /// The last revision.
    #[must_use]
    pub fn current(&self) -> i64 {
        self.current
    }

    /// Answers a range.
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResult, Error> {
        self.read_view().range(request)
    }
}
