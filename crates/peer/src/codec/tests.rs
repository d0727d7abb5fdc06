use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use raft::{Entry, EntryType, Message, MessageType};
use types::{Index, MemberId, Term};

use super::message::{self, MessageDecoder};
use super::msgapp::{MsgAppDecoder, MsgAppEncoder};
use super::{Decode, Item, StreamError};

const LOCAL: MemberId = MemberId(1);
const REMOTE: MemberId = MemberId(2);

fn entry(term: u64, index: u64, data: &'static [u8]) -> Entry {
    Entry { term: Term(term), index: Index(index), data: data.into(), ..Entry::default() }
}

fn append(term: u64, log_term: u64, index: u64, entries: Vec<Entry>, commit: u64) -> Message {
    Message {
        kind: MessageType::MsgApp,
        from: REMOTE,
        to: LOCAL,
        term: Term(term),
        log_term: Term(log_term),
        index: Index(index),
        commit: Index(commit),
        entries,
        ..Message::default()
    }
}

/// Decodes bytes in chunks of these lengths, repeated.
fn read(
    decoder: &mut dyn Decode,
    bytes: &Bytes,
    pieces: &[usize],
) -> Result<Vec<Item>, StreamError> {
    let (mut items, mut rest) = (Vec::new(), bytes.clone());
    for length in pieces.iter().cycle() {
        let piece = rest.split_to((*length).min(rest.len()));
        decoder.feed(piece);
        while let Some(item) = decoder.next()? {
            items.push(item);
        }
        if rest.is_empty() {
            break;
        }
    }
    Ok(items)
}

fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn link_heartbeats_are_encoded_as_documented() {
    let mut bytes = BytesMut::new();
    message::encode_link_heartbeat(&mut bytes);
    assert_eq!(bytes, hex("0000000000000002 0808"));
    let items = read(&mut MessageDecoder::default(), &bytes.freeze(), &[3]);
    assert_eq!(items.unwrap(), [Item::LinkHeartbeat]);

    let mut bytes = BytesMut::new();
    MsgAppEncoder::encode_link_heartbeat(&mut bytes);
    assert_eq!(bytes, hex("00"));
    let items = read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &bytes.freeze(), &[1]);
    assert_eq!(items.unwrap(), [Item::LinkHeartbeat]);
}

#[test]
fn a_continuing_message_has_only_entries_and_the_commit_index() {
    let (mut encoder, mut bytes) = (MsgAppEncoder::default(), BytesMut::new());
    let first = append(3, 2, 7, vec![entry(3, 8, b"a")], 7);
    encoder.encode(first.clone(), &mut bytes);
    assert_eq!(bytes[0], 2, "the first message is complete");
    let length = bytes.len();
    let second = append(3, 3, 8, vec![entry(3, 9, b"b")], 8);
    encoder.encode(second.clone(), &mut bytes);
    let expected = "01 0000000000000001 0000000000000007 1003 1809 220162 0000000000000008";
    assert_eq!(bytes[length..], hex(expected));
    // Only a commit index.
    let third = append(3, 3, 9, Vec::new(), 9);
    encoder.encode(third.clone(), &mut bytes);
    assert!(bytes.ends_with(&hex("01 0000000000000000 0000000000000009")));

    let items = read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &bytes.freeze(), &[5, 1, 70]);
    assert_eq!(items.unwrap(), [first, second, third].map(Item::Message));
}

#[test]
fn a_message_that_does_not_continue_is_sent_whole() {
    let (mut encoder, mut bytes) = (MsgAppEncoder::default(), BytesMut::new());
    let messages = [
        append(1, 1, 1, vec![entry(1, 2, b"")], 1),
        append(1, 1, 1, vec![entry(1, 2, b"")], 1), // repeated
        append(1, 1, 7, Vec::new(), 1),             // a gap
        append(2, 1, 7, Vec::new(), 1),             // another leader
        append(2, 2, 8, Vec::new(), 1),             // an entry of it is missing
    ];
    for message in messages.clone() {
        let before = bytes.len();
        encoder.encode(message, &mut bytes);
        assert_eq!(bytes[before], 2);
    }
    let items = read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &bytes.freeze(), &[9]);
    assert_eq!(items.unwrap(), messages.map(Item::Message));
}

