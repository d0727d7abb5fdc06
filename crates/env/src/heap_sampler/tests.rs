use std::thread;

use super::*;

#[global_allocator]
static ALLOCATOR: SamplingAllocator = SamplingAllocator;

const BLOCKS: usize = 64;
const BLOCK_BYTES: usize = 1 << 20;

/// Allocates 64 MiB in a function that must appear in the stacks.
#[inline(never)]
fn allocate_blocks_of_the_test() -> Vec<Vec<u8>> {
    (0..BLOCKS).map(|_| black_box(Vec::with_capacity(black_box(BLOCK_BYTES)))).collect()
}

/// Returns the bytes that the function has allocated, and those that are live.
fn bytes_of_the_test() -> (u64, u64) {
    let samples = heap_samples().expect("the allocator samples");
    let is_of_test = |stack: &&HeapStack| {
        stack.addresses.iter().any(|address| {
            let mut found = false;
            let address = usize::try_from(*address).unwrap();
            backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
                let name = symbol.name().map(|name| name.to_string()).unwrap_or_default();
                found |= name.contains("allocate_blocks_of_the_test");
            });
            found
        })
    };
    let found: Vec<&HeapStack> = samples.stacks.iter().filter(is_of_test).collect();
    let sum = |field: fn(&HeapStack) -> u64| found.iter().map(|stack| field(stack)).sum();
    (sum(|stack| stack.bytes), sum(|stack| stack.live_bytes))
}

/// Of 64 blocks, 55 are sampled on average, with a standard deviation of 3.
#[test]
fn live_and_past_allocations_are_estimated_by_stack() {
    assert!(start_heap_sampling());
    let blocks = allocate_blocks_of_the_test();
    let (bytes, live) = bytes_of_the_test();
    let expected = 40 << 20..90 << 20;
    assert!(expected.contains(&bytes), "{bytes} bytes");
    assert_eq!(bytes, live);
    // Freed by another thread.
    thread::spawn(move || drop(blocks)).join().unwrap();
    assert_eq!(bytes_of_the_test(), (bytes, 0));
    // Grown: the old memory is freed, the new is allocated elsewhere.
    let mut blocks = allocate_blocks_of_the_test();
    blocks.iter_mut().for_each(|block| block.reserve_exact(2 * BLOCK_BYTES));
    let (_, live) = bytes_of_the_test();
    // The list of blocks is small, but may be a sample.
    assert!(live < BLOCK_BYTES as u64, "{live} bytes");
    drop(blocks);
}

#[test]
fn threads_that_allocate_and_free_at_once_lose_no_samples() {
    assert!(start_heap_sampling());
    let worker = || {
        for round in 0..20_000_usize {
            let block: Vec<u8> = Vec::with_capacity(black_box(1024 + round % 7));
            drop(black_box(block));
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(worker);
        }
    });
    assert_eq!(heap_samples().unwrap().lost, 0);
}

#[test]
fn countdowns_have_the_right_mean() {
    let thread = ThreadSampler::new();
    thread.random.set(7);
    let drawn: Vec<usize> = (0..10_000).map(|_| thread.draw_countdown()).collect();
    let mean = drawn.iter().sum::<usize>() / drawn.len();
    let period = usize::try_from(HEAP_PERIOD_BYTES).unwrap();
    // A standard deviation is 1 % of the mean.
    assert!((period * 95 / 100..period * 105 / 100).contains(&mean), "{mean}");
}
