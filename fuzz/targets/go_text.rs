//! Parses arbitrary text with the ports of Go's parsers: URLs, durations, numbers, host and port.
//!
//! Invariant: no panic.

#![no_main]

use gocompat::{GoDuration, GoUrl};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = GoUrl::parse(text);
    let _ = GoDuration::parse(text);
    let _ = gocompat::parse_uint(text, 64);
    let _ = gocompat::parse_uint(text, 16);
    let _ = gocompat::parse_int(text);
    let _ = gocompat::parse_decimal(text);
    let _ = gocompat::parse_bool(text);
    let _ = gocompat::split_host_port(text);
    let _ = gocompat::quote(text);
});
