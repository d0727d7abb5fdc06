//! Decompresses arbitrary bytes as a gzip message.
//!
//! Invariants: no panic, and never more than the limit. Compressed data decompresses to itself.

#![no_main]

#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/grpc/src/compression/gzip.rs"]
mod gzip;

use gzip::Decompressed;
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 1 << 16;

fuzz_target!(|input: &[u8]| {
    if let Decompressed::Complete(bytes) = gzip::decompress(input, BYTES_MAX) {
        assert!(bytes.len() <= BYTES_MAX);
    }
    let mut compressed = Vec::new();
    gzip::compress(input, &mut compressed);
    assert_eq!(gzip::decompress(&compressed, BYTES_MAX), Decompressed::Complete(input.to_vec()));
});
