//! The codec of the stream `message`, and of the head of a snapshot: a length, and a message.
//!
//! ```text
//!   00 00 00 00 00 00 00 02   08 08            the sign of life: a MsgHeartbeat from nobody to nobody
//!   length, 8 bytes           raftpb.Message
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use proto::raftpb;
use raft::{Message, MessageType};

use super::intake::Intake;
use super::{Decode, Item, MESSAGE_BYTES_MAX, StreamError, cost, item};

/// Puts a message behind what is there.
pub(crate) fn encode(message: Message, to: &mut BytesMut) {
    let wire: raftpb::Message = message.into();
    put(&wire, to);
}

/// Puts a sign of life behind what is there.
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

/// Reads the stream.
#[derive(Debug)]
pub(crate) struct MessageDecoder {
    intake: Intake,
    bytes_max: u64,
    /// The length of the message that comes next, if that has been read.
    length: Option<usize>,
}

impl Default for MessageDecoder {
    fn default() -> MessageDecoder {
        MessageDecoder::bounded(MESSAGE_BYTES_MAX)
    }
}

impl MessageDecoder {
    /// Takes messages of so many bytes at most.
    pub(crate) fn bounded(bytes_max: u64) -> MessageDecoder {
        MessageDecoder { intake: Intake::default(), bytes_max, length: None }
    }

    /// The next message as it stands on the wire.
    pub(crate) fn next_wire(&mut self) -> Result<Option<raftpb::Message>, StreamError> {
        let length = match self.length {
            Some(length) => length,
            None => match self.intake.take_number() {
                Some(length) => *self.length.insert(checked(length, self.bytes_max)?),
                None => return Ok(None),
            },
        };
        let Some(bytes) = self.intake.take(length) else { return Ok(None) };
        self.length = None;
        cost::decode(bytes, self.bytes_max).map(Some)
    }

    /// What has come behind the last message.
    pub(crate) fn into_rest(self) -> Bytes {
        self.intake.into_piece()
    }
}

impl Decode for MessageDecoder {
    fn feed(&mut self, bytes: Bytes) {
        self.intake.feed(bytes);
    }

    fn next(&mut self) -> Result<Option<Item>, StreamError> {
        Ok(self.next_wire()?.map(item))
    }

    fn is_between(&self) -> bool {
        self.length.is_none() && self.intake.is_empty()
    }
}

/// A length, if it is not too long.
pub(super) fn checked(length: u64, bytes_max: u64) -> Result<usize, StreamError> {
    let bounded = if length <= bytes_max { usize::try_from(length).ok() } else { None };
    bounded.ok_or(StreamError::TooLong)
}
