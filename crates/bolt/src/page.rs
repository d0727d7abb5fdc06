//! A page: the unit in which the file is read, written and reused.
//!
//! ```text
//!  0        8       10      12         16                        16 + 16 * count
//!  +--------+-------+-------+----------+---------+---------+--//--+-------+---------+-------+--//
//!  | id u64 | flags | count | overflow | elem 0  | elem 1  |      | key 0 | value 0 | key 1 |
//!  |        | u16   | u16   | u32      | 16 bytes| 16 bytes|      |       |         |       |
//!  +--------+-------+-------+----------+---------+---------+--//--+-------+---------+-------+--//
//!
//!  element of a leaf    | flags u32 | pos u32 | ksize u32 | vsize u32 |   flags 1: nested bucket
//!  element of a branch  | pos u32   | ksize u32 | child page id u64   |
//! ```
//!
//! Numbers are little-endian. `pos` is the distance from the start of the element to its key; the
//! value follows the key. A page that holds more than its size continues in `overflow` further
//! pages. Keys are sorted; the key of a branch element is the first key below it.
//!
//! Page bytes are untrusted: every access is checked against the bounds of the page, and a
//! violation is reported as a [`CorruptionReason`]. Key order is verified only by
//! [`check`](crate::Snapshot::check).

use std::cmp::Ordering;

/// Number of a page, counted from the start of the file.
pub(crate) type PageId = u64;

/// Size of a page header, in bytes.
pub(crate) const HEADER: usize = 16;
/// Size of a leaf or branch element, in bytes.
pub(crate) const ELEMENT: usize = 16;
/// Maximum number of elements of a page.
pub(crate) const COUNT_MAX: usize = 0xffff - 1;

/// Minimum number of elements for a search that starts with interpolation.
const GUESS_MIN: usize = 16;

/// Bits of a key distance used by the interpolation. Multiplied by [`COUNT_MAX`], they still fit a
/// `u64`.
const SPREAD_BITS: u32 = 48;

/// Page types, by flag.
pub(crate) const BRANCH: u16 = 0x01;
pub(crate) const LEAF: u16 = 0x02;
pub(crate) const META: u16 = 0x04;
pub(crate) const FREELIST: u16 = 0x10;

/// Element flag of a nested bucket.
pub(crate) const BUCKET: u32 = 0x01;

/// Describes an inconsistency in the bytes of a page.
pub(crate) type CorruptionReason = &'static str;

/// Error of elements that share bytes: written separately, they would take more space than before.
pub(crate) const OVERLAP: CorruptionReason = "elements overlap";

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: PageId,
    pub(crate) flags: u16,
    pub(crate) count: u16,
    pub(crate) overflow: u32,
}

impl Header {
    /// Decodes the header of a page.
    #[inline]
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Header {
        Header {
            id: u64_at(bytes, 0),
            flags: u16::from_le_bytes([bytes[8], bytes[9]]),
            count: u16::from_le_bytes([bytes[10], bytes[11]]),
            overflow: u32_at(bytes, 12),
        }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.flags.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.count.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.overflow.to_le_bytes());
        bytes
    }
}

/// A decoded leaf or branch page, or the page of an inline bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    /// 0 for the page of an inline bucket.
    pub(crate) id: PageId,
    pub(crate) is_leaf: bool,
    elements: &'a [[u8; ELEMENT]],
    bytes: &'a [u8],
}

