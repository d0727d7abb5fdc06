//! The Raft state machine of one member, one file per event.
//!
//! | file | event |
//! | --- | --- |
//! | `tick` | a tick passes |
//! | `step` | a message arrives; dispatched by term, then by kind and role |
//! | `validate` | checks on a message from a peer before it is stepped |
//! | `election` | campaigns, votes and vote counting |
//! | `proposal` | entries are proposed |
//! | `replicate` | a leader sends its log and handles the responses |
//! | `append` | a follower handles appends and heartbeats |
//! | `snapshot` | a follower restores a snapshot |
//! | `read_index` | a linearizable read asks for a read index |
//! | `transfer` | leadership is transferred or forgotten |
//! | `membership` | a conf change is applied |
//! | `stored` | storage reports durable and applied entries |
//!
//! Nothing here blocks, reads a clock, draws system randomness or touches a file. Output is
//! collected in `messages` and in the log, and picked up by [`crate::RawNode`].

mod append;
mod election;
mod membership;
mod proposal;
mod read_index;
mod replicate;
mod role;
mod snapshot;
mod step;
mod stored;
mod tick;
mod transfer;
mod validate;

pub use proposal::{DropReason, ProposeError};
pub use read_index::ReadState;
pub use step::StepError;

pub(crate) use role::{Candidate, Leader, Role};

use types::{Index, MemberId, Term};

use crate::confchange::{self, ConfChangeError};
use crate::config::{Config, ConfigError};
use crate::log::RaftLog;
use crate::message::{Message, MessageType};
use crate::state::{HardState, RoleKind, SoftState};
use crate::storage::Storage;
use crate::tracker::{Progress, ProgressTracker};

/// An error at the start of a member.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A value of the configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Storage contains a configuration that no sequence of conf changes leads to.
    #[error("restore configuration from storage: {0}")]
    ConfState(#[from] ConfChangeError),
    /// Storage contains a commit index outside its log.
    #[error("saved commit {commit} is out of range [{first}, {last}]")]
    Commit {
        /// The saved commit index.
        commit: Index,
        /// The commit index at which the log starts.
        first: Index,
        /// The last index of the log.
        last: Index,
    },
    /// The applied index is beyond the log or before its start.
    #[error("applied {applied} is out of range [{first}, {last}]")]
    Applied {
        /// The given applied index.
        applied: Index,
        /// The index at which the log starts.
        first: Index,
        /// The last index of the log.
        last: Index,
    },
}

/// The Raft state machine of a member.
pub(crate) struct Raft<S> {
    pub(crate) config: Config,
    pub(crate) term: Term,
    pub(crate) vote: Option<MemberId>,
    pub(crate) role: Role,
    pub(crate) log: RaftLog<S>,
    pub(crate) tracker: ProgressTracker,
    /// The configuration in force includes every conf change up to this index.
    conf_index: Index,
    /// Messages that may be sent at once.
    pub(crate) messages: Vec<Message>,
    /// Messages that promise something durable; they are sent after everything that is unstable now
    /// is durable. Those addressed to this member are its own acknowledgements.
    pub(crate) messages_after_append: Vec<Message>,
    pub(crate) read_states: Vec<ReadState>,
    /// Reads that arrived before this leader committed an entry in its term; answered once it has.
    /// At most [`read_index::MAX_WAITING_READS`]. Compat: as in etcd, they outlive the role and are
    /// answered if this member becomes leader again.
    pending_reads: Vec<Message>,
    /// Ticks since a follower heard from its leader, a candidate started its campaign, or a leader
    /// checked its quorum.
    election_elapsed: u32,
    /// The current election timeout, drawn again with every change of term or role.
    randomized_election_ticks: u32,
    random: SplitMix64,
}

