//! Seeded randomness and digests: every random choice of a run derives from its seed.

/// A small generator (Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Similar seeds must not produce similar runs.
        Random(mix(seed ^ 0x5eed_0fb0_3711_4e00))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true with this probability in per mille.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.chance(500)
    }

    /// Returns a position in a list of this length.
    pub(crate) fn position(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a length")
    }

    /// Returns one of several choices; there must be at least one.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.position(choices.len())]
    }

    /// Returns one of several choices, if there are any.
    pub(crate) fn pick_any<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        (!choices.is_empty()).then(|| self.pick(choices))
    }
}

/// A digest of a sequence of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) u64);

impl Digest {
    pub(crate) const EMPTY: Digest = Digest(0xcbf2_9ce4_8422_2325);

    pub(crate) fn of(bytes: &[u8]) -> Digest {
        let mut digest = Digest::EMPTY;
        std::hash::Hasher::write(&mut digest, bytes);
        digest
    }

    #[must_use]
    pub(crate) fn with(self, value: u64) -> Digest {
        Digest(mix(self.0.rotate_left(23) ^ value))
    }
}

/// Allows to digest any type that derives `Hash`. The digest of the standard hasher may change with
/// the compiler.
impl std::hash::Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            *self = self.with(u64::from_le_bytes(word) ^ chunk.len() as u64);
        }
    }

    fn write_u64(&mut self, value: u64) {
        *self = self.with(value);
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
