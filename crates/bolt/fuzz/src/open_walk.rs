//! Fuzzes a whole database file: opened, walked through and written to, as it is and with its meta pages' checksums set right.
//!
//! `cargo +nightly fuzz run open_walk` in `crates/bolt`, with cargo-fuzz installed. The corpus is replayed by the ordinary tests.

#![no_main]

mod exercise;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
