//! The bucket `auth`: the enabled flag and the auth revision.

use bytes::Bytes;

use crate::error::ReadError;
use crate::read::Read;
use crate::schema::{Bucket, decode_u64};
use crate::tx::Tx;

/// Key of the enabled flag: one byte.
pub const ENABLED: &[u8] = b"authEnabled";
/// Key of the auth revision: 8 bytes.
pub const REVISION: &[u8] = b"authRevision";

const YES: &[u8] = &[1];
const NO: &[u8] = &[0];

/// Reports whether auth is enabled. Compat: as in etcd, any value other than the single byte 1
/// means no.
pub fn enabled(from: &impl Read) -> Result<bool, ReadError> {
    Ok(from.get(Bucket::Auth, ENABLED)?.is_some_and(|value| *value == *YES))
}

/// Sets the enabled flag.
pub fn set_enabled(tx: &mut Tx<'_>, enabled: bool) {
    tx.set(Bucket::Auth, ENABLED, Bytes::from_static(if enabled { YES } else { NO }));
}

/// Returns the auth revision, or 0 if there is none.
pub fn revision(from: &impl Read) -> Result<u64, ReadError> {
    match from.get(Bucket::Auth, REVISION)? {
        None => Ok(0),
        Some(value) => decode_u64(&value)
            .ok_or_else(|| ReadError::malformed(Bucket::Auth, REVISION, "not 8 bytes long")),
    }
}

/// Sets the auth revision.
pub fn set_revision(tx: &mut Tx<'_>, revision: u64) {
    tx.set(Bucket::Auth, REVISION, Bytes::copy_from_slice(&revision.to_be_bytes()));
}
