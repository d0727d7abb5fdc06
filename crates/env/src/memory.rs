//! The memory of the machine.

/// Gives memory that is free back to the system, where the allocator keeps it for later. It may take some milliseconds, in which others who allocate wait.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call of the C library")]
    // SAFETY: it takes no pointers, touches nothing but what is free, and may be called by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What the allocator has in hand: bytes that were freed, or never used, some of which may have been given back to the system already. Nothing where that is not
/// known. It counts with 32 bits and begins again from zero, so only differences tell anything.
pub fn free_memory_bytes() -> Option<u32> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "a call of the C library")]
        // SAFETY: it takes nothing, only counts, and may be called by any thread.
        let counted = unsafe { libc::mallinfo() };
        Some(counted.fordblks.cast_unsigned())
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_is_free() {
        // Small enough not to be mapped by itself, and not the last: what is at the end goes back at once.
        let mut taken: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 10_000]).collect();
        let before = free_memory_bytes().unwrap();
        taken.drain(..999);
        let freed = free_memory_bytes().unwrap().wrapping_sub(before).cast_signed();
        assert!(freed > 5_000_000, "{freed}");
        assert_eq!(taken[0].len(), 10_000);
    }
}