impl<S: Storage> Raft<S> {
    /// Creates a member from its storage, as a follower without a leader.
    pub(crate) fn new(config: Config, storage: S) -> Result<Raft<S>, StartError> {
        let config = config.validated()?;
        let (hard_state, conf_state) = storage.initial_state();
        let mut log = RaftLog::new(storage, config.max_applying_bytes);
        let tracker = ProgressTracker::new(config.max_inflight_messages, config.max_inflight_bytes);
        let changed = confchange::restore(tracker.clone(), log.last_index(), &conf_state)?;
        load_positions(&mut log, &hard_state, &config)?;

        let mut raft = Raft {
            random: SplitMix64(config.seed),
            term: hard_state.term,
            vote: hard_state.vote,
            role: Role::Follower { lead: None },
            conf_index: log.applied(),
            log,
            tracker,
            messages: Vec::new(),
            messages_after_append: Vec::new(),
            read_states: Vec::new(),
            pending_reads: Vec::new(),
            election_elapsed: 0,
            randomized_election_ticks: 0,
            config,
        };
        #[cfg(feature = "planted-bugs")]
        if raft.has_planted(crate::config::PlantedBug::ForgetVoteAtRestart) {
            raft.vote = None;
        }
        raft.switch_to_config(changed);
        raft.become_follower(raft.term, None);
        Ok(raft)
    }

    pub(crate) fn id(&self) -> MemberId {
        self.config.id
    }

    pub(crate) fn lead(&self) -> Option<MemberId> {
        match &self.role {
            Role::Follower { lead } => *lead,
            Role::PreCandidate(_) | Role::Candidate(_) => None,
            Role::Leader(_) => Some(self.config.id),
        }
    }

    pub(crate) fn soft_state(&self) -> SoftState {
        SoftState { lead: self.lead(), role: self.role.kind() }
    }

    pub(crate) fn hard_state(&self) -> HardState {
        HardState { term: self.term, vote: self.vote, commit: self.log.committed() }
    }

    /// Becomes a follower of `lead` in `term`, or of a leader yet to be elected.
    fn become_follower(&mut self, term: Term, lead: Option<MemberId>) {
        self.reset(term);
        self.role = Role::Follower { lead };
        tracing::debug!(member = %self.id(), %term, "became follower");
    }

    /// Becomes a candidate in the next term and votes for itself.
    fn become_candidate(&mut self) {
        assert!(!self.is_leader(), "a leader does not campaign");
        self.reset(self.term.next());
        self.vote = Some(self.id());
        self.role = Role::Candidate(Candidate::default());
        tracing::info!(member = %self.id(), term = %self.term, "became candidate");
    }

    /// Becomes a pre-candidate. Term and vote do not change, because a pre-vote promises nothing.
    fn become_pre_candidate(&mut self) {
        assert!(!self.is_leader(), "a leader does not campaign");
        self.role = Role::PreCandidate(Candidate::default());
        tracing::info!(member = %self.id(), term = %self.term, "became pre-candidate");
    }

    /// Becomes the leader and appends an empty entry, which also commits the entries of older
    /// terms.
    fn become_leader(&mut self) {
        assert!(self.role.kind() == RoleKind::Candidate, "only a candidate becomes leader");
        self.reset(self.term);
        // A conf change may be among the existing entries; assume so instead of scanning for one.
        let pending_conf_index = self.log.last_index();
        self.role = Role::Leader(Box::new(Leader::new(pending_conf_index)));
        let id = self.id();
        if let Some(progress) = self.tracker.progress.get_mut(id) {
            progress.become_replicate();
            progress.recent_active = true;
        }
        self.append_entries(vec![crate::Entry::default()])
            .expect("an entry without payload exceeds no limit");
        tracing::info!(member = %id, term = %self.term, "became leader");
    }

    /// Initializes an empty log with committed entries.
    pub(crate) fn start_from(&mut self, entries: Vec<crate::Entry>) {
        self.become_follower(Term(1), None);
        let last = self.log.append(entries);
        self.log.load_commit(last);
    }

    fn is_leader(&self) -> bool {
        self.role.kind() == RoleKind::Leader
    }

    /// Resets the state that every change of role or term starts from.
    fn reset(&mut self, term: Term) {
        if self.term != term {
            self.term = term;
            self.vote = None;
        }
        self.role = Role::Follower { lead: None };
        self.election_elapsed = 0;
        self.draw_election_timeout();
        let (id, last) = (self.id(), self.log.last_index());
        let inflights = self.tracker.new_inflights();
        for (member, progress) in self.tracker.progress.iter_mut() {
            *progress = Progress::new(last.next(), inflights.clone(), progress.is_learner);
            if member == id {
                progress.matched = last;
            }
        }
    }

