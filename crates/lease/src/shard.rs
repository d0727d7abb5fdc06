//! A shard: some of the leases with their queues, under one lock.

use std::time::Duration;

use types::LeaseId;

use crate::config::Config;
use crate::deadline_queue::{DeadlineEntry, DeadlineQueue};
use crate::error::RenewError;
use crate::lease::Lease;
use crate::metrics::Counts;
use crate::monotonic_time::MonotonicTime;
use crate::primary::{Checkpoint, Renewal};

/// The maximum number of queue entries that are examined before the lock is released.
pub(crate) const STEP_MAX: usize = 128;

/// A table with a capacity of this many times its length is shrunk.
const SPARSE_FACTOR: usize = 8;
/// A table below this capacity is not shrunk.
const TABLE_CAPACITY_MIN: usize = 1024;

/// Leases by id.
#[expect(
    clippy::disallowed_types,
    reason = "a renewal is a single lookup, and iterations are sorted before use"
)]
pub(crate) type LeaseMap = std::collections::HashMap<LeaseId, Lease>;

/// The number of promotions and demotions: odd while the lessor is primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrimaryEpoch(pub(crate) u64);

impl PrimaryEpoch {
    pub(crate) fn is_primary(self) -> bool {
        self.0 % 2 == 1
    }
}

/// A part of the leases.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    pub(crate) leases: LeaseMap,
    /// The epoch in which the deadlines were set. In any other, deadlines and queues are invalid.
    pub(crate) epoch: PrimaryEpoch,
    /// The latest known time. Renewals of several threads may arrive out of order: without this a
    /// deadline could go back.
    now: MonotonicTime,
    expiries: DeadlineQueue,
    checkpoints: DeadlineQueue,
    pub(crate) counts: Counts,
}

impl Shard {
    /// Sets the deadlines of all leases. Returns them.
    pub(crate) fn promote(
        &mut self,
        epoch: PrimaryEpoch,
        now: MonotonicTime,
        extend: Duration,
        config: &Config,
    ) -> impl Iterator<Item = DeadlineEntry> {
        self.epoch = epoch;
        let now = self.advance(now);
        self.expiries = DeadlineQueue::from_entries(self.leases.iter_mut().map(|(id, lease)| {
            lease.start(now, extend, config);
            (lease.queued, *id)
        }));
        let due = self.leases.iter().map(|(id, lease)| (lease.checkpoint_due, *id));
        self.checkpoints = if config.checkpoint {
            DeadlineQueue::from_entries(due.filter(|(at, _)| *at != MonotonicTime::FOREVER))
        } else {
            DeadlineQueue::default()
        };
        self.expiries.entries()
    }

    /// Drops the queues, which are invalid until the next promotion.
    pub(crate) fn demote(&mut self) {
        (self.expiries, self.checkpoints) = (DeadlineQueue::default(), DeadlineQueue::default());
    }

    /// Replaces the leases by others without deadlines.
    pub(crate) fn replace(&mut self, leases: LeaseMap) {
        self.leases = leases;
        self.demote();
    }

    /// Adds a lease, with a deadline if the lessor is primary.
    pub(crate) fn insert(
        &mut self,
        id: LeaseId,
        mut lease: Lease,
        primary: Option<(MonotonicTime, &Config)>,
    ) {
        if let Some((now, config)) = primary {
            lease.start(self.advance(now), Duration::ZERO, config);
            self.expiries.push(lease.queued, id);
            self.push_checkpoint(lease.checkpoint_due, id);
        }
        self.counts.grant(lease.ttl);
        self.leases.insert(id, lease);
    }

    pub(crate) fn remove(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.leases.remove(&id)?;
        self.counts.revoked += 1;
        if self.leases.capacity() > TABLE_CAPACITY_MIN.max(SPARSE_FACTOR * self.leases.len()) {
            self.leases.shrink_to(2 * self.leases.len());
        }
        self.drop_stale_entries();
        Some(lease)
    }

