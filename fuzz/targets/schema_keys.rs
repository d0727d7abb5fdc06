//! Decodes arbitrary bytes as keys and values of the database.
//!
//! Invariants: no panic. A key that decodes encodes to an equal key.

#![no_main]

use backend::schema::revision::RevisionKey;
use backend::schema::version::Version;
use backend::schema::keys;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(key) = RevisionKey::decode(input) {
        assert_eq!(RevisionKey::decode(&key.encode()), Ok(key));
    }
    if let Some(id) = keys::decode_lease(input) {
        assert_eq!(&keys::lease(id)[..], input);
    }
    if let Some(id) = keys::decode_member(input) {
        assert_eq!(keys::decode_member(&keys::member(id)), Some(id));
    }
    if let Some(alarm) = keys::decode_alarm(input) {
        assert_eq!(keys::decode_alarm(&keys::alarm(&alarm)), Some(alarm));
    }
    if let Some(version) = Version::parse(input) {
        assert_eq!(Version::parse(version.to_string().as_bytes()), Some(version));
    }
});
