//! Parses arbitrary text as the terms of a failpoint, and as a list of failpoints.
//!
//! Invariant: no panic. The points are not evaluated: one may abort the process.

#![no_main]

use failpoint::{POINTS, Registry};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let registry = Registry::new(POINTS);
    if registry.enable("walBeforeSync", text).is_ok() {
        let (terms, count) = registry.status("walBeforeSync").expect("just enabled");
        assert_eq!((terms.as_str(), count), (text, 0));
    }
    let _ = registry.enable_all(text);
});
