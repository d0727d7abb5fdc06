//! The network: late, lost, doubled and out of order; links can be cut, also in one direction.

use std::collections::BTreeSet;

use prost::Message as _;
use raft::{Message, MessageType};
use types::MemberId;

use crate::invariants::{Check, Invariant, Violation, ensure};
use crate::random::Random;
use crate::scenario::Weather;

/// The links between members.
pub(crate) struct Network {
    pub(crate) weather: Weather,
    /// Links that carry nothing, from one member to another.
    cut: BTreeSet<(MemberId, MemberId)>,
}

/// What becomes of a message.
pub(crate) enum Fate {
    Lost,
    /// Arrives after each of these delays.
    Arrives(Vec<u64>),
}

impl Network {
    pub(crate) fn new(weather: Weather) -> Network {
        Network { weather, cut: BTreeSet::new() }
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

    /// Decides what becomes of a message that is sent now.
    pub(crate) fn fate(&self, random: &mut Random, from: MemberId, to: MemberId) -> Fate {
        if self.is_cut(from, to) || random.chance(self.weather.lost) {
            return Fate::Lost;
        }
        let copies = if random.chance(self.weather.doubled) { 2 } else { 1 };
        Fate::Arrives((0..copies).map(|_| self.delay(random)).collect())
    }

    fn delay(&self, random: &mut Random) -> u64 {
        let late = random.chance(self.weather.late);
        1 + random.below(self.weather.delay) + if late { random.below(Weather::LATE) } else { 0 }
    }
}

/// Sends a message through its wire form, which must not change it.
pub(crate) fn through_wire(message: &Message) -> Check<Message> {
    let wire: proto::raftpb::Message = message.clone().into();
    let bytes = wire.encode_to_vec();
    let failed = |error: String| {
        let detail = format!("{message:?} does not come back from its wire form: {error}");
        Violation { invariant: Invariant::WireRoundTrip, detail }
    };
    let wire = proto::raftpb::Message::decode(bytes.as_slice())
        .map_err(|error| failed(error.to_string()))?;
    let decoded = Message::try_from(wire).map_err(|error| failed(error.to_string()))?;
    ensure(decoded == *message, Invariant::WireRoundTrip, || {
        format!("{message:?} comes back from its wire form as {decoded:?}")
    })?;
    Ok(decoded)
}

/// Whether the transport tells its member how sending this went.
pub(crate) fn is_snapshot(message: &Message) -> bool {
    message.kind == MessageType::MsgSnap
}
