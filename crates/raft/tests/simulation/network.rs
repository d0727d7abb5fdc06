//! The simulated network: delays, losses, duplicates and reordering; links can be cut in either
//! direction.

use env::SeededRandom;
use prost::Message as _;
use raft::{Message, MessageType};
use simkit::Links;
use types::MemberId;

use crate::invariants::{Check, Invariant, Violation, ensure};
use crate::scenario::Conditions;

/// The network between the members.
pub(crate) struct Network {
    pub(crate) conditions: Conditions,
    pub(crate) links: Links<MemberId>,
}

impl Network {
    pub(crate) fn new(conditions: Conditions) -> Network {
        Network { conditions, links: Links::default() }
    }

    /// Draws the fate of a message that is sent now: the delay of each copy, or none if it is lost.
    pub(crate) fn draw_copies(
        &self,
        random: &mut SeededRandom,
        from: MemberId,
        to: MemberId,
    ) -> Vec<u64> {
        if self.links.is_cut(from, to) {
            return Vec::new();
        }
        self.conditions.network.draw_copies(random, true)
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
