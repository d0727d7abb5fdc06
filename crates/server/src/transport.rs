//! How members reach each other. The server declares what it needs; the binary plugs in what speaks etcd's peer protocol, a simulation its own.

use std::fmt::Debug;
use std::time::Duration;

use types::MemberId;

/// Carries messages to other members. Nothing here waits, and what cannot be delivered is dropped: consensus sends it again.
pub trait Transport: Send + Sync + Debug {
    /// Sends messages, in order, each to the member it names.
    fn send(&self, messages: Vec<raft::Message>);

    /// Whether, and since when, this member is connected to another.
    fn active_since(&self, member: MemberId) -> Option<Duration>;

    /// Members came, went or moved.
    fn set_members(&self, members: &membership::Membership);

    /// Whether there is any way to others. Where there is none, nobody else gets a vote: the cluster would never decide anything again.
    fn reaches_others(&self) -> bool {
        true
    }
}

/// The transport of a member that is alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Transport for Alone {
    fn send(&self, _: Vec<raft::Message>) {}

    fn active_since(&self, _: MemberId) -> Option<Duration> {
        None
    }

    fn set_members(&self, _: &membership::Membership) {}

    fn reaches_others(&self) -> bool {
        false
    }
}
