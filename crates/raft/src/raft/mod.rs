//! The state machine of one member, split by what happens to it.
//!
//! | file | event |
//! | --- | --- |
//! | `tick` | time passed |
//! | `step` | a message came in: its term decides first, then its kind |
//! | `validate` | what a message from a peer must be like before it is looked at |
//! | `election` | standing for election, voting, counting votes |
//! | `proposal` | somebody wants entries appended |
//! | `replicate` | a leader sends its log and hears how far it got |
//! | `append` | a follower takes entries and heartbeats |
//! | `snapshot` | a follower starts over |
//! | `read_index` | somebody wants a linearizable read |
//! | `transfer` | leadership moves on purpose |
//! | `membership` | a change of configuration is applied |
//! | `stored` | storage reports what is durable and what is applied |
//!
//! Nothing here blocks, reads a clock, draws from the system's randomness or touches a file. What the
//! outside must do is collected in `messages` and in the log, and picked up by [`crate::RawNode`].

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

/// Why a member cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A value of the configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Storage holds a membership that no sequence of changes leads to.
    #[error("restore configuration from storage: {0}")]
    ConfState(#[from] ConfChangeError),
    /// Storage holds a commit index outside of its log.
    #[error("saved commit {commit} is out of range [{first}, {last}]")]
    Commit {
        /// The commit index saved.
        commit: Index,
        /// The commit index the log starts from.
        first: Index,
        /// The last index of the log.
        last: Index,
    },
    /// The state machine is ahead of the log, or behind its beginning.
    #[error("applied {applied} is out of range [{first}, {last}]")]
    Applied {
        /// The applied index given.
        applied: Index,
        /// Where the log starts.
        first: Index,
        /// The last index of the log.
        last: Index,
    },
}

/// One member.
pub(crate) struct Raft<S> {
    pub(crate) config: Config,
    pub(crate) term: Term,
    pub(crate) vote: Option<MemberId>,
    pub(crate) role: Role,
    pub(crate) log: RaftLog<S>,
    pub(crate) tracker: ProgressTracker,
    /// The configuration in force contains every change up to here.
    conf_index: Index,
    /// Messages that may go out at once.
    pub(crate) messages: Vec<Message>,
    /// Messages that promise something, to go out once all that is unstable now is durable. Those to
    /// this member itself are its own acknowledgements.
    pub(crate) messages_after_append: Vec<Message>,
    pub(crate) read_states: Vec<ReadState>,
    /// Reads that came before this leader committed anything in its term; answered once it has. They outlive
    /// the role, as in etcd: should this member lead again, they are answered then. At most
    /// [`read_index::MAX_WAITING_READS`].
    pending_reads: Vec<Message>,
    /// Ticks since a follower heard from its leader, a candidate stood, or a leader checked.
    election_elapsed: u32,
    /// Drawn anew with every term and role.
    randomized_election_ticks: u32,
    random: SplitMix64,
}

impl<S: Storage> Raft<S> {
    /// A member as its storage left it, following nobody yet.
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

    /// Follows `lead` in `term`, or waits for a leader of that term.
    fn become_follower(&mut self, term: Term, lead: Option<MemberId>) {
        self.reset(term);
        self.role = Role::Follower { lead };
        tracing::debug!(member = %self.id(), %term, "became follower");
    }

    /// Asks for votes in the next term, its own first.
    fn become_candidate(&mut self) {
        assert!(!self.is_leader(), "a leader does not stand for election");
        self.reset(self.term.next());
        self.vote = Some(self.id());
        self.role = Role::Candidate(Candidate::default());
        tracing::info!(member = %self.id(), term = %self.term, "became candidate");
    }

    /// Asks whether it would get votes. Neither term nor vote change: nothing was promised.
    fn become_pre_candidate(&mut self) {
        assert!(!self.is_leader(), "a leader does not stand for election");
        self.role = Role::PreCandidate(Candidate::default());
        tracing::info!(member = %self.id(), term = %self.term, "became pre-candidate");
    }

