//! Counters for etcd's metrics.

use std::ops::AddAssign;

/// The number of bounded buckets of the TTL histogram. Their bounds are 1, 2, 4, .. seconds.
pub const TTL_BUCKETS: usize = 24;

/// Counters since the lessor was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `etcd_debugging_lease_granted_total`.
    pub granted: u64,
    /// `etcd_debugging_lease_revoked_total`.
    pub revoked: u64,
    /// `etcd_debugging_lease_renewed_total`.
    pub renewed: u64,
    /// `etcd_debugging_lease_ttl_total`: the number of TTLs per bucket. The last bucket has no
    /// bound.
    pub ttl: [u64; TTL_BUCKETS + 1],
    /// The sum of the histogram, in seconds.
    pub ttl_sum: u64,
}

impl Counts {
    pub(crate) fn grant(&mut self, ttl: i64) {
        let ttl = ttl.max(0).cast_unsigned();
        self.granted += 1;
        self.ttl[bucket(ttl)] += 1;
        self.ttl_sum = self.ttl_sum.saturating_add(ttl);
    }
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        self.granted += other.granted;
        self.revoked += other.revoked;
        self.renewed += other.renewed;
        self.ttl.iter_mut().zip(other.ttl).for_each(|(sum, more)| *sum += more);
        self.ttl_sum = self.ttl_sum.saturating_add(other.ttl_sum);
    }
}

/// Returns the first bucket whose bound, a power of two, is at least the TTL.
fn bucket(ttl: u64) -> usize {
    (0..TTL_BUCKETS).find(|power| ttl <= 1 << power).unwrap_or(TTL_BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_bounds_are_powers_of_two() {
        let buckets = [0, 1, 2, 3, 4, 5, 1 << 23, (1 << 23) + 1, u64::MAX].map(bucket);
        assert_eq!(buckets, [0, 0, 1, 2, 2, 3, 23, 24, 24]);
    }

    #[test]
    fn counts_of_shards_add_up() {
        let mut sum = Counts { renewed: 3, ..Counts::default() };
        let mut other = Counts::default();
        other.grant(60);
        other.grant(i64::MIN);
        sum += &other;
        assert_eq!((sum.granted, sum.revoked, sum.renewed, sum.ttl_sum), (2, 0, 3, 60));
        assert_eq!((sum.ttl[0], sum.ttl[6]), (1, 1));
    }
}
