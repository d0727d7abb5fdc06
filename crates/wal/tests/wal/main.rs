//! Tests of the log and the snapshot files through the public API: guarantees, and what survives
//! disk failures.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod common;
mod corruption;
mod crash;
mod faults;
mod live;
mod log;
mod prepare;
mod release;
mod scenario;
mod snap;