#[test]
fn lengths_above_the_limit_are_refused() {
    let read_message = |text| read(&mut MessageDecoder::default(), &hex(text), &[1]);
    assert_eq!(read_message("0000000020000001"), Err(StreamError::TooLong));
    assert_eq!(read_message("ffffffffffffffff"), Err(StreamError::TooLong));
    assert_eq!(read_message("0000000020000000"), Ok(vec![]), "the largest length is allowed");
    let mut short = MessageDecoder::bounded(3);
    assert_eq!(read(&mut short, &hex("0000000000000004"), &[8]), Err(StreamError::TooLong));

    let read_app = |text| read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &hex(text), &[1]);
    assert_eq!(read_app("02 0000000020000001"), Err(StreamError::TooLong));
    assert_eq!(read_app("01 0000000000000001 0000000020000001"), Err(StreamError::TooLong));
    assert_eq!(
        read_app("01 ffffffffffffffff 0000000000000001"),
        Ok(vec![]),
        "a count is not checked ahead"
    );
    assert_eq!(read_app("03"), Err(StreamError::Kind(3)));
    assert_eq!(StreamError::Kind(3).to_string(), "failed to parse type 3 in msgappv2 stream");
}

#[test]
fn empty_entries_count_towards_the_limit() {
    let mut decoder = MsgAppDecoder::new(LOCAL, REMOTE).bounded(1 << 20);
    decoder.feed(hex("01 ffffffffffffffff"));
    assert_eq!(decoder.next(), Ok(None));
    let lengths = Bytes::from(vec![0; 8 << 10]);
    let ended = (0..100).find_map(|_| {
        decoder.feed(lengths.clone());
        decoder.next().err()
    });
    assert_eq!(ended, Some(StreamError::TooLong));
}

#[test]
fn messages_of_unknown_type_are_skipped() {
    // A message of type 99, and a link heartbeat.
    let bytes = hex("0000000000000002 0863 0000000000000002 0808");
    let items = read(&mut MessageDecoder::default(), &bytes, &[4]).unwrap();
    assert!(matches!(&items[..], [Item::Unknown(_), Item::LinkHeartbeat]), "{items:?}");
    // An entry of type 9 cannot be skipped.
    let bytes = hex("01 0000000000000001 0000000000000002 0809 0000000000000000");
    let error = read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &bytes, &[4]).unwrap_err();
    assert_eq!(error.to_string(), "unknown entry type 9");
}

#[test]
fn entries_beyond_the_largest_index_are_refused() {
    let (mut encoder, mut bytes) = (MsgAppEncoder::default(), BytesMut::new());
    encoder.encode(append(1, 1, u64::MAX, Vec::new(), 1), &mut bytes);
    bytes.extend_from_slice(&hex("01 0000000000000001 0000000000000000"));
    let error = read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &bytes.freeze(), &[64]);
    assert_eq!(error, Err(StreamError::Index));
}

fn any_entries() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    vec((1u64..4, vec(any::<u8>(), 0..40)), 0..5)
}

/// A jump to a term and index, the data of the entries, the commit index.
type Planned = (Option<(u64, u64)>, Vec<Vec<u8>>, u64);

prop_compose! {
    /// A message that mostly continues the previous one.
    fn any_append()(
        jump in prop::bool::weighted(0.2),
        at in 1u64..1000,
        term in 1u64..4,
        entries in any_entries(),
        commit in any::<u64>(),
    ) -> Planned {
        let data = entries.into_iter().map(|(_, data)| data).collect();
        (jump.then_some((term, at)), data, commit)
    }
}

/// Builds the messages of a plan.
fn appends(plan: Vec<Planned>) -> Vec<Message> {
    let (mut term, mut index) = (1, 0);
    let message = |(jump, data, commit): Planned| {
        if let Some((to_term, to_index)) = jump {
            (term, index) = (to_term, to_index);
        }
        let before = index;
        let entries = data.into_iter().map(|data| {
            index += 1;
            let kind = if data.len() == 7 { EntryType::ConfChange } else { EntryType::Normal };
            Entry {
                term: Term(term),
                index: Index(index),
                kind,
                data: data.into(),
                ..Entry::default()
            }
        });
        let entries = entries.collect();
        append(term, term, before, entries, commit)
    };
    plan.into_iter().map(message).collect()
}