    pub(crate) fn renew(&mut self, id: LeaseId, now: MonotonicTime) -> Result<Renewal, RenewError> {
        let now = self.advance(now);
        let lease = self.leases.get_mut(&id).ok_or(RenewError::NotFound)?;
        if lease.is_expired(now) {
            return Ok(Renewal::AwaitRevoke);
        }
        if lease.remaining_ttl > 0 {
            return Ok(Renewal::ClearCheckpoint);
        }
        let ttl = lease.ttl;
        lease.deadline = now.after_seconds(ttl);
        // Only a promotion extends a deadline beyond the TTL, so this happens at most once for each
        // promotion.
        if lease.deadline < lease.queued {
            lease.queued = lease.deadline;
            self.expiries.push(lease.queued, id);
            self.drop_stale_entries();
        }
        self.counts.renewed += 1;
        Ok(Renewal::Renewed { ttl })
    }

    /// Applies a checkpoint.
    pub(crate) fn checkpoint(
        &mut self,
        checkpoint: Checkpoint,
        primary: Option<(MonotonicTime, &Config)>,
    ) {
        let Checkpoint { id, remaining_ttl } = checkpoint;
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let Some((now, config)) = primary else {
            lease.remaining_ttl = remaining_ttl;
            return;
        };
        lease.checkpoint(remaining_ttl, now, config);
        let due = lease.checkpoint_due;
        self.push_checkpoint(due, id);
        self.drop_stale_entries();
    }

    /// Delays a deadline, unless it is no longer `from`.
    pub(crate) fn delay(&mut self, id: LeaseId, from: MonotonicTime, to: MonotonicTime) {
        if let Some(lease) = self.leases.get_mut(&id).filter(|lease| lease.deadline == from) {
            lease.deadline = to;
        }
    }

    /// Returns the next expired lease, after examining at most `STEP_MAX` entries. It is due again
    /// after `retry`.
    pub(crate) fn take_expired(&mut self, now: MonotonicTime, retry: Duration) -> Option<LeaseId> {
        for _ in 0..STEP_MAX {
            let due = self.expiries.due(now)?;
            let (at, id) = due.entry();
            let Some(lease) = self.leases.get_mut(&id).filter(|lease| lease.queued == at) else {
                due.drop_entry();
                continue;
            };
            let expired = lease.is_expired(now);
            lease.queued = if expired { now.after(retry) } else { lease.deadline };
            due.postpone(lease.queued);
            if expired {
                return Some(id);
            }
        }
        None
    }

    /// Returns the next due checkpoint, after examining at most `STEP_MAX` entries. It is due again
    /// after `interval`, in case the proposal is lost.
    pub(crate) fn take_checkpoint(
        &mut self,
        now: MonotonicTime,
        interval: Duration,
    ) -> Option<Checkpoint> {
        for _ in 0..STEP_MAX {
            let due = self.checkpoints.due(now)?;
            let (at, id) = due.entry();
            let lease = self.leases.get_mut(&id).filter(|lease| lease.checkpoint_due == at);
            let Some(lease) = lease.filter(|lease| !lease.is_expired(now)) else {
                due.drop_entry();
                continue;
            };
            lease.checkpoint_due = now.after(interval);
            due.postpone(lease.checkpoint_due);
            if let Some(remaining_ttl) = lease.checkpoint_value(now) {
                return Some(Checkpoint { id, remaining_ttl });
            }
        }
        None
    }

    /// Returns when a lease may have expired.
    pub(crate) fn expiry_due(&self) -> Option<MonotonicTime> {
        self.expiries.first()
    }

    /// Returns when a checkpoint may be due.
    pub(crate) fn checkpoint_due(&self) -> Option<MonotonicTime> {
        self.checkpoints.first()
    }

