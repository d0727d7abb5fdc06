//! Reads arbitrary bytes as input of the test tools. The first byte selects the decoder:
//!
//! ```text
//!   0   a recorded history
//!   1   the terms of a failpoint, and a list of failpoints
//! ```
//!
//! Invariants: no panic. A history that is read can be written, and is read back unchanged. Enabled
//! terms are reported as they were given. The points are not evaluated: one may abort the process.

#![no_main]

use failpoint::{POINTS, Registry};
use history::History;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0, lines)) => check_history(lines),
        Some((1, terms)) => check_terms(terms),
        _ => {}
    }
});

fn check_history(lines: &[u8]) {
    let Ok(history) = History::read(lines) else { return };
    let mut written = Vec::new();
    history.write(&mut written).expect("write to memory");
    let again = History::read(&written[..]).expect("read what was written");
    assert_eq!(format!("{history:?}"), format!("{again:?}"));
}

fn check_terms(terms: &[u8]) {
    let Ok(text) = std::str::from_utf8(terms) else { return };
    let registry = Registry::new(POINTS);
    if registry.enable("walBeforeSync", text).is_ok() {
        let (terms, count) = registry.status("walBeforeSync").expect("just enabled");
        assert_eq!((terms.as_str(), count), (text, 0));
    }
    let _ = registry.enable_all(text);
}