prop_compose! {
    fn any_message()(
        kind in 0usize..MessageType::ALL.len(),
        numbers in prop::array::uniform6(any::<u64>()),
        reject in any::<bool>(),
        entries in any_entries(),
        context in vec(any::<u8>(), 0..20),
    ) -> Message {
        let [to, from, term, log_term, index, commit] = numbers;
        let entries = entries.into_iter().enumerate();
        let entries = entries.map(|(at, (term, data))| Entry {
            term: Term(term), index: Index(at as u64 + 1), data: data.into(), ..Entry::default()
        });
        Message {
            kind: MessageType::ALL[kind],
            to: MemberId(to | 1),
            from: MemberId(from | 1),
            term: Term(term),
            log_term: Term(log_term),
            index: Index(index),
            commit: Index(commit),
            reject,
            entries: entries.collect(),
            context: context.into(),
            ..Message::default()
        }
    }
}

proptest! {
    #[test]
    fn msgapp_messages_round_trip(
        plan in vec(any_append(), 0..20),
        pieces in vec(1usize..50, 1..10),
    ) {
        let messages = appends(plan);
        let (mut encoder, mut bytes) = (MsgAppEncoder::default(), BytesMut::new());
        for message in messages.clone() {
            encoder.encode(message, &mut bytes);
            MsgAppEncoder::encode_link_heartbeat(&mut bytes);
        }
        let mut items = read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &bytes.freeze(), &pieces).unwrap();
        items.retain(|item| *item != Item::LinkHeartbeat);
        let expected: Vec<Item> = messages.into_iter().map(Item::Message).collect();
        prop_assert_eq!(items, expected);
    }

    #[test]
    fn messages_round_trip(
        messages in vec(any_message(), 0..10),
        pieces in vec(1usize..50, 1..10),
    ) {
        let mut bytes = BytesMut::new();
        for message in messages.clone() {
            message::encode(message, &mut bytes);
        }
        let items = read(&mut MessageDecoder::default(), &bytes.freeze(), &pieces).unwrap();
        let expected: Vec<Item> = messages.into_iter().map(Item::Message).collect();
        prop_assert_eq!(items, expected);
    }

    #[test]
    fn garbage_does_not_panic(bytes in vec(any::<u8>(), 0..200), pieces in vec(1usize..50, 1..4)) {
        let bytes = Bytes::from(bytes);
        let _ = read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &bytes, &pieces);
        let _ = read(&mut MessageDecoder::default(), &bytes, &pieces);
    }

    #[test]
    fn damaged_streams_do_not_panic(
        plan in vec(any_append(), 1..5),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
    ) {
        let (mut encoder, mut bytes) = (MsgAppEncoder::default(), BytesMut::new());
        appends(plan).into_iter().for_each(|message| encoder.encode(message, &mut bytes));
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        let _ = read(&mut MsgAppDecoder::new(LOCAL, REMOTE), &bytes.freeze(), &[7]);
    }
}

#[test]
fn message_boundaries_are_reported() {
    let mut messages = BytesMut::new();
    message::encode(append(2, 2, 5, vec![entry(2, 6, b"a")], 5), &mut messages);
    let mut appends = BytesMut::new();
    let mut encoder = MsgAppEncoder::default();
    encoder.encode(append(2, 2, 5, vec![entry(2, 6, b"a")], 5), &mut appends);
    encoder.encode(append(2, 2, 6, vec![entry(2, 7, b"b")], 5), &mut appends);
    let cases: [(Box<dyn Decode>, BytesMut, usize); 2] = [
        (Box::new(MessageDecoder::default()), messages, 1),
        (Box::new(MsgAppDecoder::new(LOCAL, REMOTE)), appends, 2),
    ];
    for (mut decoder, bytes, expected) in cases {
        let ends = bytes.iter().filter(|byte| {
            read(decoder.as_mut(), &Bytes::copy_from_slice(&[**byte]), &[1]).unwrap();
            decoder.at_message_boundary()
        });
        assert_eq!(ends.count(), expected);
        assert!(decoder.at_message_boundary());
    }
}
