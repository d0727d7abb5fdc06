//! Control and statistics of the memory allocator.

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
const RETAINED_BYTES_MAX: libc::c_int = 2 << 20;

/// Limits the free memory that the allocator retains. By default it raises both of these bounds
/// whenever a larger allocation is freed, up to 32 and 64 MiB, for each of its heaps.
pub fn limit_retained_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "libc calls")]
    // SAFETY: the calls take no pointers and are thread-safe.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, RETAINED_BYTES_MAX);
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

/// Memory of the allocator, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorStats {
    /// Allocated by the process, with the overhead of each allocation.
    pub allocated: u64,
    /// Free, kept for later allocations. Some of it may be returned to the system already.
    pub free: u64,
}

/// Returns the statistics of the allocator. None where unknown: glibc has had them since 2.33.
/// Walks over the lists of free memory, during which other threads may have to wait to allocate.
pub fn allocator_stats() -> Option<AllocatorStats> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let counted = mallinfo2()?;
        // Large allocations are mapped separately.
        let allocated = counted.uordblks.saturating_add(counted.hblkhd) as u64;
        Some(AllocatorStats { allocated, free: counted.fordblks as u64 })
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// Calls `mallinfo2`, if the C library has it: a link to it would not start with an older one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn mallinfo2() -> Option<libc::mallinfo2> {
    type Mallinfo2 = unsafe extern "C" fn() -> libc::mallinfo2;
    static FUNCTION: std::sync::OnceLock<Option<Mallinfo2>> = std::sync::OnceLock::new();
    let function = *FUNCTION.get_or_init(|| {
        // SAFETY: the name is a C string, and the default handle is valid.
        #[expect(unsafe_code, reason = "a libc call")]
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
        // SAFETY: the address is null, which is no function, or that of the C library's function,
        // which has this type.
        #[expect(unsafe_code, reason = "a function that is looked up by name has no type")]
        unsafe {
            std::mem::transmute::<*mut libc::c_void, Option<Mallinfo2>>(address)
        }
    });
    // SAFETY: the call takes no arguments, only counts, and is thread-safe.
    #[expect(unsafe_code, reason = "a libc call")]
    function.map(|function| unsafe { function() })
}
