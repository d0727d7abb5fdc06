//! The record of a lease in the database.
//!
//! ```text
//!   bucket lease   key    00 00 00 00 00 00 00 4d              ID, two's complement, big-endian
//!                  value  08 4d   10 90 1c   18 e5 19          ID 77, TTL 3600, RemainingTTL 3301
//! ```

use backend::schema::{Bucket, keys};
use backend::{Item, ReadError, Tx};
use prost::Message as _;
use proto::leasepb;
use types::LeaseId;

/// A lease in the database. Zero fields are omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    pub(crate) id: LeaseId,
    /// The granted TTL in seconds.
    pub(crate) ttl: i64,
    /// The remaining TTL in seconds at the last checkpoint. Zero: no checkpoint since the last
    /// renewal.
    pub(crate) remaining_ttl: i64,
}

impl LeaseRecord {
    pub(crate) fn put(self, tx: &mut Tx<'_>) {
        let LeaseRecord { id, ttl, remaining_ttl } = self;
        let value = leasepb::Lease { id: id.0, ttl, remaining_ttl }.encode_to_vec();
        tx.put(Bucket::Lease, keys::lease(id), value)
            .expect("a lease record is far below the size bounds");
    }

    pub(crate) fn delete(tx: &mut Tx<'_>, id: LeaseId) {
        tx.delete(Bucket::Lease, keys::lease(id));
    }

    pub(crate) fn decode(item: &Item<'_>) -> Result<LeaseRecord, ReadError> {
        let malformed =
            |reason: String| ReadError::malformed(Bucket::Lease, item.key.as_ref(), reason);
        let id = keys::decode_lease(&item.key)
            .ok_or_else(|| malformed("key is not 8 bytes long".to_owned()))?;
        let leasepb::Lease { id: named, ttl, remaining_ttl } =
            leasepb::Lease::decode(item.value.as_ref())
                .map_err(|error| malformed(format!("not a lease: {error}")))?;
        if named != id.0 {
            return Err(malformed(format!("value belongs to lease {}", LeaseId(named))));
        }
        Ok(LeaseRecord { id, ttl, remaining_ttl })
    }
}

#[cfg(test)]
mod tests {
    use backend::Value;

    use super::*;

    fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
        Item { key: Value::File(key), value: Value::File(value) }
    }

    #[test]
    fn decodes_a_record_of_etcd() {
        let read =
            LeaseRecord::decode(&item(b"\0\0\0\0\0\0\0\x4d", b"\x08\x4d\x10\x90\x1c\x18\xe5\x19"));
        assert_eq!(read, Ok(LeaseRecord { id: LeaseId(77), ttl: 3600, remaining_ttl: 3301 }));
    }

    #[test]
    fn malformed_records_are_described() {
        let text = |key, value| LeaseRecord::decode(&item(key, value)).unwrap_err().to_string();
        assert_eq!(text(b"x", b""), "bucket lease, key x: key is not 8 bytes long");
        let key = b"\0\0\0\0\0\0\0\x4d";
        assert!(text(key, b"\x08").contains("not a lease"));
        assert!(text(key, b"\x08\x4e").contains("value belongs to lease 000000000000004e"));
    }
}