/// A key-value pair or nested bucket in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafElement<'a> {
    pub(crate) is_bucket: bool,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Page<'a> {
    /// Decodes a page from its bytes, which include its overflow pages.
    #[inline]
    pub(crate) fn new(header: Header, bytes: &'a [u8]) -> Result<Page<'a>, CorruptionReason> {
        let is_leaf = match header.flags {
            LEAF => true,
            BRANCH => false,
            _ => return Err("neither a branch nor a leaf page"),
        };
        let (room, _) = bytes.get(HEADER..).unwrap_or_default().as_chunks();
        let elements =
            room.get(..usize::from(header.count)).ok_or("more elements than fit the page")?;
        if !is_leaf && elements.is_empty() {
            return Err("branch without children");
        }
        Ok(Page { id: header.id, is_leaf, elements, bytes })
    }

    /// Decodes the page of an inline bucket, which follows the bucket header in its value.
    pub(crate) fn inline(bytes: &'a [u8]) -> Result<Page<'a>, CorruptionReason> {
        let header = bytes.first_chunk().ok_or("inline bucket truncated")?;
        let page = Page::new(Header { id: 0, ..Header::decode(header) }, bytes)?;
        if page.is_leaf { Ok(page) } else { Err("inline bucket is not a leaf") }
    }

    /// All bytes of the page, including overflow pages.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number of elements.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.elements.len()
    }

    #[inline]
    fn element(&self, index: usize) -> Option<&'a [u8; ELEMENT]> {
        self.elements.get(index)
    }

    /// The bytes that an element refers to.
    #[inline]
    fn data(&self, index: usize, pos: u32, len: usize) -> Result<&'a [u8], CorruptionReason> {
        let start = HEADER + index * ELEMENT + pos as usize;
        self.bytes.get(start..start + len).ok_or("element out of bounds")
    }

    /// Decodes an element of a leaf.
    #[inline]
    pub(crate) fn leaf_element(&self, index: usize) -> Result<LeafElement<'a>, CorruptionReason> {
        let element = self.element(index).ok_or("no such element")?;
        let (pos, ksize, vsize) = (u32_at(element, 4), u32_at(element, 8), u32_at(element, 12));
        let data = self.data(index, pos, ksize as usize + vsize as usize)?;
        let (key, value) = data.split_at(ksize as usize);
        Ok(LeafElement { is_bucket: u32_at(element, 0) & BUCKET != 0, key, value })
    }

    /// Reports whether an element of a leaf is a nested bucket, without reading its key and value.
    #[inline]
    pub(crate) fn is_bucket(&self, index: usize) -> Result<bool, CorruptionReason> {
        Ok(u32_at(self.element(index).ok_or("no such element")?, 0) & BUCKET != 0)
    }

    /// The key of an element of a leaf or branch.
    #[inline]
    pub(crate) fn key(&self, index: usize) -> Result<&'a [u8], CorruptionReason> {
        let element = self.element(index).ok_or("no such element")?;
        let at = if self.is_leaf { 4 } else { 0 };
        self.data(index, u32_at(element, at), u32_at(element, at + 4) as usize)
    }

    /// Offsets of the keys from the start of the page. Not bounds-checked.
    #[inline]
    pub(crate) fn key_offsets(&self) -> impl Iterator<Item = usize> + use<'a> {
        let at = if self.is_leaf { 4 } else { 0 };
        let (elements, _) =
            self.bytes[HEADER..HEADER + self.count() * ELEMENT].as_chunks::<ELEMENT>();
        (0..)
            .zip(elements)
            .map(move |(index, element)| HEADER + index * ELEMENT + u32_at(element, at) as usize)
    }

    /// The child page of a branch element.
    #[inline]
    pub(crate) fn child(&self, index: usize) -> Result<PageId, CorruptionReason> {
        Ok(u64_at(self.element(index).ok_or("no such element")?, 8))
    }

    /// Verifies that elements do not share bytes.
    pub(crate) fn verify_no_overlap(&self) -> Result<(), CorruptionReason> {
        if self.size_of_elements()? > self.bytes.len() { Err(OVERLAP) } else { Ok(()) }
    }

    /// Size of the page if no elements share bytes.
    fn size_of_elements(&self) -> Result<usize, CorruptionReason> {
        let size = |index| match self.is_leaf {
            true => self.leaf_element(index).map(|found| found.key.len() + found.value.len()),
            false => self.key(index).map(<[u8]>::len),
        };
        (0..self.count()).try_fold(HEADER, |sum, index| Ok(sum + ELEMENT + size(index)?))
    }

    /// Searches a key: returns the first element whose key is not less, and whether it is equal.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<(usize, bool), CorruptionReason> {
        let (mut low, mut high) = (0, self.count());
        if self.count() > GUESS_MIN
            && let Some(guess) = self.guess(key)?
        {
            (low, high) = self.gallop(key, guess)?;
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            match compare(self.key(middle)?, key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok((middle, true)),
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }

    /// Interpolates the position of a key, assuming evenly distributed keys, as revisions are.
    #[inline]
    fn guess(&self, key: &[u8]) -> Result<Option<usize>, CorruptionReason> {
        let (first, last) = (self.key(0)?, self.key(self.count() - 1)?);
        let (Some(first), Some(last), Some(key)) = (leading(first), leading(last), leading(key))
        else {
            return Ok(None);
        };
        if key <= first || key >= last {
            return Ok(None);
        }
        // The topmost bits suffice for an estimate, and the product must fit.
        let bits = u64::BITS - (last - first).leading_zeros();
        let shift = bits.saturating_sub(SPREAD_BITS);
        let share =
            ((key - first) >> shift) * (self.count() as u64 - 1) / ((last - first) >> shift);
        Ok(usize::try_from(share).ok())
    }

    /// Exponential search from an estimate: doubles the step until the key is enclosed. Returns the
    /// range left to search: all elements before it are less, all from its end on are not.
    #[inline]
    fn gallop(&self, key: &[u8], guess: usize) -> Result<(usize, usize), CorruptionReason> {
        let mut step = 1;
        if compare(self.key(guess)?, key).is_lt() {
            let mut low = guess + 1;
            while low + step <= self.count() {
                if !compare(self.key(low + step - 1)?, key).is_lt() {
                    return Ok((low, low + step));
                }
                low += step;
                step *= 2;
            }
            return Ok((low, self.count()));
        }
        // Keeps the estimated element in the range: it may be equal.
        let mut high = guess + 1;
        while high > step {
            if compare(self.key(high - step - 1)?, key).is_lt() {
                return Ok((high - step, high));
            }
            high -= step;
            step *= 2;
        }
        Ok((0, high))
    }

    /// Returns the child that covers a key: the last one whose first key is not greater, or else
    /// the first.
    #[inline]
    pub(crate) fn search_child(&self, key: &[u8]) -> Result<usize, CorruptionReason> {
        let (index, exact) = self.search(key)?;
        Ok(if exact { index } else { index.saturating_sub(1) })
    }
}

