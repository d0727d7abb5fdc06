//! Leases: grant, renew, expire, and the keys attached to them.
//!
//! The keys attached to a lease exist for at least its time to live (TTL) after the last renewal,
//! and are deleted some time later. Part of the state is replicated, part is not:
//!
//! ```text
//!   replicated through the log                in the memory of the leader alone
//!   ─────────────────────────────────         ──────────────────────────────────────────────
//!   grant      {ID 7, TTL 60}                 deadline of 7   = 60 s after the last renewal
//!   checkpoint {ID 7, TTL 60, Remaining 25}   turn            → 7 has expired: propose a revoke
//!   revoke     deletes 7 and its keys
//! ```
//!
//! Every member runs a [`Lessor`]. The one of the leader is *primary*: it alone has deadlines and
//! renews leases. On the other members leases never expire; a new leader starts all of them again
//! ([`Lessor::promote`]). No point in time is ever stored: time is monotonic, an argument of each
//! call, and has no meaning to another member.
//!
//! Invariants:
//!
//! - A lessor reports a lease as expired only after its TTL (or, since the last promotion, the
//!   remaining TTL of a checkpoint) has passed since the last grant, renewal or promotion. It may
//!   report it later: a [`Lessor::turn`] reports a bounded number.
//! - Only a revoke from the log ends a lease. Until then an expired lease is reported repeatedly,
//!   and cannot be renewed.
//! - The bucket `lease` has one record for every lease, byte for byte as in etcd, in the
//!   transaction that the caller commits.
//! - A key is attached to at most one lease.
//!
//! ```
//! # use std::sync::Arc;
//! # let (disk, clock) = (Arc::new(env::SimDisk::new(0)), Arc::new(env::SimClock::default()));
//! # let backend = backend::Backend::open(disk, clock, "db".as_ref(), backend::Config::default())?;
//! use std::time::Duration;
//!
//! use lease::{Config, Lessor, Renewal};
//! use types::LeaseId;
//!
//! let (lessor, second) = (Lessor::new(Config::default()), Duration::from_secs(1));
//! let mut tx = backend.begin();
//! assert_eq!(lessor.grant(&mut tx, LeaseId(7), 60, second)?, 60);
//! assert!(lessor.attach(LeaseId(7), b"foo"));
//!
//! lessor.promote(second, 2 * second); // the new leader extends every lease by one second
//! assert_eq!(lessor.renew(LeaseId(7), 10 * second)?, Renewal::Renewed { ttl: 60 });
//! assert!(lessor.turn(69 * second).expired.is_empty());
//! assert_eq!(lessor.turn(70 * second).expired, [LeaseId(7)]);
//!
//! // After the revoke was proposed and committed:
//! assert_eq!(lessor.revoke(&mut tx, LeaseId(7))?, ["foo"]);
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Locks
//!
//! Leases are distributed over 64 shards by id, each with a lock. No code holds two of these locks.
//! So a renewal, which is a hash lookup and an assignment, waits at most for the promotion of one
//! shard or for one step of a turn (`STEP_MAX` entries). Demotion changes one number and drops the
//! queues. Attached keys have a lock of their own, which renewals do not take.
//!
//! # Left to other crates
//!
//! `server` proposes the results of a turn, deletes the keys of a revoked lease in the same
//! transaction, promotes and demotes the lessor, waits for the revoke of an expired lease, and
//! chooses ids. `mvcc` attaches keys, also when it opens a database. The caller creates the bucket.

mod config;
mod error;
mod record;

mod attachments;
mod deadline_queue;
mod lease;
mod monotonic_time;
mod shard;

mod lessor;
mod primary;
mod spread;

mod metrics;

pub use config::{
    CHECKPOINT_INTERVAL_DEFAULT, Config, EXPIRED_RETRY_DEFAULT, TTL_MAX_SECONDS,
    TTL_MIN_SECONDS_DEFAULT, ttl_min_seconds,
};
pub use error::{GrantError, RenewError, RevokeError};
pub use lessor::{Lessor, TimeToLive};
pub use metrics::{Counts, TTL_BUCKETS};
pub use primary::{
    CHECKPOINT_BATCH_MAX, CHECKPOINTS_PER_TURN_MAX, Checkpoint, EXPIRED_PER_TURN_MAX, LessorTurn,
    Renewal, TURN_INTERVAL,
};
pub use spread::SPREAD_LEASES_MIN;
