//! Reads arbitrary bytes as a recorded history.
//!
//! Invariants: no panic. A history that is read can be written, and is read back unchanged.

#![no_main]

use history::History;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(history) = History::read(input) else { return };
    let mut written = Vec::new();
    history.write(&mut written).expect("write to memory");
    let again = History::read(&written[..]).expect("read what was written");
    assert_eq!(format!("{history:?}"), format!("{again:?}"));
});