/// Compares keys bytewise. Compares eight bytes at a time, because most keys are revisions, which
/// first differ in the eighth byte, and avoids a call for the rest.
#[inline]
pub(crate) fn compare(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some((x, rest_a)), Some((y, rest_b))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        if x != y {
            return u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y));
        }
        (a, b) = (rest_a, rest_b);
    }
    a.iter().cmp(b)
}

/// The first eight bytes of a key as a number.
#[inline]
fn leading(key: &[u8]) -> Option<u64> {
    key.first_chunk().map(|chunk| u64::from_be_bytes(*chunk))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a leaf with keys and empty values.
    fn leaf(keys: &[Vec<u8>]) -> Vec<u8> {
        let count = u16::try_from(keys.len()).unwrap();
        let header = Header { id: 2, flags: LEAF, count, overflow: 0 };
        let mut bytes = header.encode().to_vec();
        let mut pos = keys.len() * ELEMENT;
        for key in keys {
            let numbers = [0, pos, key.len(), 0].map(|number| u32::try_from(number).unwrap());
            bytes.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
            pos = pos - ELEMENT + key.len();
        }
        bytes.extend(keys.iter().flatten());
        bytes
    }

    /// Asserts that `search` agrees with a binary search on each key and on its direct neighbors.
    fn assert_searched(keys: &[Vec<u8>]) {
        let bytes = leaf(keys);
        let header = Header::decode(bytes.first_chunk().unwrap());
        let page = Page::new(header, &bytes).unwrap();
        for key in keys {
            let shorter = &key[..key.len() - 1];
            let longer = [key, &b"\0"[..]].concat();
            for wanted in [shorter, key, &longer] {
                let expected = match keys.binary_search_by(|key| key.as_slice().cmp(wanted)) {
                    Ok(index) => (index, true),
                    Err(index) => (index, false),
                };
                assert_eq!(page.search(wanted), Ok(expected), "{wanted:?}");
            }
        }
    }

    #[test]
    fn search_finds_keys_of_any_distribution() {
        for count in [1, GUESS_MIN as u64, GUESS_MIN as u64 + 1, 200] {
            for step in [1, 7, (1 << 47) / count, (1 << 48) / count + 1, u64::MAX / count] {
                let even = |n| n * step;
                let toward_zero = |n: u64| even(n) >> (count - n).min(40);
                for main in [&even as &dyn Fn(u64) -> u64, &toward_zero] {
                    let key = |n: u64| {
                        let sub = [b"_", &n.to_be_bytes()[..]].concat();
                        [&main(n).to_be_bytes()[..], &sub].concat()
                    };
                    assert_searched(&(0..count).map(key).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn compare_orders_keys_bytewise() {
        let keys = [
            &b""[..],
            b"\0",
            b"a",
            b"abcdefgh",
            b"abcdefgh_",
            b"abcdefgh_1234567t",
            b"abcdefg\xff",
            b"b",
        ];
        for a in keys {
            for b in keys {
                assert_eq!(compare(a, b), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
