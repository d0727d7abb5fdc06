//! Control of the memory allocator.

/// Returns free memory that the allocator retains to the system. May take some milliseconds, during
/// which other threads cannot allocate.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a libc call")]
    // SAFETY: the call takes no pointers, touches only free memory, and is thread-safe.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Size from which an allocation is mapped separately and returned to the system as soon as it is
/// freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 1 << 20;
/// Maximum free memory that the allocator retains at the end of each heap; [`release_free_memory`]
/// does not release it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES_MAX: libc::c_int = 2 << 20;

/// Limits the free memory that the allocator retains. By default it raises both of these bounds
/// whenever a larger allocation is freed, up to 32 and 64 MiB, for each of its heaps.
pub fn limit_retained_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "libc calls")]
    // SAFETY: the calls take no pointers and are thread-safe.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX);
    }
}

/// Free bytes held by the allocator, freed or never used, some of which may already be returned to
/// the system. `None` where unknown. A 32-bit counter that wraps around, so only differences are
/// meaningful.
pub fn free_memory_bytes() -> Option<u32> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "a libc call")]
        // SAFETY: the call takes no arguments, only counts, and is thread-safe.
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
    fn large_allocations_are_returned_to_the_system() {
        limit_retained_memory();
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = text.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
        };
        let before = resident();
        // Grows like a receive buffer.
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
    fn freed_memory_is_counted() {
        // Small enough not to be mapped separately, and between allocations that stay: memory at
        // the end of the heap may be returned at once.
        let mut taken: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 10_000]).collect();
        let before = free_memory_bytes().unwrap();
        taken.iter_mut().step_by(2).for_each(|one| *one = Vec::new());
        let freed = free_memory_bytes().unwrap().wrapping_sub(before).cast_signed();
        assert!(freed > 5_000_000, "{freed}");
        assert_eq!(taken[1].len(), 10_000);
    }
}
