//! The lessor: operations from the log, and queries that any member answers.

use parking_lot::{Mutex, MutexGuard};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backend::schema::Bucket;
use backend::schema::version::Version;
use backend::{Read, ReadError, Tx};
use bytes::Bytes;
use types::LeaseId;

use crate::attachments::Attachments;
use crate::config::{Config, TTL_MAX_SECONDS};
use crate::error::{GrantError, RevokeError};
use crate::lease::Lease;
use crate::metrics::Counts;
use crate::monotonic_time::MonotonicTime;
use crate::primary::Checkpoint;
use crate::record::LeaseRecord;
use crate::shard::{LeaseMap, PrimaryEpoch, Shard};

/// The number of id bits that select a shard.
const SHARD_BITS: u32 = 6;
/// The number of shards. Of a million leases, about 16,000 share a lock.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;

/// The maximum number of keys that are copied before the lock is released for the applier.
const KEYS_STEP_MAX: usize = 1024;

/// All leases of a member. Shared by the applier, the threads that serve renewals and queries, and
/// the one that takes turns.
///
/// The applier calls [`grant`](Lessor::grant), [`revoke`](Lessor::revoke),
/// [`checkpoint`](Lessor::checkpoint), [`attach`](Lessor::attach), [`detach`](Lessor::detach) and
/// [`restore`](Lessor::restore), in log order. They write to the backend transaction first and to
/// memory second. If that transaction is not committed, the member has to stop.
#[derive(Debug)]
pub struct Lessor {
    pub(crate) config: Config,
    /// The current [`PrimaryEpoch`]. The leases of a shard do not depend on it, so it orders
    /// nothing else.
    pub(crate) epoch: AtomicU64,
    pub(crate) shards: Box<[Mutex<Shard>]>,
    /// Lock order: before a shard.
    attachments: Mutex<Attachments>,
}

/// The TTL of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// The granted TTL in seconds.
    pub granted: i64,
    /// The remaining seconds, rounded towards zero; negative if the lease expired a second ago or
    /// earlier. `None` if this lessor is not primary.
    pub remaining: Option<i64>,
}

impl Lessor {
    /// Creates a lessor without leases that is not primary.
    #[must_use]
    pub fn new(config: Config) -> Lessor {
        Lessor {
            config: config.with_defaults(),
            epoch: AtomicU64::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            attachments: Mutex::default(),
        }
    }

    /// Loads the leases of a database, at a start or after a snapshot was received. Drops all
    /// leases and attached keys that it had, and demotes the lessor. Changes nothing if it fails.
    pub fn restore(&self, from: &impl Read) -> Result<(), ReadError> {
        let mut restored: [LeaseMap; SHARDS] = array::from_fn(|_| LeaseMap::default());
        for item in from.all(Bucket::Lease)? {
            let LeaseRecord { id, ttl, remaining_ttl } = LeaseRecord::decode(&item?)?;
            let lease = Lease::new(ttl.max(self.config.ttl_min_seconds), remaining_ttl);
            restored[shard_of(id)].insert(id, lease);
        }
        self.demote();
        *self.attachments.lock() = Attachments::default();
        for (shard, leases) in self.shards.iter().zip(restored) {
            shard.lock().replace(leases);
        }
        Ok(())
    }

    /// Grants a lease. Returns its TTL: the requested one, or the minimum.
    pub fn grant(
        &self,
        tx: &mut Tx<'_>,
        id: LeaseId,
        ttl: i64,
        now: Duration,
    ) -> Result<i64, GrantError> {
        let Some(id) = LeaseId::from_wire(id.0) else { return Err(GrantError::NotFound) };
        if ttl > TTL_MAX_SECONDS {
            return Err(GrantError::TtlTooLarge);
        }
        let mut shard = self.lock(id);
        if shard.leases.contains_key(&id) {
            return Err(GrantError::Exists);
        }
        let lease = Lease::new(ttl.max(self.config.ttl_min_seconds), 0);
        lease.record(id).put(tx);
        let primary = self.as_primary(&shard, now);
        shard.insert(id, lease, primary);
        Ok(lease.ttl)
    }

    /// Revokes a lease. Returns its attached keys, sorted, which the caller deletes in the same
    /// transaction.
    pub fn revoke(&self, tx: &mut Tx<'_>, id: LeaseId) -> Result<Vec<Bytes>, RevokeError> {
        let mut attachments = self.attachments.lock();
        let mut shard = self.lock(id);
        if !shard.leases.contains_key(&id) {
            return Err(RevokeError::NotFound);
        }
        LeaseRecord::delete(tx, id);
        shard.remove(id);
        // Renewals do not wait for the keys.
        drop(shard);
        Ok(attachments.detach_all(id))
    }

