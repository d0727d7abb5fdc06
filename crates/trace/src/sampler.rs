//! Samples calls that come without a sampling decision.

use opentelemetry::TraceId;

/// The unit of the sampling rate.
const MILLION: u32 = 1_000_000;

/// Samples a number of calls per million.
///
/// Compat: as in etcd, the trace id decides: its last eight bytes, halved, must be below the rate's
/// share of their range. So all services decide alike about a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    below: u64,
}

impl Sampler {
    pub(crate) fn new(per_million: u32) -> Sampler {
        let part = u128::from(per_million.min(MILLION)) << 63;
        Sampler { below: u64::try_from(part / u128::from(MILLION)).unwrap_or(1 << 63) }
    }

    /// Returns whether no call is sampled.
    pub(crate) fn is_never(self) -> bool {
        self.below == 0
    }

    pub(crate) fn samples(self, trace: TraceId) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace.to_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(last: u64) -> TraceId {
        TraceId::from(u128::from(last))
    }

    #[test]
    fn rates_of_zero_half_and_one_are_exact() {
        let (none, all, half) = (Sampler::new(0), Sampler::new(MILLION), Sampler::new(500_000));
        assert!(none.is_never() && !all.is_never() && !half.is_never());
        for last in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!none.samples(trace(last)));
            assert!(all.samples(trace(last)));
        }
        assert!(half.samples(trace(u64::MAX / 2)) && !half.samples(trace(1 << 63)));
        assert!(Sampler::new(1).samples(trace(1 << 40)));
    }

    #[test]
    fn a_rate_is_met_approximately() {
        let tenth = Sampler::new(MILLION / 10);
        let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sampled = (0..10_000).filter(|n| tenth.samples(trace(spread(*n)))).count();
        assert!((900..1100).contains(&sampled), "{sampled}");
    }
}
