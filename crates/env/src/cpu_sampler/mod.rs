//! Samples of what the threads of this process execute, taken by a CPU-time timer.
//!
//! While a [`CpuSampler`] runs, the kernel sends SIGPROF after each period of CPU time, preferably
//! to the thread that used it up. The signal handler stores the registers and the top of the
//! thread's stack in a free slot; a normal thread takes the samples from there, unwinds them and
//! counts them.
//!
//! ```text
//!   thread (any)     SIGPROF ─► handler ─► slot 3: free → writing → full
//!   pprof thread     drain ◄───────────────────────────── slot 3: full → free
//! ```
//!
//! Everything that could allocate, lock, panic or follow a bad pointer happens outside of the
//! handler. It only uses atomics and two system calls: `gettid`, and `pwrite`, by which the kernel
//! copies the stack into an anonymous file, however much of it is readable.
//!
//! Invariants: one sampler at a time; without one, no timer runs and no signal is sent; the memory
//! of the samples is bounded by [`SLOTS`] and [`STACK_BYTES_MAX`], and is released at the end. A
//! sample without a free slot is counted as lost.

mod platform;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// The most bytes of a stack that are kept. A deeper stack loses its oldest frames.
pub const STACK_BYTES_MAX: usize = 64 << 10;
/// The most samples that can wait to be drained.
const SLOTS: usize = 64;

static STORE: SampleStore = SampleStore::new();
/// Whether a sampler exists.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The anonymous file with the stacks, slot by slot. It is never closed: a handler that was
/// suspended for long could otherwise write to another file with the same descriptor.
static STACKS: OnceLock<File> = OnceLock::new();

/// A running sampler. Dropping it stops the timer.
#[derive(Debug)]
pub struct CpuSampler {
    stacks: &'static File,
    buffer: Vec<u8>,
}

/// The registers from which a stack is unwound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The program counter.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
    /// The link register, on machines that have one.
    pub lr: u64,
}

/// A sample: what a thread was executing when a period of CPU time was used up.
#[derive(Debug)]
pub struct CpuSample<'a> {
    /// The id of the thread in the kernel.
    pub thread: u32,
    /// The registers.
    pub registers: Registers,
    /// The bytes of the stack from the stack pointer on.
    pub stack: &'a [u8],
}

/// A sampler that cannot start.
#[derive(Debug)]
pub enum CpuSamplerError {
    /// Another sampler runs.
    InUse,
    /// The registers of a signal are not known for this machine.
    Unsupported,
    /// The system refused the timer, the signal handler or the file.
    System(io::Error),
}

impl CpuSampler {
    /// Starts the timer. `period` is the CPU time, of all threads together, between two samples.
    ///
    /// # Errors
    /// Another sampler runs, or the system refuses.
    pub fn start(period: Duration) -> Result<CpuSampler, CpuSamplerError> {
        if !platform::IS_SUPPORTED {
            return Err(CpuSamplerError::Unsupported);
        }
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(CpuSamplerError::InUse);
        }
        let started = start_sampling(period);
        if started.is_err() {
            TAKEN.store(false, Ordering::Release);
        }
        started.map_err(CpuSamplerError::System)
    }

    /// Passes all waiting samples to `take`, in no particular order.
    ///
    /// # Errors
    /// The stacks cannot be read.
    pub fn drain(&mut self, mut take: impl FnMut(CpuSample<'_>)) -> io::Result<()> {
        for (number, slot) in STORE.slots.iter().enumerate() {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            let len = usize::try_from(slot.stack_len.load(Ordering::Relaxed)).unwrap_or_default();
            let stack = &mut self.buffer[..len.min(STACK_BYTES_MAX)];
            let stack = match self.stacks.read_exact_at(stack, stack_offset(number)) {
                Ok(()) => &*stack,
                // A handler of the sampler before, whose file has been emptied since.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => &[],
                Err(error) => return Err(error),
            };
            take(CpuSample {
                thread: u32::try_from(slot.thread.load(Ordering::Relaxed)).unwrap_or_default(),
                registers: slot.registers(),
                stack,
            });
            slot.state.store(FREE, Ordering::Release);
        }
        Ok(())
    }

    /// Returns how many samples found no free slot.
    pub fn lost(&self) -> u64 {
        STORE.lost.load(Ordering::Relaxed)
    }
}

