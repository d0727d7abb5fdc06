//! Fuzzes the state machine with a log of arbitrary bytes.
//!
//! Run `cargo +nightly fuzz run apply` in `crates/server`, with cargo-fuzz installed. The ordinary
//! tests replay the corpus.

#![no_main]

mod exercise;
#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../../tests/suite/support/"]
mod support {
    pub(crate) mod member;
    pub(crate) mod observe;
}

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| exercise::exercise(input));
