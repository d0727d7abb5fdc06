//! Disk, clock and randomness: everything that Bowline gets from the machine it runs on.
//!
//! Components that store data or make decisions receive these as arguments and use no other access
//! to the machine. Production uses [`OsDisk`], [`OsClock`] and [`OsRandom`]. Tests use a
//! [`SimDisk`], which loses unsynced data in a simulated power cut, fails on demand and counts
//! every call, a [`SimClock`] that advances only by calls, and a reproducible [`SeededRandom`].
//! The code in between is the same.
//!
//! The traits are used as trait objects: every call through them is a system call, next to which a
//! virtual call costs nothing, and the crates above need no type parameters. The only hot path,
//! reading a mapped file, uses the plain struct [`Map`].

mod cpu_sampler;
mod disk;
mod heap_sampler;
mod host;
mod map;
mod memory;
mod os;

mod clock;
mod random;

mod sim;

pub use clock::{Clock, OsClock, SimClock};
pub use cpu_sampler::{CpuSample, CpuSampler, CpuSamplerError, Registers, STACK_BYTES_MAX};
pub use disk::{Create, Disk, File, Kind, Lock, Locking, Open, parent};
pub use heap_sampler::{
    HEAP_PERIOD_BYTES, HeapSamples, HeapStack, SamplingAllocator, heap_samples, start_heap_sampling,
};
pub use host::host_name;
pub use map::Map;
pub use memory::{
    AllocatorStats, allocator_stats, free_memory_bytes, limit_retained_memory, release_free_memory,
};
pub use os::OsDisk;
pub use random::{OsRandom, Random, SeededRandom};
pub use sim::{Calls, Fault, HungDisk, SimDisk};
