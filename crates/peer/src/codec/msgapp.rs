//! The codec of the `msgapp` stream: `MsgApp` messages and link heartbeats.
//!
//! Both ends remember where the last message ended: its term and the index of its last entry. While
//! a leader continues from there in its own term, the receiver can infer everything about the next
//! message except its entries and the commit index, and only those are sent:
//!
//! ```text
//!   00                                                        a link heartbeat
//!   01  k, 8 bytes  (length, 8 bytes  raftpb.Entry) × k  commit, 8 bytes    continues: index += k
//!   02  length, 8 bytes  raftpb.Message                       any MsgApp: sets term and index
//! ```
//!
//! So the first message is a 02, and so is the one after a new leader, after a rejection, and after
//! a message that was lost before the stream.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use proto::raftpb;
use raft::{Entry, Message, MessageType};
use types::{Index, MemberId, Term};

use super::chunk_buffer::ChunkBuffer;
use super::message::checked;
use super::{Decode, Item, MESSAGE_BYTES_MAX, StreamError, cost, item};

const LINK_HEARTBEAT: u8 = 0;
const APP_ENTRIES: u8 = 1;
const APP: u8 = 2;

/// The term and index at which the last message ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LogPosition {
    term: Term,
    index: Index,
}

impl LogPosition {
    fn of(message: &Message) -> LogPosition {
        let last = message.entries.last().map(|entry| entry.index);
        LogPosition { term: message.term, index: last.unwrap_or(message.index) }
    }

    fn of_wire(wire: &raftpb::Message) -> LogPosition {
        let last = wire.entries.last().map(raftpb::Entry::index);
        LogPosition { term: Term(wire.term()), index: Index(last.unwrap_or(wire.index())) }
    }

    /// Returns whether a message continues from here.
    fn precedes(self, message: &Message) -> bool {
        self.index == message.index && self.term == message.log_term && self.term == message.term
    }
}

/// Encodes the stream.
#[derive(Debug, Default)]
pub(crate) struct MsgAppEncoder {
    end: LogPosition,
}

impl MsgAppEncoder {
    /// Appends a `MsgApp`.
    pub(crate) fn encode(&mut self, message: Message, to: &mut BytesMut) {
        let continues = self.end.precedes(&message);
        self.end = LogPosition::of(&message);
        if continues { put_entries(message, to) } else { put_whole(message, to) }
    }

    /// Appends a link heartbeat.
    pub(crate) fn encode_link_heartbeat(to: &mut BytesMut) {
        to.put_u8(LINK_HEARTBEAT);
    }
}

fn put_entries(message: Message, to: &mut BytesMut) {
    to.put_u8(APP_ENTRIES);
    to.put_u64(message.entries.len() as u64);
    for entry in message.entries {
        let wire = raftpb::Entry::from(entry);
        let length = wire.encoded_len();
        to.reserve(2 * size_of::<u64>() + length);
        to.put_u64(length as u64);
        wire.encode_raw(to);
    }
    to.put_u64(message.commit.0);
}

fn put_whole(message: Message, to: &mut BytesMut) {
    to.put_u8(APP);
    super::message::encode(message, to);
}

/// Decodes the stream.
#[derive(Debug)]
pub(crate) struct MsgAppDecoder {
    buffer: ChunkBuffer,
    local: MemberId,
    remote: MemberId,
    bytes_max: u64,
    end: LogPosition,
    state: DecodeState,
    /// The entries of the message being decoded, and their memory.
    entries: Vec<Entry>,
    bytes: u64,
}

/// The next part to decode.
#[derive(Clone, Copy, Debug)]
enum DecodeState {
    Kind,
    EntryCount,
    /// The length of an entry, with the number of entries left.
    EntryLength(u64),
    Entry(u64, usize),
    Commit,
    Length,
    Message(usize),
}

/// The result of one decoding step.
enum Step {
    To(DecodeState),
    Done(Item),
}

impl MsgAppDecoder {
    /// Creates a decoder for messages of `remote` to `local`.
    pub(crate) fn new(local: MemberId, remote: MemberId) -> MsgAppDecoder {
        MsgAppDecoder {
            buffer: ChunkBuffer::default(),
            local,
            remote,
            bytes_max: MESSAGE_BYTES_MAX,
            end: LogPosition::default(),
            state: DecodeState::Kind,
            entries: Vec::new(),
            bytes: 0,
        }
    }

