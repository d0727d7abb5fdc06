//! Randomness as an argument.

use std::fmt::Debug;
use std::io;

/// A source of random numbers.
pub trait Random: Send + Debug {
    /// Returns the next 64 random bits.
    fn next_u64(&mut self) -> io::Result<u64>;
}

/// The random number generator of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn next_u64(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(
                &mut bytes[filled..],
                rustix::rand::GetRandomFlags::empty(),
            ) {
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// A pseudo-random generator with a seed: for tests and simulations, never for secrets
/// (SplitMix64).
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// Creates a generator; equal seeds give equal sequences.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom { state: seed }
    }

    /// Returns the next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "an endless generator, not an iterator")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "bound is not 0");
        self.next() % bound
    }

    /// Returns true with a probability of `num` in `of`.
    pub fn chance(&mut self, num: u64, of: u64) -> bool {
        self.below(of) < num
    }
}

impl Random for SeededRandom {
    fn next_u64(&mut self) -> io::Result<u64> {
        Ok(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let (mut one, mut same, mut other) =
            (SeededRandom::new(7), SeededRandom::new(7), SeededRandom::new(8));
        let first: Vec<_> = (0..100).map(|_| one.next()).collect();
        assert_eq!(first, (0..100).map(|_| same.next()).collect::<Vec<_>>());
        assert_ne!(first, (0..100).map(|_| other.next()).collect::<Vec<_>>());
    }

    #[test]
    fn os_random_numbers_differ() {
        let mut random = OsRandom;
        let numbers: std::collections::BTreeSet<_> =
            (0..16).map(|_| random.next_u64().unwrap()).collect();
        assert_eq!(numbers.len(), 16);
    }

    #[test]
    fn chance_has_the_given_probability() {
        let mut random = SeededRandom::new(1);
        let hits = (0..10_000).filter(|_| random.chance(1, 4)).count();
        assert!((2_200..2_800).contains(&hits), "{hits} of 10000");
    }
}
