//! The bucket `auth`: whether users are asked for, and how often what they may do has changed.

use bytes::Bytes;

use crate::error::ReadError;
use crate::read::Read;
use crate::schema::{Bucket, decode_u64};
use crate::tx::Tx;

/// Whether users are asked for: one byte.
pub const ENABLED: &[u8] = b"authEnabled";
/// The revision of users and roles: 8 bytes.
pub const REVISION: &[u8] = b"authRevision";

const YES: &[u8] = &[1];
const NO: &[u8] = &[0];

/// Whether users are asked for. As in etcd, anything but the one byte 1 is no.
pub fn enabled(from: &impl Read) -> Result<bool, ReadError> {
    Ok(from.get(Bucket::Auth, ENABLED)?.is_some_and(|value| *value == *YES))
}

/// Sets whether users are asked for.
pub fn set_enabled(tx: &mut Tx<'_>, enabled: bool) {
    tx.set(Bucket::Auth, ENABLED, Bytes::from_static(if enabled { YES } else { NO }));
}

/// The revision of users and roles; zero before there is one.
pub fn revision(from: &impl Read) -> Result<u64, ReadError> {
    match from.get(Bucket::Auth, REVISION)? {
        None => Ok(0),
        Some(value) => decode_u64(&value)
            .ok_or_else(|| ReadError::malformed(Bucket::Auth, REVISION, "not 8 bytes long")),
    }
}

/// Sets the revision of users and roles.
pub fn set_revision(tx: &mut Tx<'_>, revision: u64) {
    tx.set(Bucket::Auth, REVISION, Bytes::copy_from_slice(&revision.to_be_bytes()));
}
