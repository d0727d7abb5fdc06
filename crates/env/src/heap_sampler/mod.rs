//! A memory allocator that samples allocations by call stack, for heap profiles.
//!
//! A binary makes [`SamplingAllocator`] its global allocator: the system's allocator, with a
//! countdown of bytes in each thread once [`start_heap_sampling`] was called. The allocation that
//! ends a countdown is a sample. Its call stack is counted, and its address is remembered until it
//! is freed:
//!
//! ```text
//!   alloc 96, alloc 4096, …        countdown 511904, 507808, …
//!   alloc 8192                     ≤ 0: a sample; the next countdown is drawn at random
//!        stack  raft::log::append ◄ server::pipeline::step ◄ …
//!        live   0x7f31c80a10c0 → that stack, 8192 bytes, which stand for 65 objects
//!   free 0x7f31c80a10c0            filter: may be a sample → looked up, and counted as freed
//! ```
//!
//! Countdowns are exponentially distributed, so that every byte has the same chance of being
//! sampled: an allocation of `size` bytes is sampled with probability 1 - e^(-size / period), and
//! stands for the inverse of that number of objects.
//!
//! Invariants: without sampling, an allocation costs one load of a flag more than the system's; the
//! code of a sample may itself allocate, but those allocations are never sampled, so it never
//! re-enters; nothing here panics, because an allocator must not; samples and stacks are bounded by
//! [`LIVE_MAX`] and [`STACKS_MAX`], and samples beyond them are counted as lost.

mod samples;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use samples::{HeapSamples, HeapStack};

use samples::Samples;

/// The mean number of bytes between samples, as in Go.
pub const HEAP_PERIOD_BYTES: u32 = 512 << 10;
/// The most samples that are remembered until they are freed: those of 16 GiB, as a rule.
const LIVE_MAX: usize = 1 << 15;
/// The most distinct call stacks.
const STACKS_MAX: usize = 1 << 13;
/// The most calls of a stack that are kept: the innermost ones.
const DEPTH_MAX: usize = 128;
/// The number of counters in the filter.
const FILTER_LEN: usize = 1 << 16;
/// An odd number whose multiples spread over all bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether allocations are sampled.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);
/// Counts the live samples by a hash of their address: most frees find zero, and look no further.
/// Only changed under the lock of [`SAMPLES`]. No counter overflows, since there are fewer samples.
static FILTER: [AtomicU16; FILTER_LEN] = [const { AtomicU16::new(0) }; FILTER_LEN];
static SAMPLES: Mutex<Samples> = Mutex::new(Samples::new());
/// Makes the random numbers of threads differ.
static SEEDS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    // Neither lazily initialized nor dropped, so that every allocation of a thread can use it.
    static THREAD: ThreadSampler = const { ThreadSampler::new() };
}

/// The system's allocator, which can sample allocations.
#[derive(Clone, Copy, Debug, Default)]
pub struct SamplingAllocator;

// SAFETY: every call is passed on to the system's allocator with the same arguments, and its result
// is returned unchanged, so that the contract is that allocator's. The code in between does not
// touch the memory and does not unwind.
#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
unsafe impl GlobalAlloc for SamplingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller guarantees.
        let start = unsafe { System.alloc(layout) };
        note_alloc(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller guarantees.
        let start = unsafe { System.alloc_zeroed(layout) };
        note_alloc(start, layout.size());
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // Before the memory is freed: another thread may get the same address at once.
        note_free(start);
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(start, layout) };
    }

    /// Counts as freed and allocated again. A sample whose growth fails is forgotten.
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note_free(start);
        // SAFETY: as the caller guarantees.
        let moved = unsafe { System.realloc(start, layout, size) };
        note_alloc(moved, size);
        moved
    }
}

/// Starts sampling, which cannot be stopped. Reports whether the global allocator is a
/// [`SamplingAllocator`].
pub fn start_heap_sampling() -> bool {
    IS_ACTIVE.store(true, Ordering::Relaxed);
    is_sampling()
}

/// Returns the samples so far; none if nothing is sampled.
pub fn heap_samples() -> Option<HeapSamples> {
    if !IS_ACTIVE.load(Ordering::Relaxed) || !is_sampling() {
        return None;
    }
    // Stacks are shared, and converted without the lock, which allocations may wait for.
    let (stacks, lost) = THREAD.with(|thread| thread.with_samples(Samples::share))?;
    Some(HeapSamples { stacks: stacks.into_iter().map(HeapStack::from).collect(), lost })
}

