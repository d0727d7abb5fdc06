//! Held proposals: requests and conf changes that wait until consensus can take them.
//!
//! Requests wait for a leader. A conf change also waits for the one in flight, because consensus
//! takes one at a time and ignores the next.

use std::time::Duration;

use bytes::Bytes;
use proto::raftpb;
use raft::{DropReason, ProposeError, RoleKind, Storage as _};
use types::Term;

use super::RaftLoop;
use crate::error::Error;

/// A proposal that consensus has not taken yet.
#[derive(Debug)]
pub(super) struct HeldProposal {
    pub(super) id: u64,
    pub(super) payload: HeldPayload,
    pub(super) since: Duration,
}

#[derive(Debug)]
pub(super) enum HeldPayload {
    /// An encoded request. With a leader term, it is dropped unless the local member leads in it.
    Request(Bytes, Option<Term>),
    ConfChange(raftpb::ConfChange),
}

/// A conf change that the local member has proposed and not yet applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfChangeInFlight {
    pub(super) id: u64,
    pub(super) since: Duration,
}

/// Requests that are proposed with one call.
#[derive(Debug, Default)]
struct ProposalBatch {
    ids: Vec<u64>,
    data: Vec<Bytes>,
}

impl ProposalBatch {
    fn push(&mut self, id: u64, data: Bytes) {
        self.ids.push(id);
        self.data.push(data);
    }
}

impl RaftLoop {
    /// Proposes all held proposals in batches, if there is a leader.
    pub(super) fn propose_held(&mut self) {
        if self.held.is_empty() || self.node.basic_status().soft_state.lead.is_none() {
            return;
        }
        let pending = &self.proposals.pending;
        // Its waiter may have given up, or a leader may have lost the entry.
        self.conf_change.take_if(|change| !pending.has_waiter(change.id));
        let mut batch = ProposalBatch::default();
        for held in std::mem::take(&mut self.held) {
            match held.payload {
                HeldPayload::Request(_, Some(term)) if !self.leads_in(term) => {
                    self.drop_proposal(held.id, DropReason::NoLeader);
                }
                HeldPayload::Request(data, _) => batch.push(held.id, data),
                HeldPayload::ConfChange(_) if !self.can_propose_conf_change() => {
                    self.held.push_back(held);
                }
                HeldPayload::ConfChange(change) => {
                    self.propose_batch(std::mem::take(&mut batch));
                    self.propose_conf_change(held.id, change);
                }
            }
        }
        self.propose_batch(batch);
    }

    /// Returns whether consensus would take a conf change. It ignores one while another is in
    /// flight, or may be: a new leader may have inherited one. Its waiter would never complete.
    fn can_propose_conf_change(&self) -> bool {
        let status = self.node.basic_status();
        let is_new_leader = status.soft_state.role == RoleKind::Leader
            && self.node.storage().term(status.applied) != Ok(status.hard_state.term);
        self.conf_change.is_none() && !is_new_leader
    }

    fn leads_in(&self, term: Term) -> bool {
        let status = self.node.basic_status();
        status.soft_state.role == RoleKind::Leader && status.hard_state.term == term
    }

    fn propose_batch(&mut self, batch: ProposalBatch) {
        if let Err(ProposeError { reason }) = self.node.propose_batch(batch.data) {
            batch.ids.into_iter().for_each(|id| self.drop_proposal(id, reason));
        }
    }

    fn drop_proposal(&self, id: u64, reason: DropReason) {
        let error = match reason {
            DropReason::TooMuchUncommitted => Error::TooManyRequests,
            _ => Error::ProposalDropped,
        };
        self.proposals.pending.fail(id, error);
    }

    fn propose_conf_change(&mut self, id: u64, change: raftpb::ConfChange) {
        let proposed = raft::ConfChange::try_from(change)
            .map_err(|_| DropReason::ReservedId)
            .and_then(|change| self.node.propose_conf_change(change).map_err(|it| it.reason));
        match proposed {
            Ok(()) => {
                self.conf_change = Some(ConfChangeInFlight { id, since: self.context.now() });
            }
            Err(reason) => self.drop_proposal(id, reason),
        }
    }
}