impl Drop for CpuSampler {
    fn drop(&mut self) {
        STORE.stacks.store(NO_FILE, Ordering::Release);
        // Stopping a timer does not fail, and a timer without a sampler changes nothing.
        let _ = platform::set_timer(Duration::ZERO);
        // Returns the memory of the stacks.
        let _ = self.stacks.set_len(0);
        TAKEN.store(false, Ordering::Release);
    }
}

fn start_sampling(period: Duration) -> io::Result<CpuSampler> {
    let stacks = match STACKS.get() {
        Some(stacks) => stacks,
        None => {
            let file = platform::anonymous_file()?;
            STACKS.get_or_init(|| file)
        }
    };
    // A slot that stays in `writing` belongs to a handler that has not returned yet.
    STORE.slots.iter().for_each(Slot::discard);
    STORE.lost.store(0, Ordering::Relaxed);
    platform::install_handler()?;
    STORE.stacks.store(std::os::fd::AsRawFd::as_raw_fd(stacks), Ordering::Release);
    let sampler = CpuSampler { stacks, buffer: vec![0; STACK_BYTES_MAX] };
    // On failure, the sampler is dropped, which undoes the rest.
    platform::set_timer(period)?;
    Ok(sampler)
}

/// The samples that wait to be drained. Static, so that it outlives every handler.
struct SampleStore {
    slots: [Slot; SLOTS],
    /// The descriptor of the file with the stacks; [`NO_FILE`] while there is no sampler.
    stacks: AtomicI32,
    lost: AtomicU64,
}

const NO_FILE: i32 = -1;

/// States of a slot.
const FREE: u8 = 0;
const WRITING: u8 = 1;
const FULL: u8 = 2;

/// A place for one sample. Its stack is in the file, at [`stack_offset`].
struct Slot {
    state: AtomicU8,
    thread: AtomicU64,
    pc: AtomicU64,
    sp: AtomicU64,
    fp: AtomicU64,
    lr: AtomicU64,
    stack_len: AtomicU64,
}

impl SampleStore {
    const fn new() -> SampleStore {
        let slots = [const { Slot::new() }; SLOTS];
        SampleStore { slots, stacks: AtomicI32::new(NO_FILE), lost: AtomicU64::new(0) }
    }

    /// Stores a sample of the current thread. Called by the signal handler: it must not allocate,
    /// lock, wait or panic.
    fn record(&self, registers: Registers) {
        let stacks = self.stacks.load(Ordering::Acquire);
        if stacks == NO_FILE {
            return;
        }
        let claimed = self.slots.iter().enumerate().find(|(_, slot)| slot.claim());
        let Some((number, slot)) = claimed else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let copied = platform::copy_stack(stacks, registers.sp, stack_offset(number));
        slot.thread.store(platform::thread_id(), Ordering::Relaxed);
        slot.pc.store(registers.pc, Ordering::Relaxed);
        slot.sp.store(registers.sp, Ordering::Relaxed);
        slot.fp.store(registers.fp, Ordering::Relaxed);
        slot.lr.store(registers.lr, Ordering::Relaxed);
        slot.stack_len.store(copied, Ordering::Relaxed);
        slot.state.store(FULL, Ordering::Release);
    }
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            state: AtomicU8::new(FREE),
            thread: AtomicU64::new(0),
            pc: AtomicU64::new(0),
            sp: AtomicU64::new(0),
            fp: AtomicU64::new(0),
            lr: AtomicU64::new(0),
            stack_len: AtomicU64::new(0),
        }
    }

    fn claim(&self) -> bool {
        self.state.compare_exchange(FREE, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Frees a slot with a sample of an earlier sampler.
    fn discard(&self) {
        let _ = self.state.compare_exchange(FULL, FREE, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn registers(&self) -> Registers {
        Registers {
            pc: self.pc.load(Ordering::Relaxed),
            sp: self.sp.load(Ordering::Relaxed),
            fp: self.fp.load(Ordering::Relaxed),
            lr: self.lr.load(Ordering::Relaxed),
        }
    }
}

/// Returns the position of a slot's stack in the file.
const fn stack_offset(slot: usize) -> u64 {
    (slot * STACK_BYTES_MAX) as u64
}

#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests;
