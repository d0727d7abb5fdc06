//! A digest of a run: two runs of a seed are the same if their digests are.

use std::hash::Hasher;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A running digest (FNV-1a, 64 bits). It does not depend on the machine or the compiler, which the
/// hashers of the standard library may.
///
/// As a [`Hasher`] it takes any type that derives `Hash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest::EMPTY
    }
}

impl Digest {
    /// The digest of nothing.
    pub const EMPTY: Digest = Digest(OFFSET);

    /// Returns the digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        let mut digest = Digest::EMPTY;
        digest.add(bytes);
        digest
    }

    /// Returns the digest with a stored [`Digest::value`], to continue from it.
    #[must_use]
    pub fn from_value(value: u64) -> Digest {
        Digest(value)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Adds a number.
    pub fn add_number(&mut self, number: u64) {
        self.add(&number.to_le_bytes());
    }

    /// Returns the digest with a number added.
    #[must_use]
    pub fn with(mut self, number: u64) -> Digest {
        self.add_number(number);
        self
    }

    /// Returns the digest as a number.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.add(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.add_number(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the FNV specification (draft-eastlake-fnv, appendix C).
    #[test]
    fn the_published_vectors_match() {
        assert_eq!(Digest::of(b"").value(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Digest::of(b"a").value(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Digest::of(b"foobar").value(), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_digest_continues_from_its_value() {
        let half = Digest::of(b"foo");
        let mut whole = Digest::from_value(half.value());
        whole.add(b"bar");
        assert_eq!(whole, Digest::of(b"foobar"));
        assert_ne!(half.with(1), half.with(2));
    }
}
