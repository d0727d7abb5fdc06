//! Applies a log of arbitrary bytes to the state machine.

#![no_main]

#[path = "../../crates/server/tests/suite/exercise.rs"]
mod exercise;
#[expect(dead_code, reason = "the tests use the rest of it")]
#[path = "../../crates/server/tests/suite/support/"]
mod support {
    pub(crate) mod member;
    pub(crate) mod observe;
}

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| exercise::exercise(input));
