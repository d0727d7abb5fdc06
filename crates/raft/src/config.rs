//! The configuration of a member.

use thiserror::Error;
use types::{Index, MemberId};

use crate::message::is_local_thread;

/// The way in which a leader confirms its leadership before it serves a linearizable read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadOnlyOption {
    /// Exchange a heartbeat round with a quorum; all waiting reads share one round.
    #[default]
    Safe,
    /// Rely on the leader lease: no other leader can be elected while a quorum answers. Saves the
    /// round trip and assumes that all clocks run at about the same rate.
    LeaseBased,
}

/// The configuration of a member. Time is counted in ticks; the caller decides how long a tick
/// lasts.
#[derive(Clone, Debug)]
pub struct Config {
    /// The id of this member.
    pub id: MemberId,
    /// Ticks without contact to a leader after which a follower campaigns. The actual timeout is
    /// drawn between this value and twice this value.
    pub election_ticks: u32,
    /// Ticks between a leader's heartbeats.
    pub heartbeat_ticks: u32,
    /// The seed for election timeouts. Members of one cluster need different seeds.
    pub seed: u64,
    /// The applied index at a restart; entries up to it are not handed out again. The configuration
    /// in storage must be the one in force at this index.
    pub applied: Index,
    /// Whether to hand out storage work as messages that may be acknowledged later, instead of
    /// waiting for [`crate::RawNode::advance`].
    pub async_storage_writes: bool,
    /// The maximum encoded bytes of entries in one append. A single entry may exceed it.
    pub max_message_bytes: u64,
    /// The maximum encoded bytes of committed entries that are handed out and not yet applied; zero
    /// means `max_message_bytes`.
    pub max_applying_bytes: u64,
    /// The maximum payload bytes that a leader accepts and has not committed; zero means no limit.
    pub max_uncommitted_bytes: u64,
    /// The maximum number of appends in flight to each member.
    pub max_inflight_messages: usize,
    /// The maximum payload bytes in flight to each member; zero means no limit.
    pub max_inflight_bytes: u64,
    /// Whether a leader steps down if no quorum answers for an election timeout, and whether
    /// followers ignore candidates while they hear from a leader.
    pub check_quorum: bool,
    /// Whether candidates run a pre-vote round before they increment the term (thesis 9.6).
    pub pre_vote: bool,
    /// The way in which linearizable reads confirm the leader.
    pub read_only_option: ReadOnlyOption,
    /// Whether followers refuse proposals instead of forwarding them.
    pub disable_proposal_forwarding: bool,
    /// Whether a leader accepts conf changes without comparing them with the current configuration.
    /// Only for callers that validate them above consensus.
    pub disable_conf_change_validation: bool,
    /// Whether a leader that was removed or demoted steps down.
    pub step_down_on_removal: bool,
    /// A deliberate bug that the tests must find.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
    /// Whether to keep the bugs of etcd's raft that this core has fixed, so that everything else
    /// can be compared: a candidate may win before its own vote is durable; a leader with one voter
    /// answers reads alone, even if it is not that voter or has committed nothing in its term; a
    /// learner of a later term may stay stuck with a leader of an older term; a candidate that was
    /// demoted in the meantime may win.
    #[cfg(feature = "planted-bugs")]
    pub keep_etcd_bugs: bool,
}

/// Deliberate bugs that show that the simulation finds them.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Commits an entry of an older term because a quorum holds it (thesis 3.6.2, figure 3.7).
    CommitOlderTerm,
    /// Forgets the vote at a restart.
    ForgetVoteAtRestart,
    /// Acknowledges appends and grants votes before they are durable.
    AnswerBeforeDurable,
}

/// An invalid value of a [`Config`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The id is zero.
    #[error("cannot use none as id")]
    NoId,
    /// The id is reserved for a local thread.
    #[error("cannot use local target as id")]
    LocalThreadId,
    /// Without heartbeat ticks a leader would never send heartbeats.
    #[error("heartbeat tick must be greater than 0")]
    NoHeartbeat,
    /// Followers would campaign between two heartbeats.
    #[error("election tick must be greater than heartbeat tick")]
    ElectionTooShort,
    /// Without a window no append could be sent.
    #[error("max inflight messages must be greater than 0")]
    NoInflight,
    /// A full message would exceed the window.
    #[error("max inflight bytes must be >= max message size")]
    InflightTooSmall,
    /// The leader lease is only valid with quorum checks.
    #[error("CheckQuorum must be enabled when ReadOnlyOption is ReadOnlyLeaseBased")]
    LeaseWithoutCheckQuorum,
}

impl Config {
    /// Returns a configuration with etcd's message limits and all options disabled.
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
            keep_etcd_bugs: false,
        }
    }

    /// Validates the values and replaces the zeros that stand for a default.
    ///
    /// # Errors
    ///
    /// Returns the first invalid value.
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
