//! Opens arbitrary bytes as a database file, walks it and writes to it.

#![no_main]

#[path = "../../crates/bolt/fuzz/src/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| exercise::exercise(input));
