//! Message dispatch: by term first, then by kind and role.

use thiserror::Error;
use types::{Index, MemberId, Term};

use crate::message::{Message, MessageType};
use crate::storage::Storage;

use super::election::{Campaign, is_transfer};
use super::proposal::ProposeError;
use super::{Raft, Role};

/// An error for a refused message. The state has not changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StepError {
    /// A message kind that never travels between members arrived from the network.
    #[error("raft: cannot step raft local message")]
    LocalMessage,
    /// A message that is no response of the local storage was delivered as one.
    #[error("raft: not a response of the local storage")]
    NotFromStorage,
    /// A response came from an unknown member.
    #[error("raft: cannot step as peer not found")]
    PeerNotFound,
    /// A forwarded proposal was dropped.
    #[error(transparent)]
    Proposal(#[from] ProposeError),
    /// The leader commits entries that this member acknowledged and no longer has: its log was
    /// damaged or lost. It must not continue to vote for logs as short as its own; stop it and add
    /// it again as a new member.
    #[error("raft: commit {commit} is beyond the last entry {last}: was the log damaged or lost?")]
    LogLost {
        /// The commit index of the message.
        commit: Index,
        /// The last index of the log.
        last: Index,
    },
    /// The message contradicts itself or the state of this member.
    #[error("raft: {kind:?} from {from} refused: {reason}")]
    Malformed {
        /// The kind of the message.
        kind: MessageType,
        /// The sender.
        from: MemberId,
        /// The defect.
        reason: &'static str,
    },
}

impl<S: Storage> Raft<S> {
    /// Steps a message that was validated.
    pub(crate) fn step(&mut self, message: Message) -> Result<(), StepError> {
        if message.term > self.term {
            if self.ignores_vote_request(&message) {
                return Ok(());
            }
            self.adopt_term_of(&message);
        } else if message.term < self.term && message.term != Term::ZERO {
            self.step_stale(&message);
            return Ok(());
        }
        self.step_current(message)
    }

    /// Reports whether a vote request is ignored: within the minimum election timeout after hearing
    /// from a leader, the candidate is probably just cut off from that leader. Requests of a leader
    /// transfer are not ignored.
    fn ignores_vote_request(&self, message: &Message) -> bool {
        let campaign = matches!(message.kind, MessageType::MsgVote | MessageType::MsgPreVote);
        let in_lease = self.config.check_quorum
            && self.lead().is_some()
            && self.election_elapsed < self.config.election_ticks;
        campaign && in_lease && !is_transfer(message)
    }

    /// Adopts the higher term of a message, which ends this member's role.
    fn adopt_term_of(&mut self, message: &Message) {
        use MessageType::{MsgApp, MsgHeartbeat, MsgPreVote, MsgPreVoteResp, MsgSnap};
        match message.kind {
            // A pre-vote asks about a term that has not started.
            MsgPreVote => {}
            // A granted pre-vote carries the requested term; a rejection carries the term of the
            // voter.
            MsgPreVoteResp if !message.reject => {}
            MsgApp | MsgHeartbeat | MsgSnap => {
                self.become_follower(message.term, Some(message.from));
            }
            _ => self.become_follower(message.term, None),
        }
    }

    /// Handles a message of an older term; some kinds need a response.
    fn step_stale(&mut self, message: &Message) {
        match message.kind {
            MessageType::MsgHeartbeat | MessageType::MsgApp if self.must_depose() => {
                self.send(Message::new(MessageType::MsgAppResp, message.from));
            }
            // Silence could leave the cluster without a leader: members with a higher term and a
            // shorter log could neither win nor let others win.
            MessageType::MsgPreVote => self.refuse_vote(message),
            // Entries may have been replaced since; only a snapshot is certainly durable.
            MessageType::MsgStorageAppendResp => self.on_snapshot_stored(message),
            _ => {}
        }
    }

    /// Reports whether a leader of an older term gets a response, which deposes it. Otherwise this
    /// member would depose it by campaigning. That does not work if it is ignored while others hear
    /// from the leader, if it runs a pre-vote first, or if it may not campaign at all, as a
    /// learner; it could then never follow again.
    fn must_depose(&self) -> bool {
        let never_stands = !self.is_promotable() && !self.keeps_etcd_bugs();
        self.config.check_quorum || self.config.pre_vote || never_stands
    }

    fn step_current(&mut self, message: Message) -> Result<(), StepError> {
        match message.kind {
            MessageType::MsgVote | MessageType::MsgPreVote => self.on_vote_request(&message),
            MessageType::MsgStorageAppendResp => self.on_append_stored(&message),
            MessageType::MsgStorageApplyResp => self.on_applied(&message.entries),
            MessageType::MsgProp => self.propose(message.from, message.entries)?,
            MessageType::MsgReadIndex => self.on_read_index(message),
            _ => match self.role {
                Role::Follower { .. } => self.step_follower(message),
                Role::PreCandidate(_) | Role::Candidate(_) => self.step_candidate(message),
                Role::Leader(_) => self.step_leader(&message),
            },
        }
        Ok(())
    }

    fn step_follower(&mut self, message: Message) {
        match message.kind {
            MessageType::MsgApp | MessageType::MsgHeartbeat | MessageType::MsgSnap => {
                self.election_elapsed = 0;
                self.role = Role::Follower { lead: Some(message.from) };
                self.step_from_leader(message);
            }
            MessageType::MsgTransferLeader => self.transfer_leader(message.from),
            // Skips the pre-vote: the leader itself requested this campaign.
            MessageType::MsgTimeoutNow => self.hup(Campaign::Transfer),
            MessageType::MsgReadIndexResp => self.on_read_index_response(&message),
            _ => {}
        }
    }

    fn step_candidate(&mut self, message: Message) {
        match message.kind {
            // Another member was elected in this term.
            MessageType::MsgApp | MessageType::MsgHeartbeat | MessageType::MsgSnap => {
                self.become_follower(message.term, Some(message.from));
                self.step_from_leader(message);
            }
            MessageType::MsgVoteResp | MessageType::MsgPreVoteResp => {
                self.on_vote_response(&message);
            }
            _ => {}
        }
    }

    fn step_from_leader(&mut self, message: Message) {
        match message.kind {
            MessageType::MsgApp => self.on_append(message),
            MessageType::MsgHeartbeat => self.on_heartbeat(message),
            _ => self.on_snapshot(message),
        }
    }

    /// Handles a message to a leader. Members whose progress is not tracked are ignored.
    fn step_leader(&mut self, message: &Message) {
        if !self.tracker.progress.contains(message.from) {
            return;
        }
        match message.kind {
            MessageType::MsgAppResp => self.on_append_response(message),
            MessageType::MsgHeartbeatResp => self.on_heartbeat_response(message),
            MessageType::MsgTransferLeader => self.transfer_leader(message.from),
            _ => {}
        }
    }
}
