//! The replicated state machine: keys, leases, users and roles, members, alarms, behind one
//! backend.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::quota::Quota;
use auth::AuthStore;
use backend::schema::{Bucket, meta};
use backend::{Backend, CloseError, Tx};
use bytes::Bytes;
use env::Clock;
use lease::Lessor;
use membership::{AlarmStore, Cluster};
use mvcc::{Changes, WatchableStore};
use parking_lot::RwLock;
use types::{Index, LeaseId, Term};

use crate::apply::Fault;
use crate::planted_bug::{self, PlantedBug};

/// The configuration of a state machine, beside the content of its database.
pub struct Config {
    /// The configuration of the key-value store.
    pub store: mvcc::Config,
    /// The configuration of the lessor.
    pub lease: lease::Config,
    /// The configuration of watchers.
    pub watch: mvcc::watch::Config,
    /// Called when there is work to do for watchers.
    pub wake_watch: mvcc::watch::Notify,
    /// The maximum size of the database.
    pub quota: Quota,
}

/// The configuration that a successor needs again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetainedConfig {
    lease: lease::Config,
    pub(crate) quota: Quota,
}

/// The replicated state, behind one backend.
pub struct StateMachine {
    /// The database file and its pending batch.
    pub(crate) backend: Backend,
    /// Keys and their watchers.
    pub(crate) store: WatchableStore,
    /// Leases.
    pub(crate) lessor: Lessor,
    /// Users and roles.
    pub(crate) auth: Arc<AuthStore>,
    /// Members.
    pub(crate) cluster: Arc<Cluster>,
    /// Alarms.
    pub(crate) alarms: AlarmStore,
    pub(crate) retained: RetainedConfig,
    pub(crate) clock: Arc<dyn Clock>,
    /// The index of the last entry that was passed to `apply`; zero before the first.
    pub(crate) last: AtomicU64,
}

impl StateMachine {
    /// Opens the state in a database, and creates the missing buckets of a new one.
    pub fn open(
        backend: Backend,
        clock: Arc<dyn Clock>,
        auth: AuthStore,
        cluster: Cluster,
        config: Config,
    ) -> Result<StateMachine, Fault> {
        // Before the first write: the database of another cluster must stay unchanged.
        cluster.restore(&backend.view())?;
        backend.create_buckets(&Bucket::ALL)?;
        let mut tx = backend.begin();
        auth.start(&mut tx)?;
        tx.commit()?;
        let retained = RetainedConfig { lease: config.lease, quota: config.quota };
        let (auth, cluster) = (Arc::new(auth), Arc::new(cluster));
        let Config { store, watch, wake_watch, .. } = config;
        StateMachine::with(backend, clock, auth, cluster, retained, |backend, leases| {
            WatchableStore::open(backend, leases, store, &watch, wake_watch)
        })
    }

    /// Reads the state from a database. `open_store` opens its keys.
    fn with(
        backend: Backend,
        clock: Arc<dyn Clock>,
        auth: Arc<AuthStore>,
        cluster: Arc<Cluster>,
        retained: RetainedConfig,
        open_store: impl FnOnce(Backend, &dyn mvcc::Leases) -> Result<WatchableStore, mvcc::Fault>,
    ) -> Result<StateMachine, Fault> {
        let view = backend.view();
        let alarms = AlarmStore::restore(&view)?;
        let lessor = Lessor::new(retained.lease);
        lessor.restore(&view)?;
        let store = open_store(backend.clone(), &LessorAdapter(&lessor))?;
        let last = AtomicU64::new(0);
        Ok(StateMachine { backend, store, lessor, auth, cluster, alarms, retained, clock, last })
    }

    /// Opens the state in a database that the leader sent. The successor shares what outlives a
    /// database: watchers, tokens and the membership, which switch to the new content here. This
    /// state can still be read.
    ///
    /// Takes as long as reading all keys. No entry may be applied meanwhile.
    pub(crate) fn successor(&self, backend: Backend) -> Result<StateMachine, Fault> {
        self.cluster.restore(&backend.view())?;
        backend.create_buckets(&Bucket::ALL)?;
        self.auth.restore(&backend.view())?;
        let StateMachine { auth, cluster, clock, retained, .. } = self;
        let (auth, cluster, clock) = (Arc::clone(auth), Arc::clone(cluster), Arc::clone(clock));
        StateMachine::with(backend, clock, auth, cluster, *retained, |backend, leases| {
            self.store.successor(backend, leases)
        })
    }

    /// The index and term of the last applied entry, from the database.
    pub fn applied(&self) -> Result<(Index, Term), Fault> {
        Ok(meta::applied(&self.backend.view())?)
    }

    /// Commits pending writes and closes the database. Requires that threads are stopped.
    pub fn close(self) -> Result<(), CloseError> {
        let StateMachine { backend, store, .. } = self;
        drop(store);
        backend.close()
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Commits a transaction, then publishes its changes to readers and watchers. Returns the last
    /// revision.
    pub(crate) fn commit(&self, tx: Tx<'_>, changes: Option<Changes>) -> Result<i64, Fault> {
        let Some(mut changes) = changes else {
            tx.commit()?;
            return Ok(self.store.current());
        };
        if planted_bug::is_planted(PlantedBug::DropEvents) && changes.revision() % 16 == 0 {
            changes.lose_events();
        }
        Ok(self.store.commit(tx, &changes)?)
    }
}

/// The current state machine of a member. A received snapshot replaces it.
#[derive(Debug)]
pub(crate) struct StateHandle(RwLock<Arc<StateMachine>>);

impl StateHandle {
    pub(crate) fn new(state: StateMachine) -> StateHandle {
        StateHandle(RwLock::new(Arc::new(state)))
    }

    pub(crate) fn get(&self) -> Arc<StateMachine> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the state, for readers and watchers at once.
    pub(crate) fn replace(&self, state: Arc<StateMachine>) {
        let next = Arc::clone(&state);
        next.store.take_over(|| *self.0.write() = state);
    }

    /// Returns the state if no other reference to it exists.
    pub(crate) fn into_state(self) -> Option<StateMachine> {
        Arc::try_unwrap(self.0.into_inner()).ok()
    }
}

/// The lessor as the key-value store and the auth store use it.
pub(crate) struct LessorAdapter<'a>(pub(crate) &'a Lessor);

impl mvcc::Leases for LessorAdapter<'_> {
    fn contains(&self, id: LeaseId) -> bool {
        self.0.contains(id)
    }

    fn lease_of(&self, key: &[u8]) -> Option<LeaseId> {
        self.0.lease_of(key)
    }

    fn attach(&self, id: LeaseId, key: &[u8]) {
        if !self.0.attach(id, key) {
            // Compat: as in etcd at a start, the key stays, though no lease will ever delete it.
            tracing::error!(lease = %id, key = %key.escape_ascii(), "key is attached to an unknown lease");
        }
    }

    fn detach(&self, id: LeaseId, key: &[u8]) {
        self.0.detach(id, key);
    }
}

impl auth::LeaseKeys for LessorAdapter<'_> {
    fn keys_of(&self, id: LeaseId) -> Vec<Bytes> {
        self.0.keys_of(id).unwrap_or_default()
    }
}

impl std::fmt::Debug for StateMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateMachine")
            .field("revision", &self.store.current())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("quota", &self.quota).finish_non_exhaustive()
    }
}
