//! Profiles of this process, in the format and at the paths of Go's `net/http/pprof`.
//!
//! ```text
//!   /debug/pprof/                      an index page
//!   /debug/pprof/profile?seconds=30    CPU time by call stack          cpu
//!   /debug/pprof/heap                  live and past allocations       heap
//!   /debug/pprof/allocs                the same, past allocations first
//!   /debug/pprof/goroutine             threads: name, state, wait      threads
//!   /debug/pprof/threadcreate          threads by name
//!   /debug/pprof/cmdline               the command line
//!   /debug/pprof/symbol?0x55d0…        function names of addresses     symbols
//!   /debug/pprof/trace, block, mutex   501: nothing records them here
//! ```
//!
//! `go tool pprof http://…/debug/pprof/profile` and continuous profilers work as with a Go program.
//! [`Profiles::respond`] answers a request, without a socket or a runtime, so that any HTTP handler
//! can mount it.
//!
//! A profile is a set of call stacks with counters. Stacks are addresses first; `symbols`
//! resolves each address once, and `pprof` encodes the result:
//!
//! ```text
//!   SIGPROF ─► env::CpuSampler ─► unwind ──┐
//!   allocator ─► env::heap_samples ─► heap ─┴─► StackCounts ─► symbols ─► pprof ─► gzip
//! ```
//!
//! Invariants: at most eight profiles at a time, of which one is of the CPU, and others are
//! refused; without a request, nothing is measured except for sampled allocations; the duration,
//! the number of stacks and their depth are bounded.

mod cpu;
mod elf;
mod heap;
mod http;
mod index;
mod mapped_files;
mod pprof;
mod stack_counts;
mod symbols;
mod threads;
mod unwind;

pub use http::{PREFIX, ProfileRequest, Profiles, SYMBOL_BYTES_MAX};

/// The tests take heap profiles.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: env::SamplingAllocator = env::SamplingAllocator;
