//! All other members, and those who may be.
//!
//! A *remote* is somebody who speaks as one of this cluster, and whom this member does not know: it may be behind, and the other have joined since. What consensus answers to
//! such a one is posted to the URLs that it names. Whoever can reach the peer port can make some up, so there are few, and the first to come is the first to go.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use membership::Membership;
use net::Background;
use raft::Message;
use types::MemberId;

use crate::addresses::{Url, urls};
use crate::contact::Contact;
use crate::peer::Peer;
use crate::pipeline::{self, Pipeline};

/// Those who are not known as members.
pub(crate) const REMOTES_MAX: usize = 64;

/// All there are.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    members: BTreeMap<MemberId, Arc<Peer>>,
    remotes: VecDeque<Remote>,
}

#[derive(Debug)]
struct Remote {
    contact: Arc<Contact>,
    pipeline: Pipeline,
}

impl Peers {
    pub(crate) fn get(&self, id: MemberId) -> Option<&Arc<Peer>> {
        self.members.get(&id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.members.values()
    }

    /// Sends a message to whom it names. Returns what is to be woken, when all have been sent.
    pub(crate) fn send(&self, message: Message) -> Option<Waker> {
        if let Some(peer) = self.members.get(&message.to) {
            return peer.send(message);
        }
        let remote = self.remotes.iter().find(|remote| remote.contact.id == message.to);
        match remote {
            Some(remote) => remote.send(message),
            None => tracing::debug!(
                r#type = message.kind.as_str(), unknown_target_peer_id = %message.to,
                "ignored message send request; unknown remote peer target"
            ),
        }
        None
    }

    /// Members came, went or moved. `contact` knows how to speak with them.
    pub(crate) fn set(
        &mut self,
        members: &Membership,
        local: MemberId,
        on: &Background,
        contact: impl Fn(MemberId, Vec<Url>) -> Contact,
    ) {
        let gone: Vec<MemberId> =
            self.members.keys().copied().filter(|id| members.member(*id).is_none()).collect();
        for id in gone {
            self.members.remove(&id);
            tracing::info!(local_member_id = %local, removed_remote_peer_id = %id, "removed remote peer");
        }
        for member in members.members().filter(|member| member.id != local) {
            let (id, texts) = (member.id, &member.raft.peer_urls);
            if let Some(peer) = self.members.get(&id) {
                if peer.contact.picker.update(urls(texts)) {
                    tracing::info!(local_member_id = %local, updated_remote_peer_id = %id, updated_remote_peer_urls = ?texts, "updated remote peer");
                }
                continue;
            }
            self.remotes.retain(|remote| remote.contact.id != id);
            let peer = Peer::start(contact(id, urls(texts)), on);
            self.members.insert(id, Arc::new(peer));
            tracing::info!(local_member_id = %local, remote_peer_id = %id, remote_peer_urls = ?texts, "added remote peer");
        }
    }

    /// Whether somebody is neither a member nor a remote.
    pub(crate) fn is_unknown(&self, id: MemberId) -> bool {
        !self.members.contains_key(&id)
            && !self.remotes.iter().any(|remote| remote.contact.id == id)
    }

    /// Somebody who is not known.
    pub(crate) fn add_remote(&mut self, contact: Contact, on: &Background) {
        if !self.is_unknown(contact.id) {
            return;
        }
        if self.remotes.len() >= REMOTES_MAX {
            self.remotes.pop_front();
        }
        tracing::info!(
            local_member_id = %contact.identity.member, remote_peer_id = %contact.id,
            remote_peer_url = contact.picker.pick().as_ref().map(Url::text),
            "added new remote peer"
        );
        let contact = Arc::new(contact);
        let pipeline = Pipeline::start(&contact, on);
        self.remotes.push_back(Remote { contact, pipeline });
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
            self.contact.overflowed(kind, pipeline::NAME);
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.contact.status.end();
    }
}
