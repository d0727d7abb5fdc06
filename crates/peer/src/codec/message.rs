//! The codec of the `message` stream, and of the message before a snapshot: a length and a message.
//!
//! ```text
//!   00 00 00 00 00 00 00 02   08 08            a link heartbeat: MsgHeartbeat from 0 to 0
//!   length, 8 bytes           raftpb.Message
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use proto::raftpb;
use raft::{Message, MessageType};

use super::chunk_buffer::ChunkBuffer;
use super::{Decode, Item, MESSAGE_BYTES_MAX, StreamError, cost, item};

/// Appends a message.
pub(crate) fn encode(message: Message, to: &mut BytesMut) {
    let wire: raftpb::Message = message.into();
    put(&wire, to);
}

/// Appends a link heartbeat.
pub(crate) fn encode_link_heartbeat(to: &mut BytesMut) {
    let kind = Some(MessageType::MsgHeartbeat.to_wire());
    put(&raftpb::Message { r#type: kind, ..raftpb::Message::default() }, to);
}

fn put(wire: &raftpb::Message, to: &mut BytesMut) {
    let length = wire.encoded_len();
    to.reserve(size_of::<u64>() + length);
    to.put_u64(length as u64);
    wire.encode_raw(to);
}

/// Decodes the stream.
#[derive(Debug)]
pub(crate) struct MessageDecoder {
    buffer: ChunkBuffer,
    bytes_max: u64,
    /// The length of the next message, once read.
    length: Option<usize>,
}

impl Default for MessageDecoder {
    fn default() -> MessageDecoder {
        MessageDecoder::bounded(MESSAGE_BYTES_MAX)
    }
}

impl MessageDecoder {
    /// Creates a decoder with a size limit.
    pub(crate) fn bounded(bytes_max: u64) -> MessageDecoder {
        MessageDecoder { buffer: ChunkBuffer::default(), bytes_max, length: None }
    }

    /// Decodes the next message as protobuf.
    pub(crate) fn next_wire(&mut self) -> Result<Option<raftpb::Message>, StreamError> {
        let length = match self.length {
            Some(length) => length,
            None => match self.buffer.take_number() {
                Some(length) => *self.length.insert(checked(length, self.bytes_max)?),
                None => return Ok(None),
            },
        };
        let Some(bytes) = self.buffer.take(length) else { return Ok(None) };
        self.length = None;
        cost::decode(bytes, self.bytes_max).map(Some)
    }

    /// Returns the bytes after the last message.
    pub(crate) fn into_rest(self) -> Bytes {
        self.buffer.into_rest()
    }
}

impl Decode for MessageDecoder {
    fn feed(&mut self, bytes: Bytes) {
        self.buffer.feed(bytes);
    }

    fn next(&mut self) -> Result<Option<Item>, StreamError> {
        Ok(self.next_wire()?.map(item))
    }

    fn at_message_boundary(&self) -> bool {
        self.length.is_none() && self.buffer.is_empty()
    }
}

/// Checks a length against the limit.
pub(super) fn checked(length: u64, bytes_max: u64) -> Result<usize, StreamError> {
    let bounded = if length <= bytes_max { usize::try_from(length).ok() } else { None };
    bounded.ok_or(StreamError::TooLong)
}