    /// Iterates over all leases and deadlines, unordered.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = DeadlineEntry> {
        self.leases.iter().map(|(id, lease)| (lease.deadline, *id))
    }

    fn advance(&mut self, now: MonotonicTime) -> MonotonicTime {
        self.now = self.now.max(now);
        self.now
    }

    fn push_checkpoint(&mut self, at: MonotonicTime, id: LeaseId) {
        if at != MonotonicTime::FOREVER {
            self.checkpoints.push(at, id);
        }
    }

    /// Drops stale entries once they are the majority, which bounds a queue to a small multiple of
    /// the leases.
    fn drop_stale_entries(&mut self) {
        let leases = &self.leases;
        if self.expiries.is_mostly_stale(leases.len()) {
            self.expiries.retain(|(at, id)| leases.get(&id).is_some_and(|it| it.queued == at));
        }
        if self.checkpoints.is_mostly_stale(leases.len()) {
            self.checkpoints
                .retain(|(at, id)| leases.get(&id).is_some_and(|it| it.checkpoint_due == at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: PrimaryEpoch = PrimaryEpoch(1);

    fn at(seconds: u64) -> MonotonicTime {
        MonotonicTime::from_clock(Duration::from_secs(seconds))
    }

    fn grant(shard: &mut Shard, id: i64, ttl: i64, now: u64) {
        let config = Config { checkpoint: true, ..Config::default() };
        shard.insert(LeaseId(id), Lease::new(ttl, 0), Some((at(now), &config)));
    }

    #[test]
    fn repeated_renewals_keep_one_queue_entry() {
        let mut shard = Shard::default();
        grant(&mut shard, 1, 10, 0);
        for second in 0..10_000 {
            assert_eq!(shard.renew(LeaseId(1), at(second)), Ok(Renewal::Renewed { ttl: 10 }));
            assert_eq!(shard.take_expired(at(second), Duration::from_secs(3)), None);
            assert_eq!(shard.expiries.len(), 1);
        }
        assert_eq!(shard.take_expired(at(10_009), Duration::from_secs(3)), Some(LeaseId(1)));
    }

    #[test]
    fn revoked_leases_leave_no_queue_entries() {
        let mut shard = Shard::default();
        for id in 1..=100_000 {
            grant(&mut shard, id, 1_000_000, 0);
            if id > 10 {
                assert!(shard.remove(LeaseId(id)).is_some());
            }
            assert!(shard.expiries.len() <= 100 && shard.checkpoints.len() <= 100);
        }
        assert_eq!(shard.leases.len(), 10);
        assert!(shard.leases.capacity() <= 2 * TABLE_CAPACITY_MIN);
    }

    #[test]
    fn a_sparse_table_is_shrunk() {
        let mut shard = Shard::default();
        (1..=50_000).for_each(|id| grant(&mut shard, id, 60, 0));
        (1..=49_999).for_each(|id| assert!(shard.remove(LeaseId(id)).is_some()));
        assert!(shard.leases.capacity() <= 2 * TABLE_CAPACITY_MIN, "{}", shard.leases.capacity());
        assert!(shard.expiries.len() <= 100);
    }

    #[test]
    fn repeated_checkpoints_leave_no_queue_entries() {
        let mut shard = Shard::default();
        grant(&mut shard, 1, 1_000_000, 0);
        let config = Config { checkpoint: true, ..Config::default() };
        for second in 0..10_000_u64 {
            let remaining_ttl = 999_000 - i64::try_from(second).unwrap();
            let checkpoint = Checkpoint { id: LeaseId(1), remaining_ttl };
            shard.checkpoint(checkpoint, Some((at(second), &config)));
            assert_eq!(shard.leases[&LeaseId(1)].remaining_ttl, remaining_ttl);
            assert!(shard.checkpoints.len() <= 100);
        }
    }

    #[test]
    fn a_late_renewal_does_not_move_the_deadline_back() {
        let mut shard = Shard::default();
        grant(&mut shard, 1, 10, 5);
        assert_eq!(shard.renew(LeaseId(1), at(4)), Ok(Renewal::Renewed { ttl: 10 }));
        assert_eq!(shard.leases[&LeaseId(1)].deadline, at(15));
        assert_eq!(shard.expiries.len(), 1);
    }

    #[test]
    fn a_renewal_after_a_promotion_ends_the_extension() {
        let mut shard = Shard::default();
        grant(&mut shard, 1, 10, 0);
        let (extend, config) = (Duration::from_secs(100), Config::default());
        let started = shard.promote(EPOCH, at(0), extend, &config);
        assert!(started.eq([(at(110), LeaseId(1))]));
        assert_eq!(shard.take_expired(at(109), Duration::from_secs(3)), None);
        let again = shard.promote(EPOCH, at(109), extend, &config);
        assert!(again.eq([(at(219), LeaseId(1))]));
        assert_eq!(shard.renew(LeaseId(1), at(110)), Ok(Renewal::Renewed { ttl: 10 }));
        assert_eq!(shard.take_expired(at(120), Duration::from_secs(3)), Some(LeaseId(1)));
        // The entry of the old deadline is stale.
        assert_eq!(shard.expiries.len(), 2);
        assert_eq!(shard.take_expired(at(300), Duration::from_secs(3)), Some(LeaseId(1)));
        assert_eq!(shard.take_expired(at(302), Duration::from_secs(3)), None);
        assert_eq!(shard.expiries.len(), 1);
    }
}
