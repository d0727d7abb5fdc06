//! The lessor of the leader: promotion, renewal, and what to propose.
//!
//! ```text
//!   promote ─► every lease: deadline = now + ttl (or what a checkpoint left) + extend, then spread
//!      │          renew: deadline = now + ttl
//!      │          turn, every half second: expired → propose revokes;  checkpoints → propose them
//!   demote ──► deadlines and queues mean nothing
//! ```
//!
//! Whether the lessor is primary is one number, the [`PrimaryEpoch`]: promotion makes it odd and then lets time run shard by shard, demotion makes it
//! even. A shard counts as primary only in the epoch in which its time was started, so a demotion needs no lock to take
//! effect, and cuts short a promotion that is under way.

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

/// How often [`Lessor::turn`] is to be called.
pub const TURN_INTERVAL: Duration = Duration::from_millis(500);
/// Most leases that a turn hands out as expired: a thousand revokes a second.
pub const EXPIRED_PER_TURN_MAX: usize = 500;
/// Most checkpoints in one proposal.
pub const CHECKPOINT_BATCH_MAX: usize = 1000;
/// Most checkpoints that a turn hands out: a million leases take half a minute, of the five that they have.
pub const CHECKPOINTS_PER_TURN_MAX: usize = 20 * CHECKPOINT_BATCH_MAX;

/// How much of a lease is left, as it goes through the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The lease.
    pub id: LeaseId,
    /// Seconds left. Zero: all of its time to live.
    pub remaining_ttl: i64,
}

/// What came of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease has its time to live again.
    Renewed {
        /// In seconds.
        ttl: i64,
    },
    /// Nothing was changed: the next leader would start from the last checkpoint, and too early. Propose a [`Checkpoint`] of zero for the lease, and
    /// when it is applied renew again.
    ClearCheckpoint,
    /// Nothing was changed: the lease has expired and its revoke is on the way. Wait until that is applied or this lessor is demoted, and
    /// renew again, to learn which it was.
    AwaitRevoke,
}

/// What a turn has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Leases to revoke, the one longest due first.
    pub expired: Vec<LeaseId>,
    /// Checkpoints to propose; see [`Turn::checkpoint_batches`].
    pub checkpoints: Vec<Checkpoint>,
    /// Before this, another turn would find nothing. It may be past, if there was more than one turn hands out. None while nothing is queued.
    pub next_due: Option<Duration>,
}

impl Turn {
    /// The checkpoints, in lists as long as one proposal may have.
    pub fn checkpoint_batches(&self) -> impl Iterator<Item = &[Checkpoint]> {
        self.checkpoints.chunks(CHECKPOINT_BATCH_MAX)
    }
}

impl Lessor {
    /// Whether this lessor is primary.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.epoch().is_primary()
    }

    /// Makes this lessor primary: to be called when the leader has applied all that was there before it. Every lease starts anew with its time to
    /// live, or what its last checkpoint left of it, and `extend`, the time that clients may have needed to find the new leader. If
    /// there are many, they are [spread](crate::SPREAD_LEASES_MIN).
    ///
    /// Returns early if the lessor is demoted meanwhile. One that was demoted just before is promoted all the same: whoever promotes has to look again
    /// whether it still leads, and to demote if not.
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

    /// Moves deadlines to later moments: shard by shard, where most of what is needed is in the cache, and in steps, so that nobody waits.
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

    /// Ends that: leases do not expire here any more. Takes effect at once.
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

    /// Gives a lease its time to live again, from now on.
    ///
    /// A deadline that a promotion has put off may come nearer by this: to what the client is told.
    // Compat: etcd clears a checkpoint only if it makes checkpoints itself, and otherwise renews for no longer than what the last one left,
    // while it tells the client the full time to live. Here a renewal always gives what it tells.
    pub fn renew(&self, id: LeaseId, now: Duration) -> Result<Renewal, RenewError> {
        let mut shard = self.lock(id);
        if !self.is_primary_for(&shard) {
            return Err(RenewError::NotPrimary);
        }
        shard.renew(id, MonotonicTime::from_clock(now))
    }

    /// Finds what has expired and what is due for a checkpoint, if this lessor is primary. What is handed out and not revoked is handed
    /// out again after [`Config::expired_retry`](crate::Config::expired_retry).
    pub fn turn(&self, now: Duration) -> Turn {
        let (epoch, now) = (self.epoch(), MonotonicTime::from_clock(now));
        if !epoch.is_primary() {
            return Turn::default();
        }
        let (retry, interval) = (self.config.expired_retry, self.config.checkpoint_interval);
        let expired = self.take(epoch, now, EXPIRED_PER_TURN_MAX, Shard::expiry_due, |shard| {
            shard.take_expired(now, retry)
        });
        let checkpoints =
            self.take(epoch, now, CHECKPOINTS_PER_TURN_MAX, Shard::checkpoint_due, |shard| {
                shard.take_checkpoint(now, interval)
            });
        Turn { expired, checkpoints, next_due: self.next_due(epoch) }
    }

    /// Takes what is due, at most `max`, from whichever shard has the earliest: one step at a time, so that no lock is held for long.
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
            // Time may have been started anew since the shard was looked at.
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

    /// Moves on to the next odd or even number.
    fn next_epoch(&self, primary: bool) -> PrimaryEpoch {
        let next =
            |epoch: u64| if PrimaryEpoch(epoch).is_primary() == primary { 2 } else { 1 } + epoch;
        // The closure always gives a number, so the first case is the only one.
        match self.epoch.fetch_update(Ordering::AcqRel, Ordering::Acquire, |it| Some(next(it))) {
            Ok(before) | Err(before) => PrimaryEpoch(next(before)),
        }
    }
}
