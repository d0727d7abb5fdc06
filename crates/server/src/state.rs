//! All that members agree on.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::quota::Quota;
use auth::AuthStore;
use backend::schema::{Bucket, meta};
use backend::{Backend, Tx};
use bytes::Bytes;
use env::Clock;
use lease::Lessor;
use membership::{AlarmStore, Cluster};
use mvcc::{Changes, WatchableStore};
use types::{Index, LeaseId, Term};

use crate::apply::Fault;
use crate::planted_bug::{self, PlantedBug};

/// What the state machine has to know beside what is in its database.
pub struct Config {
    /// How keys are kept.
    pub store: mvcc::Config,
    /// How leases are kept.
    pub lease: lease::Config,
    /// How watchers are served.
    pub watch: mvcc::watch::Config,
    /// Called when there is work to do for watchers.
    pub wake_watch: mvcc::watch::Notify,
    /// How large the database may grow.
    pub quota: Quota,
}

/// What is needed again when another database takes the place of this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    lease: lease::Config,
    pub(crate) quota: Quota,
}

/// All that members agree on, behind one backend.
pub struct StateMachine {
    /// Where it is kept.
    pub backend: Backend,
    /// Keys and their watchers.
    pub store: WatchableStore,
    /// Leases.
    pub lessor: Lessor,
    /// Users and roles.
    pub auth: Arc<AuthStore>,
    /// Members.
    pub cluster: Arc<Cluster>,
    /// Alarms.
    pub alarms: AlarmStore,
    pub(crate) kept: Kept,
    pub(crate) clock: Arc<dyn Clock>,
    /// The last entry that came; zero before the first.
    pub(crate) last: AtomicU64,
}

impl StateMachine {
    /// Takes up what the database holds; makes what a new one is missing.
    pub fn open(
        backend: Backend,
        clock: Arc<dyn Clock>,
        auth: AuthStore,
        cluster: Cluster,
        config: Config,
    ) -> Result<StateMachine, Fault> {
        // First of all, whether this is a database for us: nothing is written to one that is not.
        cluster.restore(&backend.view())?;
        backend.create_buckets(&Bucket::ALL)?;
        let mut tx = backend.begin();
        auth.start(&mut tx)?;
        tx.commit()?;
        let kept = Kept { lease: config.lease, quota: config.quota };
        let (auth, cluster) = (Arc::new(auth), Arc::new(cluster));
        let Config { store, watch, wake_watch, .. } = config;
        StateMachine::with(backend, clock, auth, cluster, kept, |backend, leases| {
            WatchableStore::open(backend, leases, store, &watch, wake_watch)
        })
    }

    /// Reads what a database holds; `open_store` opens its keys.
    fn with(
        backend: Backend,
        clock: Arc<dyn Clock>,
        auth: Arc<AuthStore>,
        cluster: Arc<Cluster>,
        kept: Kept,
        open_store: impl FnOnce(Backend, &dyn mvcc::Leases) -> Result<WatchableStore, mvcc::Fault>,
    ) -> Result<StateMachine, Fault> {
        let view = backend.view();
        let alarms = AlarmStore::restore(&view)?;
        let lessor = Lessor::new(kept.lease);
        lessor.restore(&view)?;
        let store = open_store(backend.clone(), &Attached(&lessor))?;
        let last = AtomicU64::new(0);
        Ok(StateMachine { backend, store, lessor, auth, cluster, alarms, kept, clock, last })
    }

    /// The one that takes the place of this one, with another database, that a leader sent. They have in common what outlives a database: watchers, tokens,
    /// and who the members are, which all know of the new one from here on. This one can still be read.
    ///
    /// It takes as long as reading all keys. Nobody is to apply anything meanwhile.
    pub(crate) fn successor(&self, backend: Backend) -> Result<StateMachine, Fault> {
        self.cluster.restore(&backend.view())?;
        backend.create_buckets(&Bucket::ALL)?;
        self.auth.restore(&backend.view())?;
        let StateMachine { auth, cluster, clock, kept, .. } = self;
        let (auth, cluster, clock) = (Arc::clone(auth), Arc::clone(cluster), Arc::clone(clock));
        StateMachine::with(backend, clock, auth, cluster, *kept, |backend, leases| {
            self.store.successor(backend, leases)
        })
    }

    /// The last entry that was applied, and its term.
    pub fn applied(&self) -> Result<(Index, Term), Fault> {
        Ok(meta::applied(&self.backend.view())?)
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Commits a transaction; then shows what it did to keys, to readers and watchers at once.
    pub(crate) fn commit(&self, tx: Tx<'_>, changes: Option<Changes>) -> Result<(), Fault> {
        let Some(mut changes) = changes else {
            tx.commit()?;
            return Ok(());
        };
        if planted_bug::is_planted(PlantedBug::DropEvents) && changes.revision() % 16 == 0 {
            changes.lose_events();
        }
        Ok(self.store.commit(tx, &changes)?)
    }
}

/// Leases as keys and users see them.
pub(crate) struct Attached<'a>(pub(crate) &'a Lessor);

impl mvcc::Leases for Attached<'_> {
    fn contains(&self, id: LeaseId) -> bool {
        self.0.contains(id)
    }

    fn lease_of(&self, key: &[u8]) -> Option<LeaseId> {
        self.0.lease_of(key)
    }

    fn attach(&self, id: LeaseId, key: &[u8]) {
        if !self.0.attach(id, key) {
            // At a start, as in etcd: the key stays, though nothing will ever delete it.
            tracing::error!(lease = %id, key = %key.escape_ascii(), "key is attached to a lease that is not there");
        }
    }

    fn detach(&self, id: LeaseId, key: &[u8]) {
        self.0.detach(id, key);
    }
}

impl auth::LeaseKeys for Attached<'_> {
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
