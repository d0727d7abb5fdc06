//! All peers, and unknown senders that may be peers.
//!
//! A *remote* is a sender that claims to belong to this cluster and that the local member does not
//! know: the local member may be behind, and the sender may have joined since. Responses of
//! consensus are posted to the URLs that it names. Any client that reaches the peer port can claim
//! such ids, so their number is bounded, and the oldest is evicted.

pub(crate) mod context;
mod health;
pub(crate) mod peer;
pub(crate) mod prober;
pub(crate) mod status;
pub(crate) mod url_picker;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use membership::Membership;
use net::Background;
use raft::Message;
use types::MemberId;

use crate::peers::context::PeerContext;
use crate::peers::peer::Peer;
use crate::peers::url_picker::{PeerUrl, urls};
use crate::send::pipeline::{self, Pipeline};

/// The most remotes.
pub(crate) const REMOTES_MAX: usize = 64;

/// All peers and remotes.
#[derive(Debug, Default)]
pub(crate) struct PeerTable {
    members: BTreeMap<MemberId, Arc<Peer>>,
    remotes: VecDeque<Remote>,
}

#[derive(Debug)]
struct Remote {
    context: Arc<PeerContext>,
    pipeline: Pipeline,
}

impl PeerTable {
    pub(crate) fn get(&self, id: MemberId) -> Option<&Arc<Peer>> {
        self.members.get(&id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.members.values()
    }

    /// Sends a message to its target. Returns the waker of the stream writer, to be woken once all
    /// messages are queued.
    pub(crate) fn send(&self, message: Message) -> Option<Waker> {
        if let Some(peer) = self.members.get(&message.to) {
            return peer.send(message);
        }
        let remote = self.remotes.iter().find(|remote| remote.context.id == message.to);
        match remote {
            Some(remote) => remote.send(message),
            None => tracing::debug!(
                r#type = message.kind.as_str(), unknown_target_peer_id = %message.to,
                "ignored message send request; unknown remote peer target"
            ),
        }
        None
    }

    /// Adds, removes and updates peers after a change of the membership. `context` creates the
    /// context of a new one.
    pub(crate) fn set(
        &mut self,
        members: &Membership,
        local: MemberId,
        on: &Background,
        context: impl Fn(MemberId, Vec<PeerUrl>) -> PeerContext,
    ) {
        let removed: Vec<MemberId> =
            self.members.keys().copied().filter(|id| members.member(*id).is_none()).collect();
        for id in removed {
            self.members.remove(&id);
            tracing::info!(local_member_id = %local, removed_remote_peer_id = %id, "removed remote peer");
        }
        for member in members.members().filter(|member| member.id != local) {
            let (id, texts) = (member.id, &member.raft.peer_urls);
            if let Some(peer) = self.members.get(&id) {
                if peer.context.picker.update(urls(texts)) {
                    tracing::info!(local_member_id = %local, updated_remote_peer_id = %id, updated_remote_peer_urls = ?texts, "updated remote peer");
                }
                continue;
            }
            self.remotes.retain(|remote| remote.context.id != id);
            let peer = Peer::start(context(id, urls(texts)), on);
            self.members.insert(id, Arc::new(peer));
            tracing::info!(local_member_id = %local, remote_peer_id = %id, remote_peer_urls = ?texts, "added remote peer");
        }
    }

    /// Returns whether an id is neither a peer nor a remote.
    pub(crate) fn is_unknown(&self, id: MemberId) -> bool {
        !self.members.contains_key(&id)
            && !self.remotes.iter().any(|remote| remote.context.id == id)
    }

    /// Adds a remote, and evicts the oldest one if there are too many.
    pub(crate) fn add_remote(&mut self, context: PeerContext, on: &Background) {
        if !self.is_unknown(context.id) {
            return;
        }
        if self.remotes.len() >= REMOTES_MAX {
            self.remotes.pop_front();
        }
        tracing::info!(
            local_member_id = %context.identity.member, remote_peer_id = %context.id,
            remote_peer_url = context.picker.pick().as_ref().map(PeerUrl::text),
            "added new remote peer"
        );
        let context = Arc::new(context);
        let pipeline = Pipeline::start(&context, on);
        self.remotes.push_back(Remote { context, pipeline });
    }

    #[cfg(test)]
    pub(crate) fn remotes(&self) -> usize {
        self.remotes.len()
    }
}

impl Remote {
    fn send(&self, message: Message) {
        let kind = message.kind;
        if !self.pipeline.push(message) {
            self.context.on_overflow(kind, pipeline::NAME);
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.context.status.end();
    }
}
