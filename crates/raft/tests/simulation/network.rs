//! The simulated network: delays, losses, duplicates and reordering; links can be cut in either
//! direction.

use std::collections::BTreeSet;

use prost::Message as _;
use raft::{Message, MessageType};
use types::MemberId;

use crate::invariants::{Check, Invariant, Violation, ensure};
use crate::random::Random;
use crate::scenario::NetworkConditions;

/// The links between members.
pub(crate) struct Network {
    pub(crate) conditions: NetworkConditions,
    /// Cut links, each from one member to another.
    cut: BTreeSet<(MemberId, MemberId)>,
}

/// The outcome of sending a message.
pub(crate) enum Delivery {
    Lost,
    /// The message arrives after each of these delays.
    Arrives(Vec<u64>),
}

impl Network {
    pub(crate) fn new(conditions: NetworkConditions) -> Network {
        Network { conditions, cut: BTreeSet::new() }
    }

    pub(crate) fn is_cut(&self, from: MemberId, to: MemberId) -> bool {
        self.cut.contains(&(from, to))
    }

    pub(crate) fn cut(&mut self, from: MemberId, to: MemberId) {
        self.cut.insert((from, to));
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    /// Draws the outcome of a message that is sent now.
    pub(crate) fn delivery(&self, random: &mut Random, from: MemberId, to: MemberId) -> Delivery {
        if self.is_cut(from, to) || random.chance(self.conditions.lost) {
            return Delivery::Lost;
        }
        let copies = if random.chance(self.conditions.doubled) { 2 } else { 1 };
        Delivery::Arrives((0..copies).map(|_| self.delay(random)).collect())
    }

    fn delay(&self, random: &mut Random) -> u64 {
        let late = random.chance(self.conditions.late);
        1 + random.below(self.conditions.delay)
            + if late { random.below(NetworkConditions::LATE) } else { 0 }
    }
}

/// Encodes and decodes a message, which must not change it.
pub(crate) fn through_wire(message: &Message) -> Check<Message> {
    let wire: proto::raftpb::Message = message.clone().into();
    let bytes = wire.encode_to_vec();
    let failed = |error: String| {
        let detail = format!("{message:?} cannot be decoded from its encoding: {error}");
        Violation { invariant: Invariant::WireRoundTrip, detail }
    };
    let wire = proto::raftpb::Message::decode(bytes.as_slice())
        .map_err(|error| failed(error.to_string()))?;
    let decoded = Message::try_from(wire).map_err(|error| failed(error.to_string()))?;
    ensure(decoded == *message, Invariant::WireRoundTrip, || {
        format!("{message:?} is decoded as {decoded:?}")
    })?;
    Ok(decoded)
}

/// Reports whether the transport reports the result of sending this message.
pub(crate) fn is_snapshot(message: &Message) -> bool {
    message.kind == MessageType::MsgSnap
}
