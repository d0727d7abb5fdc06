//! A file seen as memory.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The first bytes of a file, mapped for reading. Cheap to clone; the memory stays until the last clone is dropped,
/// whatever happens to the file's handle or name.
///
/// Only the slices that [`Map::get`] hands out are ever read, so writers may change what nobody looks at: see the contract of
/// [`File::map`](crate::File::map).
#[derive(Clone)]
pub struct Map {
    start: *const u8,
    len: usize,
    /// How many bytes of address space lie behind `start`, at least `len`: room to let the file grow under the same map.
    reserved: usize,
    /// Keeps the memory.
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory behind `start` is owned by `owner`, is shared between threads only for reading, and may be released
// from any thread.
#[expect(unsafe_code, reason = "a raw pointer is neither by itself")]
unsafe impl Send for Map {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a raw pointer is neither by itself")]
unsafe impl Sync for Map {}

impl Map {
    /// A view of memory that `owner` keeps.
    ///
    /// # Safety
    /// From `start`, `reserved` bytes of address space belong to `owner` for as long as it lives, and the first `len` of
    /// them can be read, subject to the contract of [`File::map`](crate::File::map).
    #[expect(unsafe_code, reason = "the caller vouches for the memory")]
    pub(crate) unsafe fn new(
        start: *const u8,
        len: usize,
        reserved: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Map {
        assert!(len <= reserved);
        Map { start, len, reserved, owner }
    }

    /// The same memory, seen up to another length.
    ///
    /// # Safety
    /// As for [`Map::new`].
    #[expect(unsafe_code, reason = "the caller vouches for the memory")]
    pub(crate) unsafe fn resized(&self, len: usize) -> Option<Map> {
        (len <= self.reserved).then(|| Map { len, owner: Arc::clone(&self.owner), ..*self })
    }

    /// The mapped length.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Some bytes, unless they reach beyond the end.
    #[inline]
    pub fn get(&self, offset: usize, len: usize) -> Option<&[u8]> {
        if offset > self.len || len > self.len - offset {
            return None;
        }
        // SAFETY: within the `len` bytes that `new` was promised, which live as long as `owner`, hence as `self`. That nobody
        // writes them while the slice lives was promised to `File::map`.
        #[expect(unsafe_code, reason = "mapped memory is reached by pointer")]
        Some(unsafe { std::slice::from_raw_parts(self.start.add(offset), len) })
    }

    /// Has the processor fetch the bytes at an offset, which will soon be looked at, and their neighbours.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.start.wrapping_add(offset);
            // SAFETY: a prefetch reads nothing; of an address that is not mapped it does nothing.
            #[expect(unsafe_code, reason = "an instruction of the platform")]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(address.cast());
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// Whether two maps look at the same memory.
    pub fn same_memory(&self, other: &Map) -> bool {
        self.start == other.start
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("len", &self.len).field("reserved", &self.reserved).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(bytes: &'static [u8], len: usize) -> Map {
        // SAFETY: the bytes live for ever and are never written.
        #[expect(unsafe_code, reason = "a map is what is tested")]
        unsafe {
            Map::new(bytes.as_ptr(), len, bytes.len(), Arc::new(()))
        }
    }

    #[test]
    fn a_slice_stays_within_the_mapped_length() {
        let map = map(b"0123456789", 6);
        assert_eq!(map.get(0, 6), Some(&b"012345"[..]));
        assert_eq!(map.get(6, 0), Some(&b""[..]));
        for (offset, len) in [(0, 7), (6, 1), (7, 0), (usize::MAX, 1), (1, usize::MAX)] {
            assert_eq!(map.get(offset, len), None, "{len} at {offset}");
        }
    }

    #[test]
    fn a_map_is_resized_within_its_reserve() {
        let small = map(b"0123456789", 2);
        // SAFETY: all ten bytes can be read.
        #[expect(unsafe_code, reason = "a map is what is tested")]
        let (large, too_large) = unsafe { (small.resized(10), small.resized(11)) };
        let large = large.unwrap();
        assert_eq!(large.get(8, 2), Some(&b"89"[..]));
        assert!(large.same_memory(&small) && small.len() == 2);
        assert!(too_large.is_none());
    }
}
