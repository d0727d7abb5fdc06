//! A memory-mapped file.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The first bytes of a file, mapped for reading. Cheap to clone; the memory stays until the last
/// clone is dropped, whatever happens to the file's handle or name.
///
/// Only the slices returned by [`Map::get`] are ever read, so writers may change other bytes: see
/// the contract of [`File::map`](crate::File::map).
#[derive(Clone)]
pub struct Map {
    start: *const u8,
    len: usize,
    /// Address space after `start`, in bytes, at least `len`: room for the file to grow under the
    /// same map.
    reserved: usize,
    /// Keeps the memory alive.
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory at `start` is owned by `owner`, shared between threads only for reading, and
// may be released from any thread.
#[expect(unsafe_code, reason = "raw pointers are not Send")]
unsafe impl Send for Map {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "raw pointers are not Sync")]
unsafe impl Sync for Map {}

impl Map {
    /// Creates a view of memory that `owner` keeps alive.
    ///
    /// # Safety
    /// `reserved` bytes of address space from `start` on must belong to `owner` while it lives, and
    /// the first `len` of them must be readable, subject to the contract of
    /// [`File::map`](crate::File::map).
    #[expect(unsafe_code, reason = "the caller guarantees the validity of the memory")]
    pub(crate) unsafe fn new(
        start: *const u8,
        len: usize,
        reserved: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Map {
        assert!(len <= reserved);
        Map { start, len, reserved, owner }
    }

    /// Returns a view of the same memory with another length.
    ///
    /// # Safety
    /// As for [`Map::new`].
    #[expect(unsafe_code, reason = "the caller guarantees the validity of the memory")]
    pub(crate) unsafe fn resized(&self, len: usize) -> Option<Map> {
        (len <= self.reserved).then(|| Map { len, owner: Arc::clone(&self.owner), ..*self })
    }

    /// Length of the map, in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns bytes of the map, or `None` if they extend beyond its end.
    #[inline]
    pub fn get(&self, offset: usize, len: usize) -> Option<&[u8]> {
        if offset > self.len || len > self.len - offset {
            return None;
        }
        // SAFETY: within the `len` bytes guaranteed to `new`, which live as long as `owner`, hence
        // as `self`. The caller of `File::map` guarantees that they are not written while the slice
        // lives.
        #[expect(unsafe_code, reason = "mapped memory is accessed by pointer")]
        Some(unsafe { std::slice::from_raw_parts(self.start.add(offset), len) })
    }

    /// Prefetches the bytes at an offset and their neighbors into the cache.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.start.wrapping_add(offset);
            // SAFETY: a prefetch reads nothing, and has no effect on an unmapped address.
            #[expect(unsafe_code, reason = "a platform intrinsic")]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(address.cast());
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// Locks the bytes from an offset on in physical memory, reading them from disk if they are not
    /// there. Locks do not nest.
    ///
    /// # Errors
    /// The process may not lock that much (`RLIMIT_MEMLOCK`).
    pub fn lock(&self, offset: usize) -> io::Result<()> {
        let offset = offset.min(self.len);
        // SAFETY: the range is within the memory that `owner` keeps mapped. Locking changes neither
        // its content nor its validity.
        #[expect(unsafe_code, reason = "a libc call")]
        let answer = unsafe { libc::mlock(self.start.add(offset).cast(), self.len - offset) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Undoes [`Map::lock`], for all maps of the same memory.
    pub fn unlock(&self) {
        // SAFETY: as in `lock`. A failure leaves memory locked until it is unmapped.
        #[expect(unsafe_code, reason = "a libc call")]
        unsafe {
            libc::munlock(self.start.cast(), self.len);
        }
    }

    /// Reports whether two maps start at the same address.
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
        // SAFETY: the bytes are static and never written.
        #[expect(unsafe_code, reason = "the test is about maps")]
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
    fn a_map_is_resized_within_its_reservation() {
        let small = map(b"0123456789", 2);
        // SAFETY: all ten bytes are readable.
        #[expect(unsafe_code, reason = "the test is about maps")]
        let (large, too_large) = unsafe { (small.resized(10), small.resized(11)) };
        let large = large.unwrap();
        assert_eq!(large.get(8, 2), Some(&b"89"[..]));
        assert!(large.same_memory(&small) && small.len() == 2);
        assert!(too_large.is_none());
    }
}
