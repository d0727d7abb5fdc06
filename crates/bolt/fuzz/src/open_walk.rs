//! Fuzzes a whole database file: opens, walks and writes it, as it is and with corrected meta page
//! checksums.
//!
//! Run `cargo +nightly fuzz run open_walk` in `crates/bolt`, with cargo-fuzz installed. The
//! ordinary tests replay the corpus.

#![no_main]

mod exercise;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
