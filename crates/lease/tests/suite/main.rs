//! The guarantees of a lessor.
//!
//! | file | content |
//! | --- | --- |
//! | `behavior` | grants, renewals, promotion, expiry, checkpoints and attached keys |
//! | `database` | records in the database, and restarts |
//! | `hostile` | extreme numbers |
//! | `model` | random sequences, compared with a map of deadlines |
//! | `threads` | a lessor shared by several threads |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod behavior;
mod database;
mod hostile;
mod model;
mod threads;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backend::schema::Bucket;
use backend::schema::version::Version;
use backend::{Backend, Read as _};
use bytes::Bytes;
use env::{SimClock, SimDisk};
use lease::{Checkpoint, Config, GrantError, Lessor, LessorTurn, RenewError, Renewal, RevokeError};
use types::LeaseId;

const V3_5: Option<Version> = Some(Version::new(3, 5));
const V3_7: Option<Version> = Some(Version::new(3, 7));

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Opens an empty database.
fn database() -> Backend {
    open(&SimDisk::new(0))
}

fn open(disk: &SimDisk) -> Backend {
    let clock = Arc::new(SimClock::default());
    Backend::open(Arc::new(disk.clone()), clock, Path::new("db"), backend::Config::default())
        .unwrap()
}

/// A lessor with its database and a clock that the test moves.
struct Fixture {
    backend: Backend,
    lessor: Lessor,
    now: Duration,
    cluster: Option<Version>,
}

impl Fixture {
    fn new(config: Config) -> Fixture {
        let (backend, lessor) = (database(), Lessor::new(config));
        Fixture { backend, lessor, now: seconds(1000), cluster: V3_7 }
    }

    /// Creates the lessor of a leader.
    fn primary(config: Config) -> Fixture {
        let fixture = Fixture::new(config);
        fixture.lessor.promote(Duration::ZERO, fixture.now);
        fixture
    }

    /// Applies an entry of the log.
    fn apply<T>(&self, entry: impl FnOnce(&mut backend::Tx<'_>) -> T) -> T {
        let mut tx = self.backend.begin();
        let result = entry(&mut tx);
        tx.commit().unwrap();
        result
    }

    fn grant(&self, id: i64, ttl: i64) -> Result<i64, GrantError> {
        self.apply(|tx| self.lessor.grant(tx, LeaseId(id), ttl, self.now))
    }

    fn revoke(&self, id: i64) -> Result<Vec<Bytes>, RevokeError> {
        self.apply(|tx| self.lessor.revoke(tx, LeaseId(id)))
    }

    fn checkpoint(&self, id: i64, remaining_ttl: i64) {
        let checkpoint = Checkpoint { id: LeaseId(id), remaining_ttl };
        self.apply(|tx| self.lessor.checkpoint(tx, checkpoint, self.cluster, self.now));
    }

    fn renew(&self, id: i64) -> Result<Renewal, RenewError> {
        self.lessor.renew(LeaseId(id), self.now)
    }

    fn promote(&self, extend: Duration) {
        self.lessor.promote(extend, self.now);
    }

    fn turn(&self) -> LessorTurn {
        self.lessor.turn(self.now)
    }

    /// Lets time pass and takes a turn. Returns the expired leases.
    fn expired_after(&mut self, time: Duration) -> Vec<i64> {
        self.now += time;
        self.turn().expired.into_iter().map(|id| id.0).collect()
    }

    /// Returns the remaining seconds, or `None` if the lease does not exist or the lessor is not
    /// primary.
    fn remaining(&self, id: i64) -> Option<i64> {
        self.lessor.time_to_live(LeaseId(id), self.now)?.remaining
    }

    fn leases(&self) -> Vec<i64> {
        self.lessor.leases().into_iter().map(|id| id.0).collect()
    }

    fn keys_of(&self, id: i64) -> Option<Vec<Bytes>> {
        self.lessor.keys_of(LeaseId(id))
    }

    /// Restores the database in a new lessor.
    fn restart(&mut self, config: Config) {
        self.lessor = Lessor::new(config);
        self.lessor.restore(&self.backend.view()).unwrap();
    }

    /// Returns the pairs of the bucket.
    fn bucket(&self) -> Vec<(Bytes, Bytes)> {
        let view = self.backend.view();
        let items = view.all(Bucket::Lease).unwrap().map(Result::unwrap);
        items.map(|item| (item.key.into_bytes(), item.value.into_bytes())).collect()
    }
}
