//! The memory of the allocator and of the process. One test, alone in its process: others would
//! allocate and free meanwhile.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use env::{allocator_stats, free_memory_bytes, limit_retained_memory};

#[test]
fn allocated_and_freed_memory_is_counted_and_returned() {
    large_allocations_are_returned_to_the_system();
    freed_memory_is_counted();
    small_and_large_allocations_are_counted();
}

fn large_allocations_are_returned_to_the_system() {
    limit_retained_memory();
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
    };
    let before = resident();
    // Grows like a receive buffer.
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    for _ in 0..16 {
        let mut buffer = Vec::new();
        (0..8).for_each(|_| buffer.extend_from_slice(&[1; 1 << 20]));
        buffers.push(buffer);
    }
    assert!(resident() > before + 100);
    drop(buffers);
    assert!(resident() < before + 50, "{before} and now {}", resident());
}

fn freed_memory_is_counted() {
    // Small enough not to be mapped separately, and between allocations that stay: memory at the
    // end of the heap may be returned at once.
    let mut buffers: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 10_000]).collect();
    let before = free_memory_bytes().unwrap();
    buffers.iter_mut().step_by(2).for_each(|one| *one = Vec::new());
    let freed = free_memory_bytes().unwrap().wrapping_sub(before).cast_signed();
    assert!(freed > 5_000_000, "{freed}");
    assert_eq!(buffers[1].len(), 10_000);
}

fn small_and_large_allocations_are_counted() {
    let before = allocator_stats().expect("glibc 2.33 or newer");
    let small: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 10_000]).collect();
    let large: Vec<u8> = Vec::with_capacity(1 << 30);
    let after = allocator_stats().unwrap();
    assert!(after.allocated > before.allocated + 20_000_000 + (1 << 30), "{before:?}, {after:?}");
    drop((small, large));
    assert!(allocator_stats().unwrap().allocated < after.allocated);
}
