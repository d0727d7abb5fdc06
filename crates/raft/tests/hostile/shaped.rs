//! Strategies for plausible messages, which pass more of the validation.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;
use proto::raftpb;
use raft::{
    ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
    Entry, EntryId, EntryType, Message, MessageType, Snapshot,
};
use types::{Index, MemberId, Term};

use super::arbitrary;
use super::member::{KNOWN_LOG, ME, TERM};

/// Any message: some arbitrary, some with valid addresses, most plausible.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        1 => arbitrary::message(),
        2 => addressed(),
        7 => shaped(),
    ]
}

/// A message of arbitrary content from a peer to this member, with a valid term.
fn addressed() -> impl Strategy<Value = Message> {
    (arbitrary::message(), peer()).prop_map(|(message, from)| {
        let forwarded = matches!(message.kind, MessageType::MsgProp | MessageType::MsgReadIndex);
        let term = match message.term {
            _ if forwarded => Term::ZERO,
            Term::ZERO => TERM,
            term => term,
        };
        Message { to: ME, from, term, ..message }
    })
}

fn peer() -> impl Strategy<Value = MemberId> {
    prop_oneof![10 => 2..=4u64, 1 => Just(99)].prop_map(MemberId)
}

/// A message whose content fits its kind.
fn shaped() -> impl Strategy<Value = Message> {
    let payloads = vec((0..2u64, payload()), 0..5);
    let anchor = option::weighted(0.7, select(&KNOWN_LOG));
    (addressed(), anchor, payloads, conf_state(), context()).prop_map(
        |(message, anchor, payloads, conf_state, context)| match message.kind {
            MessageType::MsgApp => append(message, anchor, payloads),
            MessageType::MsgProp => {
                let entries = payloads.into_iter().map(|(_, entry)| entry).collect();
                Message { entries, ..message }
            }
            MessageType::MsgReadIndex | MessageType::MsgReadIndexResp => {
                Message { entries: vec![Entry::normal(context)], ..message }
            }
            MessageType::MsgSnap => Message {
                snapshot: message.snapshot.map(|snapshot| Box::new(with(*snapshot, conf_state))),
                ..message
            },
            _ => Message { context, ..message },
        },
    )
}

/// Consecutive entries with increasing terms after `anchor`, an entry of this member's log, or
/// after an arbitrary position.
fn append(message: Message, anchor: Option<EntryId>, payloads: Vec<(u64, Entry)>) -> Message {
    let EntryId { term, index } =
        anchor.unwrap_or(EntryId { term: message.log_term, index: message.index });
    let mut last = Entry { term, index, ..Entry::default() };
    if last.term == Term::ZERO || last.index == Index::ZERO {
        (last.term, last.index) = Default::default();
    }
    let (log_term, index) = (last.term, last.index);
    let mut entries = Vec::new();
    for (growth, payload) in payloads {
        let term = Term(last.term.0.saturating_add(growth).max(1));
        let Some(next) = last.index.0.checked_add(1) else {
            break;
        };
        last = Entry { term, index: Index(next), ..payload };
        entries.push(last.clone());
    }
    let term = message.term.max(last.term);
    Message { term, log_term, index, entries, ..message }
}

fn with(mut snapshot: Snapshot, conf_state: ConfState) -> Snapshot {
    snapshot.metadata.conf_state = conf_state;
    snapshot.metadata.term = snapshot.metadata.term.max(Term(1));
    snapshot
}

/// Consistent configurations, nearly all with this member in them.
fn conf_state() -> impl Strategy<Value = ConfState> {
    let ids = |ids: &[u64]| ids.iter().copied().map(MemberId).collect::<Vec<_>>();
    let plain = |voters: &[u64]| ConfState { voters: ids(voters), ..ConfState::default() };
    let joint = |auto_leave| ConfState {
        voters: ids(&[1, 2]),
        voters_outgoing: ids(&[1, 3, 4]),
        learners_next: ids(&[4]),
        auto_leave,
        ..ConfState::default()
    };
    select(vec![
        plain(&[1]),
        plain(&[1, 2]),
        plain(&[1, 2, 3]),
        plain(&[2, 3]),
        ConfState { learners: ids(&[1]), ..plain(&[2, 3]) },
        ConfState { learners: ids(&[5, 6]), ..plain(&[1, 2, 3, 4]) },
        joint(true),
        joint(false),
    ])
}

/// Valid and invalid read positions and campaign types.
fn context() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        1 => Just(Bytes::new()),
        1 => Just(Bytes::from_static(b"CampaignTransfer")),
        3 => (0..4u64).prop_map(|position| Bytes::copy_from_slice(&position.to_le_bytes())),
        1 => Just(Bytes::copy_from_slice(&u64::MAX.to_le_bytes())),
        1 => arbitrary::bytes(0..12),
    ]
}

/// An entry without a position, nearly always valid.
fn payload() -> impl Strategy<Value = Entry> {
    prop_oneof![
        1 => arbitrary::entry(),
        12 => arbitrary::bytes(0..30).prop_map(Entry::normal),
        3 => conf_change_v1().prop_map(|change| {
            let data = raftpb::ConfChange::from(change).encode_to_vec();
            Entry { kind: EntryType::ConfChange, data: data.into(), ..Entry::default() }
        }),
        3 => conf_change().prop_map(|change| {
            let data = raftpb::ConfChangeV2::from(change).encode_to_vec();
            Entry { kind: EntryType::ConfChangeV2, data: data.into(), ..Entry::default() }
        }),
    ]
}

fn single() -> impl Strategy<Value = ConfChangeSingle> {
    use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode, UpdateNode};
    (select(&[AddNode, AddLearnerNode, RemoveNode, UpdateNode]), arbitrary::member())
        .prop_map(|(kind, node_id)| ConfChangeSingle { kind, node_id })
}

fn conf_change_v1() -> impl Strategy<Value = ConfChange> {
    (single(), arbitrary::bytes(0..4)).prop_map(|(single, context)| ConfChange {
        id: 7,
        kind: single.kind,
        node_id: single.node_id,
        context,
    })
}

/// Any conf change, valid or not.
pub(crate) fn conf_change() -> impl Strategy<Value = ConfChangeV2> {
    use ConfChangeTransition::{Auto, JointExplicit, JointImplicit};
    let transition = select(&[Auto, JointImplicit, JointExplicit]);
    (transition, vec(single(), 0..4), arbitrary::bytes(0..4))
        .prop_map(|(transition, changes, context)| ConfChangeV2 { transition, changes, context })
}