    /// Applies a checkpoint: sets the remaining TTL from which the next leader starts. Ignores a
    /// lease that was revoked meanwhile.
    ///
    /// Compat: as in etcd, the cluster version determines whether the database records it; before
    /// 3.6 it was an option.
    pub fn checkpoint(
        &self,
        tx: &mut Tx<'_>,
        checkpoint: Checkpoint,
        cluster: Option<Version>,
        now: Duration,
    ) {
        let Checkpoint { id, remaining_ttl } = checkpoint;
        let mut shard = self.lock(id);
        let Some(lease) = shard.leases.get(&id) else { return };
        if self.config.persists_checkpoints(cluster) {
            LeaseRecord { remaining_ttl, ..lease.record(id) }.put(tx);
        }
        let primary = self.as_primary(&shard, now);
        shard.checkpoint(checkpoint, primary);
    }

    /// Returns whether a lease exists.
    #[must_use]
    pub fn contains(&self, id: LeaseId) -> bool {
        self.lock(id).leases.contains_key(&id)
    }

    /// Attaches a key to a lease, and detaches it from any other. Returns false, without a change,
    /// if the lease does not exist.
    pub fn attach(&self, id: LeaseId, key: &[u8]) -> bool {
        let mut attachments = self.attachments.lock();
        let exists = self.contains(id);
        if exists {
            attachments.attach(id, key);
        }
        exists
    }

    /// Detaches a key from a lease, if it is attached to it.
    pub fn detach(&self, id: LeaseId, key: &[u8]) {
        self.attachments.lock().detach(id, key);
    }

    /// Returns the lease that a key is attached to.
    #[must_use]
    pub fn lease_of(&self, key: &[u8]) -> Option<LeaseId> {
        self.attachments.lock().lease_of(key)
    }

    /// Returns the keys attached to a lease, sorted, or `None` if the lease does not exist.
    ///
    /// A long list is copied in steps that release the lock. Keys that are attached or detached
    /// meanwhile may be included or not.
    #[must_use]
    pub fn keys_of(&self, id: LeaseId) -> Option<Vec<Bytes>> {
        if !self.contains(id) {
            return None;
        }
        let (mut keys, mut last) = (Vec::new(), None);
        loop {
            let step = self.attachments.lock().keys_after(id, last.as_ref(), KEYS_STEP_MAX);
            keys.extend(step.iter().map(|key| Bytes::copy_from_slice(key)));
            if step.len() < KEYS_STEP_MAX {
                return Some(keys);
            }
            last = step.last().cloned();
        }
    }

    /// Returns the TTL of a lease, or `None` if it does not exist.
    #[must_use]
    pub fn time_to_live(&self, id: LeaseId, now: Duration) -> Option<TimeToLive> {
        let shard = self.lock(id);
        let lease = shard.leases.get(&id)?;
        let left = || lease.deadline.seconds_since(MonotonicTime::from_clock(now));
        let remaining = self.is_primary_for(&shard).then(left);
        Some(TimeToLive { granted: lease.ttl, remaining })
    }

    /// Returns all leases: at the primary in the order of expiry, elsewhere by id.
    #[must_use]
    pub fn leases(&self) -> Vec<LeaseId> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let primary = self.is_primary_for(&shard);
            let deadline = |it| if primary { it } else { MonotonicTime::FOREVER };
            all.extend(shard.deadlines().map(|(at, id)| (deadline(at), id)));
        }
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the number of leases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().leases.len()).sum()
    }

    /// Returns whether there are no leases.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counters for metrics.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.shards.iter().for_each(|shard| sum += &shard.lock().counts);
        sum
    }

    pub(crate) fn epoch(&self) -> PrimaryEpoch {
        PrimaryEpoch(self.epoch.load(Ordering::Acquire))
    }

    /// Returns whether the leases of a shard have deadlines. During a promotion, only some shards
    /// do.
    pub(crate) fn is_primary_for(&self, shard: &Shard) -> bool {
        shard.epoch.is_primary() && shard.epoch == self.epoch()
    }

    fn as_primary(&self, shard: &Shard, now: Duration) -> Option<(MonotonicTime, &Config)> {
        self.is_primary_for(shard).then(|| (MonotonicTime::from_clock(now), &self.config))
    }

    pub(crate) fn lock(&self, id: LeaseId) -> MutexGuard<'_, Shard> {
        self.shards[shard_of(id)].lock()
    }
}

/// Returns the shard of a lease. Ids often differ in their last digits only, so they are mixed;
/// always in the same way, because runs must be reproducible.
pub(crate) fn shard_of(id: LeaseId) -> usize {
    let mixed = id.0.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - SHARD_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_ids_are_spread_evenly_over_shards() {
        let mut found = [0; SHARDS];
        (0x694d_81bd_3c00..).take(64_000).for_each(|id| found[shard_of(LeaseId(id))] += 1);
        assert!(found.iter().all(|n| (900..1100).contains(n)), "{found:?}");
        assert!([i64::MIN, -1, 0, i64::MAX].iter().all(|id| shard_of(LeaseId(*id)) < SHARDS));
    }
}
