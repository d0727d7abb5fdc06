//! The log and the snapshot files, from outside: what they promise, and what is left of it when the disk fails.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod common;
mod crash;
mod damage;
mod faults;
mod log;
mod prepare;
mod release;
mod snap;
mod story;
