//! A transport that drops all messages.

use std::time::Duration;

use membership::Membership;
use server::{OutgoingSnapshot, Transport};
use types::MemberId;

/// A transport to peers that never answer: it drops all messages. Unlike [`server::NoPeers`] it
/// permits a cluster with other voters.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentPeers;

impl Transport for SilentPeers {
    fn send(&self, _: Vec<raft::Message>) {}

    fn send_snapshot(&self, _: OutgoingSnapshot) {}

    fn active_since(&self, _: MemberId) -> Option<Duration> {
        None
    }

    fn set_members(&self, _: &Membership) {}
}
