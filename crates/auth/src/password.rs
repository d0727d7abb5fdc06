//! Password hashes: bcrypt.
//!
//! ```text
//!   $2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy
//!    └┬ └┬ └─────── salt ───────┘└──────── hash ────────────────┘
//!  version cost: 2^10 rounds
//! ```
//!
//! The member that receives a request hashes its password; the log carries the base64 of these 60
//! characters. Hashing takes tens of milliseconds by design, so no lock is held meanwhile, except
//! for entries from before etcd 3.5, which carry plain passwords.

use aws_lc_rs::digest;
use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use bcrypt::Version;
use bytes::Bytes;
use env::Random;

use crate::error::HashError;

/// The most bytes of a password; bcrypt ignores bytes after them.
pub const PASSWORD_BYTES_MAX: usize = 72;

/// The lowest bcrypt cost.
pub const COST_MIN: u32 = 4;
/// The highest bcrypt cost.
pub const COST_MAX: u32 = 31;
/// The default bcrypt cost.
pub const COST_DEFAULT: u32 = 10;

const SALT_BYTES: usize = 16;

/// Base64 as Go decodes it: surplus bits of the last character are ignored.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// A bcrypt cost: a hash takes 2 to this power rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost(u32);

impl Cost {
    /// Compat: as in etcd, an invalid cost is replaced by the default, with a warning.
    #[must_use]
    pub fn new(cost: u32) -> Cost {
        if (COST_MIN..=COST_MAX).contains(&cost) {
            return Cost(cost);
        }
        tracing::warn!(
            given = cost,
            default = COST_DEFAULT,
            "invalid bcrypt cost; using the default"
        );
        Cost(COST_DEFAULT)
    }
}

impl Default for Cost {
    fn default() -> Cost {
        Cost(COST_DEFAULT)
    }
}

/// Hashes a password for the field `hashedPassword` of a request.
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

/// Returns whether a password belongs to a hash. An invalid hash matches no password.
pub(crate) fn verify(password: &str, hash: &[u8]) -> bool {
    let Ok(hash) = std::str::from_utf8(hash) else { return false };
    bcrypt::verify(password, hash).unwrap_or(false)
}

/// Decodes `hashedPassword`. Compat: as in etcd, line breaks are skipped and the decoded bytes are
/// not checked.
pub(crate) fn decode(hashed: &str) -> Option<Bytes> {
    let hashed: String = hashed.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    LENIENT.decode(hashed).ok().map(Bytes::from)
}

/// Hashes a plain password of an entry from before etcd 3.5. Returns `None` if it is too long.
///
/// All members must arrive at the same bytes, so the salt is derived from replicated state. etcd
/// takes a random salt here, and its members differ.
pub(crate) fn hash_at_apply(name: &str, revision: u64, password: &str) -> Option<Bytes> {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&revision.to_be_bytes());
    context.update(name.as_bytes());
    let digest = context.finish();
    let salt = *digest.as_ref().first_chunk()?;
    // Not the configured cost: other members may be configured differently.
    hash(password, Cost::default(), salt).map(Bytes::from)
}

/// Returns the 60 characters, or `None` if the password is too long.
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
    /// Passwords with hashes by golang.org/x/crypto/bcrypt, `GenerateFromPassword`.
    const GO_HASHES: [(&str, &str); 5] = [
        ("", "$2a$04$ZxZdW3criATdIsteG5e/QelF3xmkDl7sP8U8W0pThdT.KwHowSzu2"),
        ("secret", "$2a$04$GOlgT5WXH8PnBpMUdcIDPujcHVrCkuulmIYMvx5Ia/jFyD8/wMHnu"),
        ("päßwörd", "$2a$04$uialTpknfk6v9UaTwzb3tevf.LoJ5z7BItGGHI4LSSVVWIlX9FpoK"),
        ("\0\0\0x", "$2a$04$Eyvf/WNqcH667jVdgcURB.KDoUJsFi7LMgR57Myw6fjXtPmesyEuK"),
        (
            "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
            "$2a$04$ufnw.HA2IJ78mAy8sUdQV.YfW1oC16Z9lwfDESpM7MHtILj7ITtYK",
        ),
    ];

    fn hashed(password: &str) -> Bytes {
        let base64 = hash_password(CHEAP, password, &mut SeededRandom::new(1)).unwrap();
        decode(&base64).unwrap()
    }

    #[test]
    fn a_password_verifies_against_its_own_hash_only() {
        for password in ["", "x", "pass\0word", "päßwörd", &"y".repeat(PASSWORD_BYTES_MAX)] {
            let hash = hashed(password);
            assert_eq!(hash.len(), 60);
            assert!(hash.starts_with(b"$2a$04$"), "{hash:?}");
            assert!(verify(password, &hash), "{password:?}");
            assert!(!verify("another", &hash), "{password:?}");
        }
    }

    #[test]
    fn hashes_made_by_go_verify() {
        for (password, hash) in GO_HASHES {
            assert!(verify(password, hash.as_bytes()), "{password:?}");
            assert!(!verify("another", hash.as_bytes()), "{password:?}");
        }
    }

    #[test]
    fn an_invalid_hash_matches_no_password() {
        for hash in [&b""[..], b"$2a$04$", b"plain", b"\xff\xfe", &[b'$'; 60], &[0; 60]] {
            assert!(!verify("", hash), "{hash:?}");
        }
    }

    #[test]
    fn a_long_password_is_refused_with_gos_text() {
        let long = "y".repeat(PASSWORD_BYTES_MAX + 1);
        let error = hash_password(CHEAP, &long, &mut SeededRandom::new(1)).unwrap_err();
        assert_eq!(error.to_string(), "bcrypt: password length exceeds 72 bytes");
        assert_eq!(hash_at_apply("u", 1, &long), None);
    }

    #[test]
    fn salts_are_random_except_at_apply() {
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
    fn base64_decodes_as_in_go() {
        assert_eq!(decode("").unwrap(), "");
        assert_eq!(decode("aGFz\r\naA==\n").unwrap(), "hash");
        assert_eq!(decode("aGFzaB==").unwrap(), "hash", "surplus bits");
        for refused in ["aGFzaA", "aGFzaA=", "a", "aGFz aA==", "aGFz-A==", "=", "aGFzaA==x"] {
            assert_eq!(decode(refused), None, "{refused}");
        }
    }

    #[test]
    fn an_invalid_cost_is_replaced_by_the_default() {
        assert_eq!([3, 4, 31, 32, 0].map(|cost| Cost::new(cost).0), [10, 4, 31, 10, 10]);
    }
}
