//! The primary lessor, on the leader: promotion, renewal, expiry and checkpoints.
//!
//! ```text
//!   promote ─► every lease: deadline = now + ttl (or the checkpointed rest) + extend, then spread
//!      │          renew: deadline = now + ttl
//!      │          turn, every 500 ms: expired → propose revokes; due checkpoints → propose them
//!   demote ──► deadlines and queues are invalid
//! ```
//!
//! A single number, the [`PrimaryEpoch`], shows whether the lessor is primary: promotion makes it
//! odd and then sets the deadlines shard by shard; demotion makes it even. A shard is primary only
//! in the epoch in which its deadlines were set. So a demotion takes effect without a lock, and
//! ends a promotion that is in progress.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::info;
use types::LeaseId;

use crate::deadline_queue::DeadlineEntry;
use crate::error::RenewError;
use crate::lessor::{Lessor, shard_of};
use crate::monotonic_time::MonotonicTime;
use crate::shard::{PrimaryEpoch, STEP_MAX, Shard};
use crate::spread::spread;

/// The interval at which [`Lessor::turn`] is called.
pub const TURN_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum number of expired leases per turn: 1000 revokes a second.
pub const EXPIRED_PER_TURN_MAX: usize = 500;
/// The maximum number of checkpoints in one proposal.
pub const CHECKPOINT_BATCH_MAX: usize = 1000;
/// The maximum number of checkpoints per turn. A million leases take half a minute, a tenth of the
/// checkpoint interval.
pub const CHECKPOINTS_PER_TURN_MAX: usize = 20 * CHECKPOINT_BATCH_MAX;

/// The remaining TTL of a lease, as proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The lease.
    pub id: LeaseId,
    /// The remaining TTL in seconds. Zero: the full TTL.
    pub remaining_ttl: i64,
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease has its full TTL again.
    Renewed {
        /// The TTL in seconds.
        ttl: i64,
    },
    /// Nothing was changed: the next leader would start from the last checkpoint and expire the
    /// lease too early. Propose a [`Checkpoint`] of zero for the lease, and renew again after it is
    /// applied.
    ClearCheckpoint,
    /// Nothing was changed: the lease has expired, and its revoke is in flight. Wait until that is
    /// applied or this lessor is demoted, then renew again.
    AwaitRevoke,
}

/// The result of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LessorTurn {
    /// The leases to revoke, earliest deadline first.
    pub expired: Vec<LeaseId>,
    /// Checkpoints to propose; see [`LessorTurn::checkpoint_batches`].
    pub checkpoints: Vec<Checkpoint>,
    /// The time before which another turn finds nothing. In the past if this turn reached a bound.
    /// `None` if nothing is queued.
    pub next_due: Option<Duration>,
}

impl LessorTurn {
    /// Splits the checkpoints into proposals.
    pub fn checkpoint_batches(&self) -> impl Iterator<Item = &[Checkpoint]> {
        self.checkpoints.chunks(CHECKPOINT_BATCH_MAX)
    }
}

