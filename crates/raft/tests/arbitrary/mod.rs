//! Strategies for arbitrary messages: every kind, every field, positions at all limits.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use raft::{
    ConfState, Entry, EntryType, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, Message, MessageType,
    Snapshot, SnapshotMetadata,
};
use types::{Index, MemberId, Term};

/// Any message, with nested messages.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    (flat_message(), vec(flat_message(), 0..3))
        .prop_map(|(message, responses)| Message { responses, ..message })
}

fn flat_message() -> impl Strategy<Value = Message> {
    let header = (kind(), member(), member(), term(), term());
    let positions = (index(), vec(entry(), 0..4), index(), option::weighted(0.2, member()));
    let rest = (option::weighted(0.3, snapshot()), any::<bool>(), index(), bytes(0..12));
    (header, positions, rest).prop_map(|(header, positions, rest)| {
        let (kind, to, from, term, log_term) = header;
        let (index, entries, commit, vote) = positions;
        let (snapshot, reject, reject_hint, context) = rest;
        Message {
            kind,
            to,
            from,
            term,
            log_term,
            index,
            entries,
            commit,
            // Zero means no vote and cannot be distinguished from it.
            vote: vote.filter(|id| *id != MemberId(0)),
            snapshot: snapshot.map(Box::new),
            reject,
            reject_hint,
            context,
            responses: Vec::new(),
        }
    })
}

pub(crate) fn kind() -> impl Strategy<Value = MessageType> {
    select(MessageType::ALL)
}

/// Mostly one of the first members; sometimes zero, an unknown member or a storage thread.
pub(crate) fn member() -> impl Strategy<Value = MemberId> {
    prop_oneof![
        20 => (1..=4u64).prop_map(MemberId),
        1 => Just(MemberId(0)),
        1 => Just(MemberId(99)),
        1 => Just(LOCAL_APPEND_THREAD),
        1 => Just(LOCAL_APPLY_THREAD),
        1 => any::<u64>().prop_map(MemberId),
    ]
}

pub(crate) fn term() -> impl Strategy<Value = Term> {
    position(8).prop_map(Term)
}

pub(crate) fn index() -> impl Strategy<Value = Index> {
    position(16).prop_map(Index)
}

/// Mostly small; sometimes around the largest accepted position, or the largest possible one.
fn position(small: u64) -> impl Strategy<Value = u64> {
    let largest_taken = u64::MAX >> 1;
    prop_oneof![
        40 => 0..small,
        1 => largest_taken - 2..=largest_taken + 2,
        1 => u64::MAX - 2..=u64::MAX,
        1 => any::<u64>(),
    ]
}

pub(crate) fn entry() -> impl Strategy<Value = Entry> {
    let kind = select(&[EntryType::Normal, EntryType::ConfChange, EntryType::ConfChangeV2]);
    (term(), index(), kind, any::<bool>(), bytes(0..20)).prop_map(
        |(term, index, kind, written, data)| {
            // Other types are always encoded.
            let type_written = written && kind == EntryType::Normal;
            Entry { term, index, kind, type_written, data }
        },
    )
}

pub(crate) fn bytes(lengths: std::ops::Range<usize>) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), lengths).prop_map(Bytes::from)
}

pub(crate) fn snapshot() -> impl Strategy<Value = Snapshot> {
    (index(), term(), conf_state(), bytes(0..8)).prop_map(|(index, term, conf_state, data)| {
        Snapshot { data, metadata: SnapshotMetadata { conf_state, index, term } }
    })
}

/// Lists that may be inconsistent.
pub(crate) fn conf_state() -> impl Strategy<Value = ConfState> {
    (members(), members(), members(), members(), any::<bool>()).prop_map(
        |(voters, learners, voters_outgoing, learners_next, auto_leave)| ConfState {
            voters,
            learners,
            voters_outgoing,
            learners_next,
            auto_leave,
        },
    )
}

fn members() -> impl Strategy<Value = Vec<MemberId>> {
    prop_oneof![2 => Just(Vec::new()), 3 => vec(member(), 0..4)]
}
