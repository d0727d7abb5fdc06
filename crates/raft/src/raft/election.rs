//! Standing for election, voting, counting votes.

use bytes::Bytes;
use types::{MemberId, Term};

use crate::entry::{Entry, EntryId};
use crate::message::{Message, MessageType};
use crate::quorum::VoteResult;
use crate::storage::Storage;

use super::{Raft, Role};

/// What a vote request carries when the leader asked for the campaign: receivers then listen
/// although they hear from that leader. The bytes are etcd's.
const TRANSFER_CONTEXT: &[u8] = b"CampaignTransfer";

/// Why a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Campaign {
    /// To find out whether it would be elected.
    PreElection,
    /// To be elected.
    Election,
    /// To be elected, at the wish of the leader.
    Transfer,
}

/// Whether a vote is asked for at the wish of the leader.
pub(super) fn is_transfer(message: &Message) -> bool {
    message.context == TRANSFER_CONTEXT
}

impl<S: Storage> Raft<S> {
    /// Stands for election, if this member may.
    pub(crate) fn campaign(&mut self) {
        let pre_vote = self.config.pre_vote;
        self.hup(if pre_vote { Campaign::PreElection } else { Campaign::Election });
    }

    pub(super) fn hup(&mut self, campaign: Campaign) {
        if self.is_leader() {
            return;
        }
        if !self.is_promotable() {
            tracing::warn!(member = %self.id(), "cannot campaign: not a voter");
            return;
        }
        // It might be elected by voters that are none any more.
        if self.has_unapplied_conf_changes() {
            tracing::warn!(member = %self.id(), "cannot campaign: a membership change is not applied");
            return;
        }
        self.stand(campaign);
    }

    /// Whether a committed change of membership has not been applied yet.
    fn has_unapplied_conf_changes(&self) -> bool {
        let (lo, hi) = (self.log.applied().next(), self.log.committed().next());
        let changes = |page: &[Entry]| page.iter().any(|entry| entry.kind.is_conf_change());
        self.log
            .any_page(lo, hi, self.log.max_applying_bytes(), changes)
            .expect("committed entries are kept until applied")
    }

    fn stand(&mut self, campaign: Campaign) {
        let (kind, term) = if campaign == Campaign::PreElection {
            self.become_pre_candidate();
            (MessageType::MsgPreVote, self.term.next())
        } else {
            self.become_candidate();
            (MessageType::MsgVote, self.term)
        };
        let last = self.log.last_id();
        let context = match campaign {
            Campaign::Transfer => Bytes::from_static(TRANSFER_CONTEXT),
            Campaign::PreElection | Campaign::Election => Bytes::new(),
        };
        for to in self.tracker.config.voters.ids() {
            if to == self.id() {
                // Its own vote counts once it is durable, like everybody's.
                self.send(Message { term, ..Message::new(response_to(kind), to) });
            } else {
                self.send(Message {
                    term,
                    index: last.index,
                    log_term: last.term,
                    context: context.clone(),
                    ..Message::new(kind, to)
                });
            }
        }
    }

    pub(super) fn on_vote_request(&mut self, message: &Message) {
        let candidate_last = EntryId { term: message.log_term, index: message.index };
        if self.may_vote_for(message) && self.log.is_up_to_date(candidate_last) {
            self.grant_vote(message);
        } else {
            self.refuse_vote(message);
        }
    }

    /// One vote a term. Learners vote too: the candidate may know of a promotion that this member
    /// has yet to hear of, and without its vote there might be no quorum.
    fn may_vote_for(&self, message: &Message) -> bool {
        let repeated = self.vote == Some(message.from);
        let free = self.vote.is_none() && self.lead().is_none();
        let about_the_future = message.kind == MessageType::MsgPreVote && message.term > self.term;
        repeated || free || about_the_future
    }

    fn grant_vote(&mut self, message: &Message) {
        // In the term that was asked about: the candidate ignores answers of older ones.
        let kind = response_to(message.kind);
        self.send(Message { term: message.term, ..Message::new(kind, message.from) });
        if message.kind == MessageType::MsgVote {
            self.election_elapsed = 0;
            self.vote = Some(message.from);
        }
    }

    pub(super) fn refuse_vote(&mut self, message: &Message) {
        // Before its first term a member has nothing to put an answer in. Silence refuses as well.
        if self.term == Term::ZERO {
            return;
        }
        let refusal = Message::new(response_to(message.kind), message.from);
        self.send(Message { term: self.term, reject: true, ..refusal });
    }

    pub(super) fn on_vote_response(&mut self, message: &Message) {
        let awaited = match self.role {
            Role::PreCandidate(_) => MessageType::MsgPreVoteResp,
            _ => MessageType::MsgVoteResp,
        };
        // Answers to the question before the campaign come late.
        if message.kind != awaited {
            return;
        }
        match self.count_vote(message.from, !message.reject) {
            VoteResult::Won if awaited == MessageType::MsgPreVoteResp => {
                self.stand(Campaign::Election);
            }
            // Removed or demoted while it stood: it could not take a single proposal.
            VoteResult::Won if !self.is_promotable() && !self.has_etcd_holes() => {
                self.become_follower(self.term, None);
            }
            VoteResult::Won => {
                self.become_leader();
                self.broadcast_append();
            }
            VoteResult::Lost => self.become_follower(self.term, None),
            VoteResult::Pending => {}
        }
    }

    fn count_vote(&mut self, from: MemberId, granted: bool) -> VoteResult {
        let needs_own_vote = !self.has_etcd_holes();
        let (Role::PreCandidate(candidate) | Role::Candidate(candidate)) = &mut self.role else {
            return VoteResult::Pending;
        };
        candidate.votes.entry(from).or_insert(granted);
        let (yes, no, result) = self.tracker.tally(&candidate.votes);
        tracing::debug!(member = %self.config.id, %from, granted, yes, no, ?result, "vote counted");
        // Until its own vote came back its term is not durable, and a quorum of others is not enough:
        // it could lead, crash, and be elected a second time in the same term by the same voters.
        let has_own_vote = candidate.votes.contains_key(&self.config.id);
        if result == VoteResult::Won && needs_own_vote && !has_own_vote {
            return VoteResult::Pending;
        }
        result
    }
}

fn response_to(kind: MessageType) -> MessageType {
    match kind {
        MessageType::MsgPreVote => MessageType::MsgPreVoteResp,
        _ => MessageType::MsgVoteResp,
    }
}