/// Reports whether allocations of this thread are counted.
fn is_sampling() -> bool {
    drop(black_box(Box::new(black_box(0_u64))));
    THREAD.with(|thread| thread.random.get() != 0)
}

fn note_alloc(start: *mut u8, size: usize) {
    if IS_ACTIVE.load(Ordering::Relaxed) && !start.is_null() {
        THREAD.with(|thread| thread.count(start.addr(), size));
    }
}

/// The filter needs no stronger order: the address came to this thread from the one that allocated
/// it, and with it the counter that was incremented before.
fn note_free(start: *mut u8) {
    if IS_ACTIVE.load(Ordering::Relaxed) && filter(start.addr()).load(Ordering::Relaxed) != 0 {
        forget(start.addr());
    }
}

#[cold]
#[inline(never)]
fn forget(address: usize) {
    THREAD.with(|thread| {
        thread.with_samples(|samples| {
            if samples.remove(address) {
                filter(address).fetch_sub(1, Ordering::Relaxed);
            }
        })
    });
}

/// Locks the samples. A poisoned lock is used all the same, because an allocator must not panic.
fn lock_samples() -> MutexGuard<'static, Samples> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the counter of an address in the filter.
fn filter(address: usize) -> &'static AtomicU16 {
    // Allocations are aligned to 16 bytes; the product spreads the other bits.
    let hash = (address as u64 >> 4).wrapping_mul(SPREAD) >> (u64::BITS - FILTER_LEN.ilog2());
    &FILTER[usize::try_from(hash).unwrap_or(0) % FILTER_LEN]
}

/// The countdown of a thread.
struct ThreadSampler {
    /// Bytes until the next sample.
    left: Cell<usize>,
    /// The state of the random numbers; zero before the first allocation.
    random: Cell<u64>,
    /// Whether this thread runs code of a sample, whose own allocations are not counted.
    is_busy: Cell<bool>,
}

impl ThreadSampler {
    const fn new() -> ThreadSampler {
        ThreadSampler { left: Cell::new(0), random: Cell::new(0), is_busy: Cell::new(false) }
    }

    /// Counts an allocation, and samples it if the countdown ends.
    fn count(&self, address: usize, size: usize) {
        match self.left.get().checked_sub(size) {
            Some(left) if left > 0 => self.left.set(left),
            _ => self.end_countdown(address, size),
        }
    }

    #[cold]
    #[inline(never)]
    fn end_countdown(&self, address: usize, size: usize) {
        if self.random.get() == 0 {
            // The first allocation of a thread starts its first countdown.
            self.random.set(SEEDS.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD) | 1);
            self.left.set(self.draw_countdown());
            return self.count(address, size);
        }
        self.exclusively(|| {
            self.left.set(self.draw_countdown());
            // Unwinding may allocate.
            let mut stack = [0; DEPTH_MAX];
            let depth = capture(&mut stack);
            let mut samples = lock_samples();
            if samples.insert(address, size, stack.get(..depth).unwrap_or_default()) {
                filter(address).fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Runs code with the samples. Returns none if this thread does already.
    fn with_samples<T>(&self, run: impl FnOnce(&mut Samples) -> T) -> Option<T> {
        self.exclusively(|| run(&mut lock_samples()))
    }

    /// Runs code of a sample. Returns none if this thread does already: the allocation is one of
    /// that code.
    fn exclusively<T>(&self, run: impl FnOnce() -> T) -> Option<T> {
        if self.is_busy.replace(true) {
            return None;
        }
        let result = run();
        self.is_busy.set(false);
        Some(result)
    }

    /// Draws an exponentially distributed number of bytes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the number is positive, and a cast of a float saturates"
    )]
    fn draw_countdown(&self) -> usize {
        // xorshift64*, whose high 53 bits become a number in (0, 1].
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        let bits = (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1;
        let uniform = bits as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * f64::from(HEAP_PERIOD_BYTES)) as usize + 1
    }
}

/// Stores the return addresses of the current calls, innermost first. Returns their number.
fn capture(stack: &mut [usize; DEPTH_MAX]) -> usize {
    let mut depth = 0;
    let note = |frame: &backtrace::Frame| {
        let Some(address) = stack.get_mut(depth) else { return false };
        *address = frame.ip().addr();
        depth += 1;
        true
    };
    // SAFETY: on Unix, the unwinder needs no synchronization; the lock that the safe function takes
    // is for other systems, and is held for seconds while symbols are resolved.
    #[expect(unsafe_code, reason = "the safe function waits for a lock")]
    unsafe {
        backtrace::trace_unsynchronized(note);
    }
    depth
}

#[cfg(test)]
mod tests;
