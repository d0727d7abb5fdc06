//! Decodes arbitrary bytes as the stream and msgappv2 encodings of Raft messages.
//!
//! Invariants: no panic, and memory bounded by the size check. The messages do not depend on how
//! the bytes are cut into pieces. A decoded message is encoded and decoded to an equal one, also in
//! the body of a single request.

#![no_main]

#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/peer/src/codec/mod.rs"]
mod codec;

use bytes::Bytes;
use codec::message::MessageDecoder;
use codec::msgapp::MsgAppDecoder;
use codec::{Decode, Item, StreamError};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use proto::raftpb;
use types::MemberId;

const BYTES_MAX: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    // The first byte chooses the length of the pieces.
    let Some((&piece, input)) = input.split_first() else { return };
    let piece = usize::from(piece) + 1;
    let message = || MessageDecoder::bounded(BYTES_MAX);
    let (items, error) = decode(message(), input, input.len().max(1));
    assert_eq!(decode(message(), input, piece), (items.clone(), error));
    items.into_iter().for_each(check_wire);
    let msgapp = || MsgAppDecoder::new(MemberId(1), MemberId(2));
    let (items, error) = decode(msgapp(), input, input.len().max(1));
    assert_eq!(decode(msgapp(), input, piece), (items.clone(), error));
    items.into_iter().for_each(check_wire);
    if let Ok(wire) = codec::cost::decode(Bytes::copy_from_slice(input), BYTES_MAX)
        && let Ok(message) = raft::Message::try_from(wire)
    {
        check_wire(Item::Message(message));
    }
});

/// Encodes a message and decodes it again.
fn check_wire(item: Item) {
    let Item::Message(message) = item else { return };
    let wire: raftpb::Message = message.clone().into();
    let bytes = wire.encode_to_vec();
    let wire = codec::cost::decode(bytes.into(), u64::MAX).expect("just encoded");
    assert_eq!(raft::Message::try_from(wire), Ok(message));
}

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
