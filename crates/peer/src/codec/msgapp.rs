//! The codec of the stream `msgapp`: what a leader replicates, and signs of life.
//!
//! Both ends remember where the last message ended: its term, and the index of its last entry. As long as a leader goes on from there, in the term that it leads, the other
//! end can tell everything about the next message but its entries and what is committed, and nothing else is sent:
//!
//! ```text
//!   00                                                           a sign of life
//!   01  k, 8 bytes  (length, 8 bytes  raftpb.Entry) k times  commit, 8 bytes       goes on: index += k
//!   02  length, 8 bytes  raftpb.Message                                            anything: term, index = those of its end
//! ```
//!
//! So the first message is a 02, and so is that after a new leader, after a refusal, and after a message that was lost on its way into the stream.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use proto::raftpb;
use raft::{Entry, Message, MessageType};
use types::{Index, MemberId, Term};

use super::intake::Intake;
use super::message::checked;
use super::{Decode, Item, MESSAGE_BYTES_MAX, StreamError, cost, item};

const LINK_HEARTBEAT: u8 = 0;
const APP_ENTRIES: u8 = 1;
const APP: u8 = 2;

/// Where the last message ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    term: Term,
    index: Index,
}

impl End {
    fn of(message: &Message) -> End {
        let last = message.entries.last().map(|entry| entry.index);
        End { term: message.term, index: last.unwrap_or(message.index) }
    }

    fn of_wire(wire: &raftpb::Message) -> End {
        let last = wire.entries.last().map(raftpb::Entry::index);
        End { term: Term(wire.term()), index: Index(last.unwrap_or(wire.index())) }
    }

    /// Whether a message goes on from here.
    fn precedes(self, message: &Message) -> bool {
        self.index == message.index && self.term == message.log_term && self.term == message.term
    }
}

/// Writes the stream.
#[derive(Debug, Default)]
pub(crate) struct MsgAppEncoder {
    end: End,
}

impl MsgAppEncoder {
    /// Puts a `MsgApp` behind what is there.
    pub(crate) fn encode(&mut self, message: Message, to: &mut BytesMut) {
        let goes_on = self.end.precedes(&message);
        self.end = End::of(&message);
        if goes_on { put_entries(message, to) } else { put_whole(message, to) }
    }

    /// Puts a sign of life behind what is there.
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

/// Reads the stream.
#[derive(Debug)]
pub(crate) struct MsgAppDecoder {
    intake: Intake,
    local: MemberId,
    remote: MemberId,
    bytes_max: u64,
    end: End,
    state: State,
    /// Of the message that is being read: the entries there are, and how much they take.
    entries: Vec<Entry>,
    bytes: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum State {
    Kind,
    EntryCount,
    /// An entry of so many that are left.
    EntryLength(u64),
    Entry(u64, usize),
    Commit,
    Length,
    Message(usize),
}

/// What has been read brought the reader somewhere, or to the end of a message; or there is too little.
enum Step {
    To(State),
    Done(Item),
}

impl MsgAppDecoder {
    /// Reads what one member sends to another.
    pub(crate) fn new(local: MemberId, remote: MemberId) -> MsgAppDecoder {
        MsgAppDecoder {
            intake: Intake::default(),
            local,
            remote,
            bytes_max: MESSAGE_BYTES_MAX,
            end: End::default(),
            state: State::Kind,
            entries: Vec::new(),
            bytes: 0,
        }
    }

    /// The same, which takes messages of so many bytes at most.
    #[cfg(test)]
    pub(super) fn bounded(self, bytes_max: u64) -> MsgAppDecoder {
        MsgAppDecoder { bytes_max, ..self }
    }

    fn step(&mut self) -> Result<Option<Step>, StreamError> {
        let intake = &mut self.intake;
        match self.state {
            State::Kind => intake.take_byte().map(first).transpose(),
            State::EntryCount => Ok(intake.take_number().map(|count| Step::To(entry(count)))),
            State::EntryLength(left) => match intake.take_number() {
                Some(length) => Ok(Some(Step::To(State::Entry(left, self.entry_length(length)?)))),
                None => Ok(None),
            },
            State::Entry(left, length) => match intake.take(length) {
                Some(bytes) => self.add(bytes, left).map(Some),
                None => Ok(None),
            },
            State::Commit => Ok(intake.take_number().map(|commit| self.appended(Index(commit)))),
            State::Length => match intake.take_number() {
                Some(length) => {
                    let length = checked(length, self.bytes_max)?;
                    Ok(Some(Step::To(State::Message(length))))
                }
                None => Ok(None),
            },
            State::Message(length) => {
                intake.take(length).map(|bytes| self.whole(bytes)).transpose()
            }
        }
    }

    /// The length of an entry, if the message is not too long with it. An empty one takes something, too.
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

    /// A message that goes on from the last one.
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

    fn whole(&mut self, bytes: Bytes) -> Result<Step, StreamError> {
        let wire = cost::decode(bytes, self.bytes_max)?;
        self.end = End::of_wire(&wire);
        Ok(Step::Done(item(wire)))
    }
}

impl Decode for MsgAppDecoder {
    fn feed(&mut self, bytes: Bytes) {
        self.intake.feed(bytes);
    }

    fn next(&mut self) -> Result<Option<Item>, StreamError> {
        loop {
            match self.step()? {
                Some(Step::To(state)) => self.state = state,
                Some(Step::Done(item)) => {
                    self.state = State::Kind;
                    return Ok(Some(item));
                }
                None => return Ok(None),
            }
        }
    }

    fn is_between(&self) -> bool {
        matches!(self.state, State::Kind) && self.intake.is_empty()
    }
}

/// What follows the first byte of a frame.
fn first(kind: u8) -> Result<Step, StreamError> {
    match kind {
        LINK_HEARTBEAT => Ok(Step::Done(Item::LinkHeartbeat)),
        APP_ENTRIES => Ok(Step::To(State::EntryCount)),
        APP => Ok(Step::To(State::Length)),
        kind => Err(StreamError::Kind(kind)),
    }
}

/// What comes if so many entries are left.
fn entry(left: u64) -> State {
    if left == 0 { State::Commit } else { State::EntryLength(left) }
}
