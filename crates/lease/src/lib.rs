//! Leases: grant, renew, expire, and the keys attached to them.
//!
//! A lease is a promise: the keys attached to it stay for at least its time to live after it was last renewed, and vanish some time
//! later. What of it is agreed upon and what is not:
//!
//! ```text
//!   through the log, on every member          in the memory of the leader alone
//!   ─────────────────────────────────         ──────────────────────────────────────────────
//!   grant      {ID 7, TTL 60}                 deadline of 7   = 60 s after the last renewal
//!   checkpoint {ID 7, TTL 60, Remaining 25}   turn            → 7 has expired: propose a revoke
//!   revoke     7 and its keys are gone
//! ```
//!
//! Every member runs the same [`Lessor`]. That of the leader is *primary*: for it time runs, and it alone renews. At the others leases never
//! expire; whoever becomes leader starts all of them anew ([`Lessor::promote`]). No date is ever written down: time is
//! monotonic, comes in as an argument, and means nothing to another member.
//!
//! What is always true:
//!
//! - A lessor hands out a lease as expired only once its time to live (or, since the last promotion, what a checkpoint left of it) has
//!   passed since the grant, renewal or promotion that came last. Later is possible: a [`Lessor::turn`] hands out so many and no more.
//! - Only a revoke from the log ends a lease. Until it comes, an expired lease is handed out again and again, and cannot be renewed.
//! - The bucket `lease` has one record for every lease, in etcd's bytes, as of the transaction that the caller commits.
//! - A key is attached to one lease or none.
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
//! lessor.promote(second, 2 * second); // The leader gives everybody one second more.
//! assert_eq!(lessor.renew(LeaseId(7), 10 * second)?, Renewal::Renewed { ttl: 60 });
//! assert!(lessor.turn(69 * second).expired.is_empty());
//! assert_eq!(lessor.turn(70 * second).expired, [LeaseId(7)]);
//!
//! // Proposed, agreed upon, and applied:
//! assert_eq!(lessor.revoke(&mut tx, LeaseId(7))?, ["foo"]);
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Locks
//!
//! Leases are spread over 64 parts (`shard`) by their id, each with its own lock, and nothing ever holds two of them. So a renewal, which is a
//! look into a hash table and the change of one number, waits for the work on one part at most: promotion (everything in that part
//! once) or one step of a turn (`STEP_MAX` entries). Demotion changes one number and drops the queues. Attached keys have a lock of
//! their own, which renewals never take.
//!
//! # Left to others
//!
//! `server` proposes what a turn says, deletes the keys of a revoked lease in the transaction of the revoke, finds out who leads, waits for the
//! revoke of an expired lease, and chooses ids. `mvcc` says which keys are attached, also after a start. The bucket is made by
//! whoever opens the database.

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
    CHECKPOINT_BATCH_MAX, CHECKPOINTS_PER_TURN_MAX, Checkpoint, EXPIRED_PER_TURN_MAX, Renewal,
    TURN_INTERVAL, Turn,
};
pub use spread::SPREAD_LEASES_MIN;
