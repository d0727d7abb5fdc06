//! A message came in: its term decides first, then its kind and this member's role.

use thiserror::Error;
use types::{Index, MemberId, Term};

use crate::message::{Message, MessageType};
use crate::storage::Storage;

use super::election::{Campaign, is_transfer};
use super::proposal::ProposeError;
use super::{Raft, Role};

/// Why a message was refused. Nothing has changed then.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StepError {
    /// A kind that does not travel came over the network.
    #[error("raft: cannot step raft local message")]
    LocalMessage,
    /// Something else than a response of this member's own storage was delivered as one.
    #[error("raft: not a response of the local storage")]
    NotFromStorage,
    /// An answer came from somebody who is not a member.
    #[error("raft: cannot step as peer not found")]
    PeerNotFound,
    /// A forwarded proposal was not taken.
    #[error(transparent)]
    Proposal(#[from] ProposeError),
    /// The leader commits entries that this member has acknowledged and no longer has: its log was damaged or
    /// lost. It must not go on voting for logs as short as its own; stop it, and have it start anew.
    #[error(
        "raft: commit {commit} lies behind the last entry {last}: was the log damaged or lost?"
    )]
    LogLost {
        /// The commit index that the leader sent.
        commit: Index,
        /// The last index of the log.
        last: Index,
    },
    /// The message contradicts itself or what this member knows for certain.
    #[error("raft: {kind:?} from {from} refused: {reason}")]
    Malformed {
        /// The kind of the message.
        kind: MessageType,
        /// Its sender.
        from: MemberId,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl<S: Storage> Raft<S> {
    /// Takes a message whose form has been checked.
    pub(crate) fn step(&mut self, message: Message) -> Result<(), StepError> {
        if message.term > self.term {
            if self.ignores_campaign(&message) {
                return Ok(());
            }
            self.adopt_term_of(&message);
        } else if message.term < self.term && message.term != Term::ZERO {
            self.step_stale(&message);
            return Ok(());
        }
        self.step_current(message)
    }

    /// Within the minimum election timeout of hearing from a leader, a candidate is not listened to:
    /// it is probably cut off from the leader alone. Not so if the leader itself asked for it.
    fn ignores_campaign(&self, message: &Message) -> bool {
        let campaign = matches!(message.kind, MessageType::MsgVote | MessageType::MsgPreVote);
        let in_lease = self.config.check_quorum
            && self.lead().is_some()
            && self.election_elapsed < self.config.election_ticks;
        campaign && in_lease && !is_transfer(message)
    }

    /// A newer term ends this member's part in its own.
    fn adopt_term_of(&mut self, message: &Message) {
        use MessageType::{MsgApp, MsgHeartbeat, MsgPreVote, MsgPreVoteResp, MsgSnap};
        match message.kind {
            // A question about a term that nobody has started.
            MsgPreVote => {}
            // Answers in the term that was asked about; a refusal carries the refuser's own.
            MsgPreVoteResp if !message.reject => {}
            MsgApp | MsgHeartbeat | MsgSnap => {
                self.become_follower(message.term, Some(message.from));
            }
            _ => self.become_follower(message.term, None),
        }
    }

    /// A message of an older term is late; some must be answered all the same.
    fn step_stale(&mut self, message: &Message) {
        match message.kind {
            MessageType::MsgHeartbeat | MessageType::MsgApp if self.must_depose() => {
                self.send(Message::new(MessageType::MsgAppResp, message.from));
            }
            // Silence could leave the cluster without a leader: members of a higher term but with a
            // shorter log could neither be elected nor elect.
            MessageType::MsgPreVote => self.refuse_vote(message),
            // Entries may have been replaced since, so only a snapshot is certain to be durable.
            MessageType::MsgStorageAppendResp => self.on_snapshot_stored(message),
            _ => {}
        }
    }

    /// Whether a leader of an older term is told so, which deposes it. Otherwise this member would do that by
    /// standing for election; but it is not listened to while others hear from that leader, or asks before it
    /// stands, or may not stand at all, as a learner, and could never follow again.
    fn must_depose(&self) -> bool {
        let never_stands = !self.is_promotable() && !self.has_etcd_holes();
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
            // Never asks first: the leader itself asked for this, so there is nothing to find out.
            MessageType::MsgTimeoutNow => self.hup(Campaign::Transfer),
            MessageType::MsgReadIndexResp => self.on_read_index_response(&message),
            _ => {}
        }
    }

    fn step_candidate(&mut self, message: Message) {
        match message.kind {
            // Somebody else was elected in this term.
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

    /// All of these come from a member whose progress is tracked; others are ignored.
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
