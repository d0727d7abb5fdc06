//! Decodes arbitrary bytes as the stream and msgappv2 encodings of Raft messages.
//!
//! Invariants: no panic, and memory bounded by the size check. The messages do not depend on how
//! the bytes are cut into pieces.

#![no_main]

#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/peer/src/codec/mod.rs"]
mod codec;

use bytes::Bytes;
use codec::message::MessageDecoder;
use codec::msgapp::MsgAppDecoder;
use codec::{Decode, Item, StreamError};
use libfuzzer_sys::fuzz_target;
use types::MemberId;

fuzz_target!(|input: &[u8]| {
    // The first byte chooses the length of the pieces.
    let Some((&piece, input)) = input.split_first() else { return };
    let piece = usize::from(piece) + 1;
    let message = || MessageDecoder::bounded(1 << 20);
    assert_eq!(decode(message(), input, input.len().max(1)), decode(message(), input, piece));
    let msgapp = || MsgAppDecoder::new(MemberId(1), MemberId(2));
    assert_eq!(decode(msgapp(), input, input.len().max(1)), decode(msgapp(), input, piece));
});

/// All messages up to the first error, which ends the stream.
fn decode(
    mut decoder: impl Decode,
    input: &[u8],
    piece: usize,
) -> (Vec<Item>, Option<StreamError>) {
    let mut items = Vec::new();
    for piece in input.chunks(piece) {
        decoder.feed(Bytes::copy_from_slice(piece));
        loop {
            match decoder.next() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(error) => return (items, Some(error)),
            }
        }
    }
    (items, None)
}