    fn draw_election_timeout(&mut self) {
        let ticks = self.config.election_ticks;
        self.randomized_election_ticks = ticks.saturating_add(self.random.below(ticks));
    }

    /// Sets the election timeout; for tests that need to know when an election starts.
    pub(crate) fn set_randomized_election_ticks(&mut self, ticks: u32) {
        self.randomized_election_ticks = ticks;
    }

    /// Queues a message with this member's id and term. Messages that promise something durable
    /// wait for the storage.
    fn send(&mut self, mut message: Message) {
        use MessageType::{
            MsgPreVote, MsgPreVoteResp, MsgProp, MsgReadIndex, MsgVote, MsgVoteResp,
        };
        if message.from == MemberId(0) {
            message.from = self.id();
        }
        match message.kind {
            // Vote messages name the term of the campaign, which for a pre-vote is not this
            // member's term.
            MsgVote | MsgVoteResp | MsgPreVote | MsgPreVoteResp => {
                assert!(message.term != Term::ZERO, "vote messages carry a term");
            }
            // Forwarded on behalf of a client; they belong to no term.
            MsgProp | MsgReadIndex => {}
            _ => message.term = self.term,
        }
        if self.must_wait_for_storage(&message) {
            self.messages_after_append.push(message);
        } else {
            assert!(
                message.to != self.id(),
                "only messages that wait for storage may be addressed to this member"
            );
            self.messages.push(message);
        }
    }

    /// Reports whether a message must wait for the storage. A vote or an acknowledgement that is
    /// sent before it is durable could be revoked by a crash (thesis 3.8). Rejections wait too:
    /// they may depend on state that is not durable either.
    fn must_wait_for_storage(&self, message: &Message) -> bool {
        #[cfg(feature = "planted-bugs")]
        if self.has_planted(crate::config::PlantedBug::AnswerBeforeDurable) {
            return message.to == self.id();
        }
        message.kind.waits_for_storage()
    }

    /// Reports whether the known bugs of etcd's raft are kept, for comparison with it.
    pub(crate) fn keeps_etcd_bugs(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.config.keep_etcd_bugs;
        #[cfg(not(feature = "planted-bugs"))]
        return false;
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn has_planted(&self, bug: crate::config::PlantedBug) -> bool {
        self.config.planted_bug == Some(bug)
    }
}

/// Restores the commit and the applied index at a restart.
///
/// The commit index need not be saved at once, so it may be lower than what is certainly committed:
/// the entries that a snapshot covers, and the entries that are applied.
fn load_positions<S: Storage>(
    log: &mut RaftLog<S>,
    saved: &HardState,
    config: &Config,
) -> Result<(), StartError> {
    let (first, last, applied) = (log.committed(), log.last_index(), config.applied);
    if saved.commit > last {
        return Err(StartError::Commit { commit: saved.commit, first, last });
    }
    if applied != Index::ZERO && (applied < first || applied > last) {
        return Err(StartError::Applied { applied, first, last });
    }
    log.load_commit(saved.commit.max(first).max(applied));
    if !config.disable_conf_change_validation {
        log.load_commit(implied_commit(log));
    }
    log.applied_to(applied.max(first), 0);
    Ok(())
}

/// Returns the commit index that the log itself implies, whatever was saved: a leader appends a
/// conf change only after it has applied the previous one. (Unless conf change validation is
/// disabled, which must then be so on all members.)
///
/// Entries are saved before the hard state, and a crash may happen in between. A member that
/// trusted the saved commit index would campaign with a configuration several changes old, whose
/// majority need not overlap with the current one.
fn implied_commit<S: Storage>(log: &RaftLog<S>) -> Index {
    let mut certain = log.committed();
    let mut newest = None;
    let (lo, hi) = (certain.next(), log.last_index().next());
    log.any_page(lo, hi, log.max_applying_bytes(), |page| {
        for change in page.iter().filter(|entry| entry.kind.is_conf_change()) {
            certain = newest.replace(change.index).unwrap_or(certain);
        }
        false
    })
    .expect("the log contains all entries after its commit index");
    certain
}

/// A small generator for election timeouts, which need to differ between members but not to be
/// unpredictable. (Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014.)
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let scaled = ((mixed >> 32) * u64::from(bound)) >> 32;
        u32::try_from(scaled).expect("less than a u32 bound")
    }
}
