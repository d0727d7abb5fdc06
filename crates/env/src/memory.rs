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

/// Memory from this length on is the system's again as soon as it is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 1 << 20;
/// What the allocator may keep at the end of each of its heaps, from where [`release_free_memory`] takes nothing.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES_MAX: libc::c_int = 2 << 20;

/// Has the allocator keep little of what is large. Left to itself, it raises both of these bounds whenever something larger is freed, up to 32 and 64 MiB, for each
/// of its heaps.
pub fn keep_little_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "calls of the C library")]
    // SAFETY: they take no pointers, and may be called by any thread.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX);
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
    fn what_is_large_is_kept_by_nobody() {
        keep_little_memory();
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = text.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
        };
        let before = resident();
        // Grown as a buffer grows that is received into.
        let mut taken: Vec<Vec<u8>> = Vec::new();
        for _ in 0..16 {
            let mut buffer = Vec::new();
            (0..8).for_each(|_| buffer.extend_from_slice(&[1; 1 << 20]));
            taken.push(buffer);
        }
        assert!(resident() > before + 100);
        drop(taken);
        assert!(resident() < before + 50, "{before} and now {}", resident());
    }

    #[test]
    fn what_was_freed_is_free() {
        // Small enough not to be mapped by itself, and between others that stay: what is at the end may go back at once.
        let mut taken: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 10_000]).collect();
        let before = free_memory_bytes().unwrap();
        taken.iter_mut().step_by(2).for_each(|one| *one = Vec::new());
        let freed = free_memory_bytes().unwrap().wrapping_sub(before).cast_signed();
        assert!(freed > 5_000_000, "{freed}");
        assert_eq!(taken[1].len(), 10_000);
    }
}
