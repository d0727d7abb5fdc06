//! How a member takes part.

use thiserror::Error;
use types::{Index, MemberId};

use crate::message::is_local_thread;

/// How a linearizable read makes sure that its leader still leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadOnlyOption {
    /// Ask a quorum, once for all reads that wait.
    #[default]
    Safe,
    /// Trust that no other leader can have been elected since a quorum last answered. Saves the
    /// round trip and relies on clocks that run at about the same rate.
    LeaseBased,
}

/// How a member takes part. Ticks are the only time there is; the caller decides how long one lasts.
#[derive(Clone, Debug)]
pub struct Config {
    /// This member.
    pub id: MemberId,
    /// Ticks without a leader after which a follower stands for election; the actual number is drawn
    /// anew each time between this and twice this.
    pub election_ticks: u32,
    /// Ticks between a leader's heartbeats.
    pub heartbeat_ticks: u32,
    /// Where the draws of election timeouts start. Members of one cluster need different seeds.
    pub seed: u64,
    /// On restart, the last index the state machine holds; nothing up to it is handed out again. The
    /// configuration that storage gives must be the one in force there.
    pub applied: Index,
    /// Hand out storage work as messages that may be answered later, instead of waiting for
    /// [`crate::RawNode::advance`].
    pub async_storage_writes: bool,
    /// Encoded bytes of entries in one append; one entry is always let through.
    pub max_message_bytes: u64,
    /// Encoded bytes of committed entries handed out and not yet applied; zero takes
    /// `max_message_bytes`.
    pub max_applying_bytes: u64,
    /// Payload bytes a leader accepts beyond what is committed; zero sets no limit.
    pub max_uncommitted_bytes: u64,
    /// Appends in flight to each member.
    pub max_inflight_messages: usize,
    /// Payload bytes in flight to each member; zero sets no limit.
    pub max_inflight_bytes: u64,
    /// Whether a leader steps down when a quorum does not answer for an election timeout, and whether
    /// followers ignore candidates while they hear from a leader.
    pub check_quorum: bool,
    /// Whether candidates ask first, without spending a term (thesis 9.6).
    pub pre_vote: bool,
    /// How reads make sure of the leader.
    pub read_only_option: ReadOnlyOption,
    /// Whether followers refuse proposals instead of forwarding them.
    pub disable_proposal_forwarding: bool,
    /// Whether a leader accepts changes of membership without looking at the one in force. Only for
    /// callers that check them above consensus.
    pub disable_conf_change_validation: bool,
    /// Whether a leader that was removed or demoted steps down.
    pub step_down_on_removal: bool,
    /// A bug to plant, to see that the tests find it.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
    /// Whether to leave open the holes that etcd's raft has and this core has closed, so that the two
    /// can be compared in everything else: a leader may be elected before its own vote is durable;
    /// a leader with one voter answers reads alone, whoever that voter is and whatever is committed;
    /// a learner of a later term may be stuck behind a leader of an older one; a candidate that was
    /// demoted meanwhile may be elected.
    #[cfg(feature = "planted-bugs")]
    pub etcd_holes: bool,
}

/// Bugs that every test run plants, to show that the simulation would find them.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Commit an entry of an older term because a quorum holds it (thesis 3.6.2, figure 3.7).
    CommitOlderTerm,
    /// Forget at a restart whom this member voted for.
    ForgetVoteAtRestart,
    /// Acknowledge appends and grant votes before they are durable.
    AnswerBeforeDurable,
}

/// What is wrong with a [`Config`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Zero names nobody.
    #[error("cannot use none as id")]
    NoId,
    /// The id is taken by a storage thread.
    #[error("cannot use local target as id")]
    LocalThreadId,
    /// A leader would never send heartbeats.
    #[error("heartbeat tick must be greater than 0")]
    NoHeartbeat,
    /// Followers would stand for election between two heartbeats.
    #[error("election tick must be greater than heartbeat tick")]
    ElectionTooShort,
    /// Nothing could ever be sent.
    #[error("max inflight messages must be greater than 0")]
    NoInflight,
    /// A full message would never fit.
    #[error("max inflight bytes must be >= max message size")]
    InflightTooSmall,
    /// A lease is only as good as the check behind it.
    #[error("CheckQuorum must be enabled when ReadOnlyOption is ReadOnlyLeaseBased")]
    LeaseWithoutCheckQuorum,
}

impl Config {
    /// A member with etcd's limits on messages and everything optional switched off.
    #[must_use]
    pub fn new(id: MemberId) -> Config {
        Config {
            id,
            election_ticks: 10,
            heartbeat_ticks: 1,
            seed: id.0,
            applied: Index::ZERO,
            async_storage_writes: false,
            max_message_bytes: 1024 * 1024,
            max_applying_bytes: 0,
            max_uncommitted_bytes: 0,
            max_inflight_messages: 512,
            max_inflight_bytes: 0,
            check_quorum: false,
            pre_vote: false,
            read_only_option: ReadOnlyOption::Safe,
            disable_proposal_forwarding: false,
            disable_conf_change_validation: false,
            step_down_on_removal: false,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            #[cfg(feature = "planted-bugs")]
            etcd_holes: false,
        }
    }

    /// Checks the values and replaces the zeros that stand for a default.
    ///
    /// # Errors
    ///
    /// Names the first value that makes no sense.
    pub(crate) fn validated(mut self) -> Result<Config, ConfigError> {
        if self.id == MemberId(0) {
            return Err(ConfigError::NoId);
        }
        if is_local_thread(self.id) {
            return Err(ConfigError::LocalThreadId);
        }
        if self.heartbeat_ticks == 0 {
            return Err(ConfigError::NoHeartbeat);
        }
        if self.election_ticks <= self.heartbeat_ticks {
            return Err(ConfigError::ElectionTooShort);
        }
        if self.max_inflight_messages == 0 {
            return Err(ConfigError::NoInflight);
        }
        if self.max_inflight_bytes != 0 && self.max_inflight_bytes < self.max_message_bytes {
            return Err(ConfigError::InflightTooSmall);
        }
        if self.read_only_option == ReadOnlyOption::LeaseBased && !self.check_quorum {
            return Err(ConfigError::LeaseWithoutCheckQuorum);
        }
        if self.max_uncommitted_bytes == 0 {
            self.max_uncommitted_bytes = u64::MAX;
        }
        if self.max_applying_bytes == 0 {
            // At least one byte, or nothing would ever be handed out.
            self.max_applying_bytes = self.max_message_bytes.max(1);
        }
        Ok(self)
    }
}
