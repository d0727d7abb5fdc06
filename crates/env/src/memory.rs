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
