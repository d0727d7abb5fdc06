//! The encodings of messages on streams.
//!
//! Each kind of stream has a codec without I/O. [`message`] encodes all messages;
//! [`msgapp`] encodes `MsgApp` only, and omits what the receiver can infer.
//!
//! Invariants: encoded messages decode to equal ones, however the bytes are split; garbage is an
//! error and never a panic; memory for a length is allocated only as bytes arrive; the size of a
//! message, encoded and decoded, is bounded by [`MESSAGE_BYTES_MAX`].

mod chunk_buffer;
pub(crate) mod cost;
pub(crate) mod message;
pub(crate) mod msgapp;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use proto::raftpb;
use raft::MessageType;
use raft::wire::DecodeError;

/// The largest message on a stream. As in etcd.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 512 << 20;

/// An item decoded from a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A Raft message.
    Message(raft::Message),
    /// A link heartbeat, which consensus does not see.
    LinkHeartbeat,
    /// A message of an unknown type, for example from a later release. The stream continues.
    Unknown(DecodeError),
}

/// The reason the bytes of a stream are invalid. Nothing after them can be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StreamError {
    /// The message is too long. The text is etcd's.
    #[error("rafthttp: error limit exceeded")]
    TooLong,
    /// The frame type is unknown. The text is etcd's.
    #[error("failed to parse type {0} in msgappv2 stream")]
    Kind(u8),
    /// The message contains nested messages, which members never send.
    #[error("a message contains nested messages")]
    Nested,
    /// The protobuf is malformed.
    #[error(transparent)]
    Garbage(#[from] prost::DecodeError),
    /// The message has an entry of an unknown type, which can neither be skipped nor stored.
    #[error(transparent)]
    Entry(#[from] DecodeError),
    /// The entries exceed the largest index.
    #[error("the entries exceed the largest log index")]
    Index,
}

/// Decodes messages from bytes that arrive in chunks.
pub(crate) trait Decode: Send {
    /// Adds bytes. All earlier ones must have been read: [`Decode::next`] has returned `None`.
    fn feed(&mut self, bytes: Bytes);

    /// Decodes the next item; `None` if it is incomplete.
    fn next(&mut self) -> Result<Option<Item>, StreamError>;

    /// Returns whether all bytes were read, up to the end of a message.
    fn at_message_boundary(&self) -> bool;
}

/// Converts a protobuf message to an item.
fn item(wire: raftpb::Message) -> Item {
    let is_heartbeat = wire.r#type.unwrap_or_default() == MessageType::MsgHeartbeat.to_wire();
    if is_heartbeat && wire.from() == 0 && wire.to() == 0 {
        return Item::LinkHeartbeat;
    }
    raft::Message::try_from(wire).map_or_else(Item::Unknown, Item::Message)
}
