//! The two meta pages, which hold the root of the database.
//!
//! ```text
//!  page 0 or 1, after the page header:
//!  0      4        8          12     16        24        32        40         48    56
//!  +------+--------+----------+------+---------+---------+---------+----------+-----+----------+
//!  | magic| version| page size| flags| root    | sequence| freelist| high     | txid| checksum |
//!  | u32  | u32    | u32      | u32  | page id | of root | page id | water    |     | FNV-1a   |
//!  +------+--------+----------+------+---------+---------+---------+----------+-----+----------+
//! ```
//!
//! A commit overwrites the older meta page as its very last step, so at least one is always intact.
//! The intact one with the higher txid determines the state of the file. The high water mark is the
//! first page that was never used. A freelist id of all ones means that the freelist was not saved;
//! opening rebuilds it from the reachable pages.

use crate::page::{HEADER, Header, META, PageId, u32_at, u64_at};

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Size of the payload that the checksum covers, in bytes.
const CHECKED: usize = 56;
/// Size of the used part of a meta page, in bytes.
pub(crate) const META_BYTES: usize = HEADER + CHECKED + 8;

/// Freelist id of a file without a saved freelist.
pub(crate) const NO_FREELIST: PageId = u64::MAX;

/// Bounds of the page size. bbolt uses the machine's, and probes these powers of two for the second
/// meta page.
pub(crate) const PAGE_SIZE_MIN: usize = 1 << 10;
pub(crate) const PAGE_SIZE_MAX: usize = 1 << 24;

/// The content of a meta page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_size: usize,
    pub(crate) root: PageId,
    pub(crate) sequence: u64,
    pub(crate) freelist: PageId,
    pub(crate) high_water: PageId,
    pub(crate) txid: u64,
}

impl Meta {
    /// Decodes a meta page from its first bytes.
    pub(crate) fn decode(page: &[u8]) -> Result<Meta, &'static str> {
        let bytes = page.get(HEADER..META_BYTES).ok_or("meta page truncated")?;
        if u32_at(bytes, 0) != MAGIC {
            return Err("invalid database");
        }
        if u32_at(bytes, 4) != VERSION {
            return Err("version mismatch");
        }
        if u64_at(bytes, CHECKED) != fnv1a(&bytes[..CHECKED]) {
            return Err("checksum error");
        }
        let page_size = u32_at(bytes, 8) as usize;
        if !page_size.is_power_of_two() || !(PAGE_SIZE_MIN..=PAGE_SIZE_MAX).contains(&page_size) {
            return Err("page size is not a power of two between 1 KiB and 16 MiB");
        }
        let meta = Meta {
            page_size,
            root: u64_at(bytes, 16),
            sequence: u64_at(bytes, 24),
            freelist: u64_at(bytes, 32),
            high_water: u64_at(bytes, 40),
            txid: u64_at(bytes, 48),
        };
        if meta.high_water < 3 || meta.root < 2 || meta.root >= meta.high_water {
            return Err("root page out of bounds");
        }
        // Leaves room for the next transaction.
        if meta.txid > u64::MAX >> 1 {
            return Err("transaction id out of range");
        }
        Ok(meta)
    }

    /// Encodes the meta page for the slot of its txid.
    pub(crate) fn encode(&self) -> [u8; META_BYTES] {
        self.encode_at(self.slot())
    }

    /// Encodes the meta page for the given slot.
    pub(crate) fn encode_at(&self, slot: PageId) -> [u8; META_BYTES] {
        let mut page = [0; META_BYTES];
        let header = Header { id: slot, flags: META, count: 0, overflow: 0 };
        page[..HEADER].copy_from_slice(&header.encode());
        let bytes = &mut page[HEADER..];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
        let page_size = u32::try_from(self.page_size).expect("at most PAGE_SIZE_MAX");
        bytes[8..12].copy_from_slice(&page_size.to_le_bytes());
        for (at, number) in [
            (16, self.root),
            (24, self.sequence),
            (32, self.freelist),
            (40, self.high_water),
            (48, self.txid),
        ] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = fnv1a(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    /// The meta page, 0 or 1, that this transaction writes.
    pub(crate) fn slot(&self) -> PageId {
        self.txid % 2
    }
}

/// FNV-1a hash, 64 bits.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: Meta = Meta {
        page_size: 4096,
        root: 3,
        sequence: 7,
        freelist: NO_FREELIST,
        high_water: 9,
        txid: 5,
    };

    #[test]
    fn a_meta_page_survives_encoding() {
        assert_eq!(Meta::decode(&META.encode()), Ok(META));
    }

    #[test]
    fn the_checksum_is_fnv1a() {
        // Test vectors of the authors of FNV.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn any_flipped_bit_of_the_payload_is_detected() {
        for bit in HEADER * 8..META_BYTES * 8 {
            let mut page = META.encode();
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(Meta::decode(&page).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        for meta in [
            Meta { page_size: 4095, ..META },
            Meta { page_size: 512, ..META },
            Meta { root: 1, ..META },
            Meta { root: 9, ..META },
            Meta { high_water: 2, ..META },
            Meta { txid: u64::MAX, ..META },
        ] {
            assert!(Meta::decode(&meta.encode()).is_err(), "{meta:?}");
        }
        assert!(Meta::decode(&[0; 30]).is_err());
    }
}
