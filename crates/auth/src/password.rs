//! Passwords as they are kept: bcrypt hashes.
//!
//! ```text
//!   $2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy
//!    └┬ └┬ └─────── salt ───────┘└──────── hash ────────────────┘
//!  version cost: 2^10 rounds
//! ```
//!
//! The member that takes a request hashes the password in it, and what goes through the log is the base64 of these 60 characters.
//! Hashing takes tens of milliseconds by design, so nothing here is called under a lock, except for entries from before etcd 3.5, whose passwords were
//! not hashed yet.

use aws_lc_rs::digest;
use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use bcrypt::Version;
use bytes::Bytes;
use env::Random;

use crate::error::HashError;

/// Most bytes of a password. bcrypt looks at no more.
pub const PASSWORD_BYTES_MAX: usize = 72;

/// The least that a hash may cost.
pub const COST_MIN: u32 = 4;
/// The most that a hash may cost.
pub const COST_MAX: u32 = 31;
/// What a hash costs unless told otherwise.
pub const COST_DEFAULT: u32 = 10;

const SALT_BYTES: usize = 16;

/// Base64 as etcd reads it: what the last character has too many of bits does not matter.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// How much work a hash is: 2 to this number of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost(u32);

impl Cost {
    /// As in etcd, a cost that bcrypt does not have is replaced by the default, with a warning.
    #[must_use]
    pub fn new(cost: u32) -> Cost {
        if (COST_MIN..=COST_MAX).contains(&cost) {
            return Cost(cost);
        }
        tracing::warn!(
            given = cost,
            default = COST_DEFAULT,
            "bcrypt has no such cost: using the default"
        );
        Cost(COST_DEFAULT)
    }
}

impl Default for Cost {
    fn default() -> Cost {
        Cost(COST_DEFAULT)
    }
}

/// What `hashedPassword` of a request is set to, in place of its password.
pub fn hash_password(
    cost: Cost,
    password: &str,
    random: &mut dyn Random,
) -> Result<String, HashError> {
    let mut salt = [0; SALT_BYTES];
    for part in salt.chunks_exact_mut(8) {
        part.copy_from_slice(&random.next_u64()?.to_ne_bytes());
    }
    Ok(STANDARD.encode(hash(password, cost, salt).ok_or(HashError::TooLong)?))
}

/// Whether a password is the one that was hashed. Anything that is no hash is nobody's.
pub(crate) fn verify(password: &str, hash: &[u8]) -> bool {
    let Ok(hash) = std::str::from_utf8(hash) else { return false };
    bcrypt::verify(password, hash).unwrap_or(false)
}

/// Reads `hashedPassword`. As in etcd, line breaks are skipped, and what the base64 says is not looked at.
pub(crate) fn decode(hashed: &str) -> Option<Bytes> {
    let hashed: String = hashed.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    LENIENT.decode(hashed).ok().map(Bytes::from)
}

/// The hash of a password that came through the log as it is. None if it is too long.
///
/// Members must arrive at the same bytes, so the salt follows from what they all know. It is only used for entries that were
/// written before etcd 3.5; etcd itself takes a random salt here, and its members differ.
pub(crate) fn hash_at_apply(name: &str, revision: u64, password: &str) -> Option<Bytes> {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&revision.to_be_bytes());
    context.update(name.as_bytes());
    let digest = context.finish();
    let salt = *digest.as_ref().first_chunk()?;
    // Not at the cost that this member is set to: others may be set to another.
    hash(password, Cost::default(), salt).map(Bytes::from)
}

/// The 60 characters. None if the password is too long.
fn hash(password: &str, cost: Cost, salt: [u8; SALT_BYTES]) -> Option<String> {
    if password.len() > PASSWORD_BYTES_MAX {
        return None;
    }
    let parts = bcrypt::hash_with_salt(password, cost.0, salt).ok()?;
    Some(parts.format_for_version(Version::TwoA))
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::SeededRandom;

    const CHEAP: Cost = Cost(COST_MIN);

    fn hashed(password: &str) -> Bytes {
        let base64 = hash_password(CHEAP, password, &mut SeededRandom::new(1)).unwrap();
        decode(&base64).unwrap()
    }

    #[test]
    fn a_password_is_known_by_its_hash() {
        for password in ["", "x", "pass\0word", "päßwörd", &"y".repeat(PASSWORD_BYTES_MAX)] {
            let hash = hashed(password);
            assert_eq!(hash.len(), 60);
            assert!(hash.starts_with(b"$2a$04$"), "{hash:?}");
            assert!(verify(password, &hash), "{password:?}");
            assert!(!verify("another", &hash), "{password:?}");
        }
    }

    #[test]
    fn hashes_made_by_go_are_known() {
        // golang.org/x/crypto/bcrypt, GenerateFromPassword
        for (password, hash) in crate::testdata::GO_HASHES {
            assert!(verify(password, hash.as_bytes()), "{password:?}");
            assert!(!verify("another", hash.as_bytes()), "{password:?}");
        }
    }

    #[test]
    fn what_is_no_hash_is_nobodys() {
        for hash in [&b""[..], b"$2a$04$", b"plain", b"\xff\xfe", &[b'$'; 60], &[0; 60]] {
            assert!(!verify("", hash), "{hash:?}");
        }
    }

    #[test]
    fn a_long_password_is_refused_in_gos_words() {
        let long = "y".repeat(PASSWORD_BYTES_MAX + 1);
        let error = hash_password(CHEAP, &long, &mut SeededRandom::new(1)).unwrap_err();
        assert_eq!(error.to_string(), "bcrypt: password length exceeds 72 bytes");
        assert_eq!(hash_at_apply("u", 1, &long), None);
    }

    #[test]
    fn salts_differ_unless_they_must_not() {
        let mut random = SeededRandom::new(2);
        let mut hash = || hash_password(CHEAP, "x", &mut random).unwrap();
        assert_ne!(hash(), hash());
        let at_apply = |name, revision| hash_at_apply(name, revision, "x").unwrap();
        assert_eq!(at_apply("u", 1), at_apply("u", 1));
        assert_ne!(at_apply("u", 1), at_apply("u", 2));
        assert_ne!(at_apply("u", 1), at_apply("v", 1));
        assert!(verify("x", &at_apply("u", 1)));
    }

    #[test]
    fn base64_is_read_as_go_reads_it() {
        assert_eq!(decode("").unwrap(), "");
        assert_eq!(decode("aGFz\r\naA==\n").unwrap(), "hash");
        assert_eq!(decode("aGFzaB==").unwrap(), "hash", "bits that nothing is made of");
        for refused in ["aGFzaA", "aGFzaA=", "a", "aGFz aA==", "aGFz-A==", "=", "aGFzaA==x"] {
            assert_eq!(decode(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_cost_that_bcrypt_does_not_have_is_replaced() {
        assert_eq!([3, 4, 31, 32, 0].map(|cost| Cost::new(cost).0), [10, 4, 31, 10, 10]);
    }
}