    /// Sets a size limit.
    #[cfg(test)]
    pub(super) fn bounded(self, bytes_max: u64) -> MsgAppDecoder {
        MsgAppDecoder { bytes_max, ..self }
    }

    fn step(&mut self) -> Result<Option<Step>, StreamError> {
        let buffer = &mut self.buffer;
        match self.state {
            DecodeState::Kind => buffer.take_byte().map(first).transpose(),
            DecodeState::EntryCount => Ok(buffer.take_number().map(|count| Step::To(entry(count)))),
            DecodeState::EntryLength(left) => match buffer.take_number() {
                Some(length) => {
                    Ok(Some(Step::To(DecodeState::Entry(left, self.entry_length(length)?))))
                }
                None => Ok(None),
            },
            DecodeState::Entry(left, length) => match buffer.take(length) {
                Some(bytes) => self.add(bytes, left).map(Some),
                None => Ok(None),
            },
            DecodeState::Commit => {
                Ok(buffer.take_number().map(|commit| self.appended(Index(commit))))
            }
            DecodeState::Length => match buffer.take_number() {
                Some(length) => {
                    let length = checked(length, self.bytes_max)?;
                    Ok(Some(Step::To(DecodeState::Message(length))))
                }
                None => Ok(None),
            },
            DecodeState::Message(length) => {
                buffer.take(length).map(|bytes| self.full_message(bytes)).transpose()
            }
        }
    }

    /// Checks the length of an entry against what is left of the message's limit. Empty entries
    /// count too.
    fn entry_length(&mut self, length: u64) -> Result<usize, StreamError> {
        let of_one = length.saturating_add(size_of::<Entry>() as u64);
        self.bytes = self.bytes.saturating_add(of_one);
        if self.bytes > self.bytes_max {
            Err(StreamError::TooLong)
        } else {
            checked(length, length)
        }
    }

    fn add(&mut self, bytes: Bytes, left: u64) -> Result<Step, StreamError> {
        let wire = raftpb::Entry::decode(bytes)?;
        self.entries.push(Entry::try_from(wire)?);
        let index = self.end.index.0.checked_add(1).ok_or(StreamError::Index)?;
        self.end.index = Index(index);
        Ok(Step::To(entry(left - 1)))
    }

    /// Builds a message that continues the last one.
    fn appended(&mut self, commit: Index) -> Step {
        self.bytes = 0;
        let entries = std::mem::take(&mut self.entries);
        let before = self.end.index.0 - entries.len() as u64;
        Step::Done(Item::Message(Message {
            kind: MessageType::MsgApp,
            from: self.remote,
            to: self.local,
            term: self.end.term,
            log_term: self.end.term,
            index: Index(before),
            commit,
            entries,
            ..Message::default()
        }))
    }

    fn full_message(&mut self, bytes: Bytes) -> Result<Step, StreamError> {
        let wire = cost::decode(bytes, self.bytes_max)?;
        self.end = LogPosition::of_wire(&wire);
        Ok(Step::Done(item(wire)))
    }
}

impl Decode for MsgAppDecoder {
    fn feed(&mut self, bytes: Bytes) {
        self.buffer.feed(bytes);
    }

    fn next(&mut self) -> Result<Option<Item>, StreamError> {
        loop {
            match self.step()? {
                Some(Step::To(state)) => self.state = state,
                Some(Step::Done(item)) => {
                    self.state = DecodeState::Kind;
                    return Ok(Some(item));
                }
                None => return Ok(None),
            }
        }
    }

    fn at_message_boundary(&self) -> bool {
        matches!(self.state, DecodeState::Kind) && self.buffer.is_empty()
    }
}

/// Decodes the type of a frame.
fn first(kind: u8) -> Result<Step, StreamError> {
    match kind {
        LINK_HEARTBEAT => Ok(Step::Done(Item::LinkHeartbeat)),
        APP_ENTRIES => Ok(Step::To(DecodeState::EntryCount)),
        APP => Ok(Step::To(DecodeState::Length)),
        kind => Err(StreamError::Kind(kind)),
    }
}

/// Returns the next part if `left` entries remain.
fn entry(left: u64) -> DecodeState {
    if left == 0 { DecodeState::Commit } else { DecodeState::EntryLength(left) }
}
