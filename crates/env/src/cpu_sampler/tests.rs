use std::hint::black_box;
use std::time::Instant;

use super::*;

/// A value that the busy function keeps on its stack.
const SENTINEL: u64 = 0x5eed_0b0e_11e5_7ac4;
/// More time than any sample should take to arrive.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Uses CPU time, with the sentinel on the stack.
#[inline(never)]
fn burn() -> u64 {
    let mut words = [SENTINEL; 64];
    black_box(&mut words);
    for round in 0..100_000_u64 {
        black_box(round.wrapping_mul(words[(round % 64) as usize]));
    }
    words[63]
}

/// The tests share the only sampler of the process, so that they run as one.
#[test]
fn samples_show_the_registers_and_stack_of_busy_threads() {
    let mut sampler = CpuSampler::start(Duration::from_millis(1)).unwrap();
    assert!(matches!(CpuSampler::start(Duration::from_millis(1)), Err(CpuSamplerError::InUse)));
    let this_thread = u32::try_from(platform::thread_id()).unwrap();
    let started = Instant::now();
    let (mut samples, mut with_sentinel) = (0, 0);
    while with_sentinel < 5 {
        assert!(started.elapsed() < TIMEOUT, "{with_sentinel} of {samples} samples in {TIMEOUT:?}");
        black_box(burn());
        let drained = sampler.drain(|sample| {
            let CpuSample { thread, registers, stack } = sample;
            assert!(registers.pc != 0 && registers.sp != 0 && !stack.is_empty());
            samples += 1;
            let mut words = stack.chunks_exact(8);
            let found = words.any(|word| word == SENTINEL.to_ne_bytes());
            with_sentinel += u32::from(thread == this_thread && found);
        });
        drained.unwrap();
    }
    drop(sampler);
    // A second sampler starts from scratch, also after a signal without a sampler.
    black_box(burn());
    let mut sampler = CpuSampler::start(Duration::from_secs(3600)).unwrap();
    let mut samples = 0;
    // The handler of another thread may have been interrupted and end only now.
    sampler.drain(|sample| samples += u32::from(sample.thread == this_thread)).unwrap();
    assert_eq!((samples, sampler.lost()), (0, 0));
}

#[test]
fn a_stack_is_copied_up_to_the_first_page_that_cannot_be_read() {
    let file = platform::anonymous_file().unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    let words = [SENTINEL; 4];
    let at = words.as_ptr().addr() as u64;
    let copied = platform::copy_stack(descriptor, at, stack_offset(3));
    assert!(copied >= 32, "{copied}");
    let mut found = [0; 8];
    file.read_exact_at(&mut found, stack_offset(3)).unwrap();
    assert_eq!(found, SENTINEL.to_ne_bytes());
    // Addresses that are not mapped.
    assert_eq!(platform::copy_stack(descriptor, 8, 0), 0);
    assert_eq!(platform::copy_stack(descriptor, u64::MAX - 7, 0), 0);
}
