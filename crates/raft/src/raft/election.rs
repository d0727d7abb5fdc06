//! Campaigns, votes and vote counting.

use bytes::Bytes;
use types::{MemberId, Term};

use crate::entry::{Entry, EntryId};
use crate::message::{Message, MessageType};
use crate::quorum::VoteResult;
use crate::storage::Storage;

use super::{Raft, Role};

/// Compat: as in etcd, the context of vote requests in a leader transfer. Receivers then vote
/// although they hear from the leader.
const TRANSFER_CONTEXT: &[u8] = b"CampaignTransfer";

/// The type of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Campaign {
    /// A pre-vote: finds out whether an election could be won.
    PreElection,
    /// An election.
    Election,
    /// An election that the leader requested.
    Transfer,
}

/// Reports whether the leader requested the campaign of this vote request.
pub(super) fn is_transfer(message: &Message) -> bool {
    message.context == TRANSFER_CONTEXT
}

impl<S: Storage> Raft<S> {
    /// Starts a campaign if this member may campaign.
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
        // It could be elected by members that are no longer voters.
        if self.has_unapplied_conf_changes() {
            tracing::warn!(member = %self.id(), "cannot campaign: a membership change is not applied");
            return;
        }
        self.start_campaign(campaign);
    }

    /// Reports whether a committed conf change has not been applied yet.
    fn has_unapplied_conf_changes(&self) -> bool {
        let (lo, hi) = (self.log.applied().next(), self.log.committed().next());
        let changes = |page: &[Entry]| page.iter().any(|entry| entry.kind.is_conf_change());
        self.log
            .any_page(lo, hi, self.log.max_applying_bytes(), changes)
            .expect("committed entries are available until applied")
    }

    fn start_campaign(&mut self, campaign: Campaign) {
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
                // Its own vote counts once it is durable, like any other vote.
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

    /// Reports whether this member may vote for the candidate; it votes once per term. Learners
    /// vote too: the candidate may know of a promotion that this member has not applied, and
    /// without its vote there might be no quorum.
    fn may_vote_for(&self, message: &Message) -> bool {
        let same_candidate = self.vote == Some(message.from);
        let no_vote_or_leader = self.vote.is_none() && self.lead().is_none();
        let future_pre_vote = message.kind == MessageType::MsgPreVote && message.term > self.term;
        same_candidate || no_vote_or_leader || future_pre_vote
    }

    fn grant_vote(&mut self, message: &Message) {
        // Respond in the requested term: the candidate ignores responses of older terms.
        let kind = response_to(message.kind);
        self.send(Message { term: message.term, ..Message::new(kind, message.from) });
        if message.kind == MessageType::MsgVote {
            self.election_elapsed = 0;
            self.vote = Some(message.from);
        }
    }

    pub(super) fn refuse_vote(&mut self, message: &Message) {
        // A response needs a term, and before its first term a member has none. Silence refuses as
        // well.
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
        // A late response to the pre-vote that preceded this campaign.
        if message.kind != awaited {
            return;
        }
        match self.count_vote(message.from, !message.reject) {
            VoteResult::Won if awaited == MessageType::MsgPreVoteResp => {
                self.start_campaign(Campaign::Election);
            }
            // Removed or demoted during the campaign: as a leader it could not accept any proposal.
            VoteResult::Won if !self.is_promotable() && !self.keeps_etcd_bugs() => {
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
        let needs_own_vote = !self.keeps_etcd_bugs();
        let (Role::PreCandidate(candidate) | Role::Candidate(candidate)) = &mut self.role else {
            return VoteResult::Pending;
        };
        candidate.votes.entry(from).or_insert(granted);
        let (yes, no, result) = self.tracker.tally(&candidate.votes);
        tracing::debug!(member = %self.config.id, %from, granted, yes, no, ?result, "vote counted");
        // Until its own vote is counted its term is not durable, and a quorum of other votes is not
        // enough: it could lead, crash, and win a second election in the same term with the same
        // votes.
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
