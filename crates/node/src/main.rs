//! The server.

use std::process::ExitCode;

/// The system's allocator, which samples allocations for heap profiles if they are enabled.
#[global_allocator]
static ALLOCATOR: env::SamplingAllocator = env::SamplingAllocator;

fn main() -> ExitCode {
    node::main(std::env::args_os(), std::env::vars_os())
}