    /// Leads, and opens its term with an empty entry: what older terms left is committed with it.
    fn become_leader(&mut self) {
        assert!(self.role.kind() == RoleKind::Candidate, "only a candidate is elected");
        self.reset(self.term);
        // A change of membership may be among the entries left; assume so rather than scan for one.
        let pending_conf_index = self.log.last_index();
        self.role = Role::Leader(Box::new(Leader::new(pending_conf_index)));
        let id = self.id();
        if let Some(own) = self.tracker.progress.get_mut(id) {
            own.become_replicate();
            own.recent_active = true;
        }
        self.append_entries(vec![crate::Entry::default()])
            .expect("an entry without payload is never refused");
        tracing::info!(member = %id, term = %self.term, "became leader");
    }

    /// Starts an empty log with entries that are committed from the first moment.
    pub(crate) fn start_from(&mut self, entries: Vec<crate::Entry>) {
        self.become_follower(Term(1), None);
        let last = self.log.append(entries);
        self.log.load_commit(last);
    }

    fn is_leader(&self) -> bool {
        self.role.kind() == RoleKind::Leader
    }

    /// What every change of role or term begins with.
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

    /// For tests that need to know when an election starts.
    pub(crate) fn set_randomized_election_ticks(&mut self, ticks: u32) {
        self.randomized_election_ticks = ticks;
    }

    /// Queues a message: with this member's name and term, and behind the disk if it promises
    /// something.
    fn send(&mut self, mut message: Message) {
        use MessageType::{
            MsgPreVote, MsgPreVoteResp, MsgProp, MsgReadIndex, MsgVote, MsgVoteResp,
        };
        if message.from == MemberId(0) {
            message.from = self.id();
        }
        match message.kind {
            // Campaigns name the term they are about, which for a pre-vote is not this member's.
            MsgVote | MsgVoteResp | MsgPreVote | MsgPreVoteResp => {
                assert!(message.term != Term::ZERO, "a campaign names its term");
            }
            // Forwarded on behalf of a client, in nobody's term.
            MsgProp | MsgReadIndex => {}
            _ => message.term = self.term,
        }
        if self.must_wait_for_storage(&message) {
            self.messages_after_append.push(message);
        } else {
            assert!(message.to != self.id(), "a message to oneself would never arrive");
            self.messages.push(message);
        }
    }

    /// A vote or an acknowledgement that went out before it was durable could be taken back by a
    /// crash (thesis 3.8). Refusals wait too: they may rest on state that is not durable either.
    fn must_wait_for_storage(&self, message: &Message) -> bool {
        #[cfg(feature = "planted-bugs")]
        if self.has_planted(crate::config::PlantedBug::AnswerBeforeDurable) {
            return message.to == self.id();
        }
        message.kind.waits_for_storage()
    }

    /// Whether the holes of etcd's raft are left open, to compare with it.
    pub(crate) fn has_etcd_holes(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.config.etcd_holes;
        #[cfg(not(feature = "planted-bugs"))]
        return false;
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn has_planted(&self, bug: crate::config::PlantedBug) -> bool {
        self.config.planted_bug == Some(bug)
    }
}

/// Takes over commit and applied index from the last run.
///
/// The commit index need not be saved at once, so it may lie behind what is known to be committed: what a snapshot
/// covers, and what the state machine holds.
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
        log.load_commit(certain_commit(log));
    }
    log.applied_to(applied.max(first), 0);
    Ok(())
}

/// How far the log must be committed, whatever was saved: a leader lets a change of membership into its log only
/// once it has applied the one before. (Every leader does, unless it is told not to check changes; then all
/// members must be.)
///
/// Entries are saved before the hard state, and a crash may come in between. A member that then took the saved commit
/// index for the truth would stand for election with a configuration several changes old, whose majority need not
/// overlap with the one in force.
fn certain_commit<S: Storage>(log: &RaftLog<S>) -> Index {
    let mut certain = log.committed();
    let mut newest = None;
    let (lo, hi) = (certain.next(), log.last_index().next());
    log.any_page(lo, hi, log.max_applying_bytes(), |page| {
        for change in page.iter().filter(|entry| entry.kind.is_conf_change()) {
            certain = newest.replace(change.index).unwrap_or(certain);
        }
        false
    })
    .expect("a log can be read from its commit index on");
    certain
}

/// A small generator for election timeouts: they need to differ, not to surprise anyone.
/// (Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014.)
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let scaled = ((mixed >> 32) * u64::from(bound)) >> 32;
        u32::try_from(scaled).expect("below a bound that is a u32")
    }
}