impl Lessor {
    /// Returns whether this lessor is primary.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.epoch().is_primary()
    }

    /// Makes this lessor primary. Called when the leader has applied all entries of earlier terms.
    /// Every lease gets a new deadline: its TTL, or the remaining TTL of its last checkpoint, plus
    /// `extend`, the time that clients may need to find the new leader. Many leases are
    /// [spread](crate::SPREAD_LEASES_MIN).
    ///
    /// Returns early if the lessor is demoted meanwhile. A demotion just before has no effect: the
    /// caller has to check afterwards whether the member still leads, and demote the lessor if not.
    pub fn promote(&self, extend: Duration, now: Duration) {
        let epoch = self.next_epoch(true);
        let now = MonotonicTime::from_clock(now);
        let mut started: Vec<DeadlineEntry> = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            if self.epoch() != epoch {
                return;
            }
            started.extend(shard.promote(epoch, now, extend, &self.config));
        }
        info!(leases = started.len(), "became primary lessor");
        started.sort_unstable();
        self.delay(epoch, spread(&started));
    }

    /// Delays deadlines: shard by shard, for the sake of the cache, and in steps that release the
    /// lock.
    fn delay(
        &self,
        epoch: PrimaryEpoch,
        delays: impl Iterator<Item = (DeadlineEntry, MonotonicTime)>,
    ) {
        let mut by_shard = vec![Vec::new(); self.shards.len()];
        delays.for_each(|delay| by_shard[shard_of(delay.0.1)].push(delay));
        for (shard, delays) in self.shards.iter().zip(by_shard) {
            for step in delays.chunks(STEP_MAX) {
                let mut shard = shard.lock();
                if shard.epoch != epoch {
                    return;
                }
                step.iter().for_each(|((from, id), to)| shard.delay(*id, *from, *to));
            }
        }
    }

    /// Ends being primary: leases do not expire here any more. Takes effect at once.
    pub fn demote(&self) {
        if !self.is_primary() {
            return;
        }
        let epoch = self.next_epoch(false);
        for shard in &self.shards {
            let mut shard = shard.lock();
            if self.epoch() != epoch {
                return;
            }
            shard.demote();
        }
        info!("no longer primary lessor");
    }

    /// Renews a lease: it gets its full TTL from now on.
    ///
    /// This may shorten a deadline that a promotion extended, to the TTL that the client is told.
    // Compat: etcd clears a checkpoint only if it makes checkpoints itself. Otherwise it renews for
    // no longer than the remaining TTL of the last one, while it tells the client the full TTL.
    // Here a renewal always has the TTL that the client is told.
    pub fn renew(&self, id: LeaseId, now: Duration) -> Result<Renewal, RenewError> {
        let mut shard = self.lock(id);
        if !self.is_primary_for(&shard) {
            return Err(RenewError::NotPrimary);
        }
        shard.renew(id, MonotonicTime::from_clock(now))
    }

    /// Finds expired leases and due checkpoints, if this lessor is primary. A lease that is
    /// reported and not revoked is reported again after
    /// [`Config::expired_retry`](crate::Config::expired_retry).
    pub fn turn(&self, now: Duration) -> LessorTurn {
        let (epoch, now) = (self.epoch(), MonotonicTime::from_clock(now));
        if !epoch.is_primary() {
            return LessorTurn::default();
        }
        let (retry, interval) = (self.config.expired_retry, self.config.checkpoint_interval);
        let expired = self.take(epoch, now, EXPIRED_PER_TURN_MAX, Shard::expiry_due, |shard| {
            shard.take_expired(now, retry)
        });
        let checkpoints =
            self.take(epoch, now, CHECKPOINTS_PER_TURN_MAX, Shard::checkpoint_due, |shard| {
                shard.take_checkpoint(now, interval)
            });
        LessorTurn { expired, checkpoints, next_due: self.next_due(epoch) }
    }

    /// Takes at most `max` due items, each from the shard with the earliest, in steps that release
    /// the lock.
    fn take<T>(
        &self,
        epoch: PrimaryEpoch,
        now: MonotonicTime,
        max: usize,
        due: fn(&Shard) -> Option<MonotonicTime>,
        take_one: impl Fn(&mut Shard) -> Option<T>,
    ) -> Vec<T> {
        let due_now =
            |shard: &Shard| due(shard).filter(|at| *at <= now && shard.epoch == epoch).map(Reverse);
        let shards = self.shards.iter().enumerate();
        let mut order: BinaryHeap<_> =
            shards.filter_map(|(n, shard)| Some((due_now(&shard.lock())?, n))).collect();
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some((_, n)) = order.pop()
        {
            let mut shard = self.shards[n].lock();
            // A promotion may have set new deadlines since the shard was examined.
            if due_now(&shard).is_some() {
                taken.extend(take_one(&mut shard));
            }
            order.extend(due_now(&shard).map(|at| (at, n)));
        }
        taken
    }

    fn next_due(&self, epoch: PrimaryEpoch) -> Option<Duration> {
        let earliest = |shard: &Shard| {
            let due = shard.expiry_due().into_iter().chain(shard.checkpoint_due()).min();
            due.filter(|_| shard.epoch == epoch)
        };
        self.shards.iter().filter_map(|shard| earliest(&shard.lock())).min()?.to_clock()
    }

    /// Advances the epoch to the next odd or even number.
    fn next_epoch(&self, primary: bool) -> PrimaryEpoch {
        let next =
            |epoch: u64| if PrimaryEpoch(epoch).is_primary() == primary { 2 } else { 1 } + epoch;
        // The closure always returns a value, so there is no error.
        match self.epoch.fetch_update(Ordering::AcqRel, Ordering::Acquire, |it| Some(next(it))) {
            Ok(before) | Err(before) => PrimaryEpoch(next(before)),
        }
    }
}
