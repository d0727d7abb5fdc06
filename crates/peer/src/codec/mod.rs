//! How messages stand in the bytes of a stream.
//!
//! Two codecs, one for each kind of stream. Both are functions over bytes: no socket, no clock. [`message`] takes everything; [`msgapp`] takes only what a leader
//! replicates, and leaves out of it what the other end can tell by itself.
//!
//! What is always true: what was encoded decodes to the same messages, however its bytes are cut on their way; garbage is an error and never a panic; what a length
//! promises is not allocated before it comes; a message, and what it takes once it is decoded, is bounded by [`MESSAGE_BYTES_MAX`].

pub(crate) mod cost;
mod intake;
pub(crate) mod message;
pub(crate) mod msgapp;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use proto::raftpb;
use raft::MessageType;
use raft::wire::DecodeError;

/// The largest message of a stream, that of etcd.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 512 << 20;

/// What was read from a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A message of consensus.
    Message(raft::Message),
    /// A sign of life, which consensus does not hear of.
    LinkHeartbeat,
    /// A message of a kind that is not known here; a later release may have it. It is whole, and what follows can be read.
    Unknown(DecodeError),
}

/// Why the bytes of a stream make no sense. Nothing behind them does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StreamError {
    /// It is longer than any message may be. The text is etcd's.
    #[error("rafthttp: error limit exceeded")]
    TooLong,
    /// It begins with a number that names no kind of frame. The text is etcd's.
    #[error("failed to parse type {0} in msgappv2 stream")]
    Kind(u8),
    /// It has messages within it, which members keep to themselves.
    #[error("a message has others within it")]
    Local,
    /// It is no message.
    #[error(transparent)]
    Garbage(#[from] prost::DecodeError),
    /// It has an entry of a kind that is not known here, which can neither be left out nor kept.
    #[error(transparent)]
    Entry(#[from] DecodeError),
    /// It goes on behind the last position of a log.
    #[error("entries behind the last index there can be")]
    Index,
}

/// Makes messages of bytes that come in pieces.
pub(crate) trait Decode: Send {
    /// More bytes have come. All that came before has been read: [`Decode::next`] has returned none.
    fn feed(&mut self, bytes: Bytes);

    /// The next message; none if it is not whole yet.
    fn next(&mut self) -> Result<Option<Item>, StreamError>;

    /// Whether all that has come has been read, to the end of a message.
    fn is_between(&self) -> bool;
}

/// What a message on the wire is.
fn item(wire: raftpb::Message) -> Item {
    let is_heartbeat = wire.r#type.unwrap_or_default() == MessageType::MsgHeartbeat.to_wire();
    if is_heartbeat && wire.from() == 0 && wire.to() == 0 {
        return Item::LinkHeartbeat;
    }
    raft::Message::try_from(wire).map_or_else(Item::Unknown, Item::Message)
}
