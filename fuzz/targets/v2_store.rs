//! Decodes arbitrary bytes as the v2 store in a snapshot. Invariant: no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = membership::v2::decode(input);
});
