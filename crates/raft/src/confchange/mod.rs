//! Computes the next configuration from the one in force and a change.
//!
//! Pure: takes a tracker, gives a new configuration with its progress or says why not, and changes
//! nothing itself. *Simple* changes touch at most one voter, because majorities that differ by one voter
//! always overlap. Everything else goes through a *joint* configuration, which is entered and left.

mod restore;

pub use restore::restore;

use thiserror::Error;
use types::{Index, MemberId};

use crate::conf::{ConfChangeSingle, ConfChangeType};
use crate::tracker::{Config, Progress, ProgressMap, ProgressTracker};

/// Members a configuration may have. Clusters have a handful; what follows from a configuration takes
/// time that grows with their square.
pub const MAX_MEMBERS: usize = 128;

/// Why a change cannot be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfChangeError {
    /// A joint configuration must be left before the next is entered.
    #[error("config is already joint")]
    AlreadyJoint,
    /// There is no outgoing half without voters.
    #[error("can't make a zero-voter config joint")]
    NoVotersToJoin,
    /// There is nothing to leave.
    #[error("can't leave a non-joint config")]
    NotJoint,
    /// Only leaving is possible.
    #[error("can't apply simple config change in joint config")]
    SimpleWhileJoint,
    /// Nobody would be left to decide.
    #[error("removed all voters")]
    NoVotersLeft,
    /// Two majorities might not overlap.
    #[error("more than one voter changed without entering joint config")]
    TooManyVoters,
    /// More than [`MAX_MEMBERS`].
    #[error("more than {MAX_MEMBERS} members")]
    TooManyMembers,
    /// The id stands for one of a member's own threads.
    #[error("{0} is not the id of a member")]
    ReservedId(MemberId),
    /// The configuration to start from, or the result, contradicts itself.
    #[error("{0}")]
    Broken(String),
    /// A configuration written out as lists does not mean what it says.
    #[error("configuration is not consistent: {0}")]
    NotEquivalent(String),
}

/// A configuration with the progress of its members.
pub type Changed = (Config, ProgressMap);

/// Makes changes to the configuration of a tracker.
#[derive(Clone, Copy, Debug)]
pub struct Changer<'a> {
    /// The configuration in force.
    pub tracker: &'a ProgressTracker,
    /// The leader's last index, from which new members are probed.
    pub last_index: Index,
}

impl Changer<'_> {
    /// Moves into a joint configuration: the voters now become the outgoing half, and the changes
    /// make the incoming one.
    pub fn enter_joint(
        &self,
        auto_leave: bool,
        changes: &[ConfChangeSingle],
    ) -> Result<Changed, ConfChangeError> {
        let mut draft = self.draft()?;
        if draft.config.voters.is_joint() {
            return Err(ConfChangeError::AlreadyJoint);
        }
        // Members may be added to an empty configuration, as at bootstrap, but it cannot be joint.
        if draft.config.voters.incoming.is_empty() {
            return Err(ConfChangeError::NoVotersToJoin);
        }
        draft.config.voters.outgoing = draft.config.voters.incoming.clone();
        draft.apply(changes)?;
        draft.config.auto_leave = auto_leave;
        draft.finish()
    }

    /// Leaves the joint configuration: the outgoing half goes, with those members that have no other
    /// part, and voters that were to become learners do.
    pub fn leave_joint(&self) -> Result<Changed, ConfChangeError> {
        let mut draft = self.draft()?;
        if !draft.config.voters.is_joint() {
            return Err(ConfChangeError::NotJoint);
        }
        for id in std::mem::take(&mut draft.config.learners_next) {
            draft.config.learners.insert(id);
            if let Some(progress) = draft.progress.get_mut(id) {
                progress.is_learner = true;
            }
        }
        let outgoing = std::mem::take(&mut draft.config.voters.outgoing);
        for id in outgoing.iter() {
            let stays = draft.config.voters.contains(id) || draft.config.learners.contains(&id);
            if !stays {
                draft.progress.remove(id);
            }
        }
        draft.config.auto_leave = false;
        draft.finish()
    }

    /// Changes at most one voter, and any number of learners, at once.
    pub fn simple(&self, changes: &[ConfChangeSingle]) -> Result<Changed, ConfChangeError> {
        let mut draft = self.draft()?;
        if draft.config.voters.is_joint() {
            return Err(ConfChangeError::SimpleWhileJoint);
        }
        draft.apply(changes)?;
        if self.voters_changed(&draft.config) > 1 {
            return Err(ConfChangeError::TooManyVoters);
        }
        draft.finish()
    }

    /// A copy to work on, checked first so that an error is blamed on the right side.
    fn draft(&self) -> Result<Draft<'_>, ConfChangeError> {
        let config = self.tracker.config.clone();
        let progress = self.tracker.progress.clone();
        check_invariants(&config, &progress)?;
        Ok(Draft { changer: self, config, progress })
    }

    /// The size of the symmetric difference between the voters now and then.
    fn voters_changed(&self, then: &Config) -> usize {
        let (now, then) = (&self.tracker.config.voters.incoming, &then.voters.incoming);
        let gone = now.iter().filter(|&id| !then.contains(id)).count();
        let come = then.iter().filter(|&id| !now.contains(id)).count();
        gone + come
    }
}

/// A configuration being changed.
struct Draft<'a> {
    changer: &'a Changer<'a>,
    config: Config,
    progress: ProgressMap,
}

impl Draft<'_> {
    /// Applies changes to the incoming half.
    fn apply(&mut self, changes: &[ConfChangeSingle]) -> Result<(), ConfChangeError> {
        for change in changes {
            // Compat: etcd's server zeroes the id of a change it calls off after it was committed.
            if change.node_id == MemberId(0) {
                continue;
            }
            if change.names_a_thread() {
                return Err(ConfChangeError::ReservedId(change.node_id));
            }
            match change.kind {
                ConfChangeType::AddNode => self.make_voter(change.node_id),
                ConfChangeType::AddLearnerNode => self.make_learner(change.node_id),
                ConfChangeType::RemoveNode => self.remove(change.node_id),
                ConfChangeType::UpdateNode => {}
            }
        }
        if self.config.voters.incoming.is_empty() {
            return Err(ConfChangeError::NoVotersLeft);
        }
        Ok(())
    }

    fn make_voter(&mut self, id: MemberId) {
        match self.progress.get_mut(id) {
            Some(progress) => progress.is_learner = false,
            None => self.track(id, false),
        }
        self.config.learners.remove(&id);
        self.config.learners_next.remove(&id);
        self.config.voters.incoming.insert(id);
    }

    fn make_learner(&mut self, id: MemberId) {
        let Some(progress) = self.progress.get(id) else {
            self.track(id, true);
            self.config.learners.insert(id);
            return;
        };
        if progress.is_learner {
            return;
        }
        self.config.voters.incoming.remove(id);
        // Still a voter of the outgoing half: it cannot be a learner as well, so it waits.
        if self.config.voters.outgoing.contains(id) {
            self.config.learners_next.insert(id);
        } else {
            self.config.learners.insert(id);
            if let Some(progress) = self.progress.get_mut(id) {
                progress.is_learner = true;
            }
        }
    }

    fn remove(&mut self, id: MemberId) {
        self.config.voters.incoming.remove(id);
        self.config.learners.remove(&id);
        self.config.learners_next.remove(&id);
        // A voter of the outgoing half still needs the log.
        if !self.config.voters.outgoing.contains(id) {
            self.progress.remove(id);
        }
    }

    /// Starts to track a new member.
    fn track(&mut self, id: MemberId, is_learner: bool) {
        let next = self.changer.last_index.max(Index(1));
        let mut progress = Progress::new(next, self.changer.tracker.new_inflights(), is_learner);
        // Otherwise a check for a quorum that comes before its first answer would count against it.
        progress.recent_active = true;
        self.progress.insert(id, progress);
    }

    fn finish(self) -> Result<Changed, ConfChangeError> {
        if self.progress.len() > MAX_MEMBERS {
            return Err(ConfChangeError::TooManyMembers);
        }
        check_invariants(&self.config, &self.progress)?;
        Ok((self.config, self.progress))
    }
}

/// Checks what [`Config`] promises, and that exactly its members are tracked.
fn check_invariants(config: &Config, progress: &ProgressMap) -> Result<(), ConfChangeError> {
    let broken = |reason: String| Err(ConfChangeError::Broken(reason));
    let voters = config.voters.ids();
    let members = voters.iter().chain(&config.learners).chain(&config.learners_next);
    for id in members {
        if !progress.contains(*id) {
            return broken(format!("no progress for {}", id.0));
        }
    }
    let is_learner = |id: &MemberId| progress.get(*id).is_some_and(|progress| progress.is_learner);
    for id in &config.learners_next {
        if !config.voters.outgoing.contains(*id) {
            return broken(format!("{} is in LearnersNext, but not Voters[1]", id.0));
        }
        if is_learner(id) {
            let reason = "is in LearnersNext, but is already marked as learner";
            return broken(format!("{} {reason}", id.0));
        }
    }
    for id in &config.learners {
        if voters.contains(id) {
            return broken(format!("{} is in Learners and Voters", id.0));
        }
        if !is_learner(id) {
            return broken(format!("{} is in Learners, but is not marked as learner", id.0));
        }
    }
    if !config.voters.is_joint() && !config.learners_next.is_empty() {
        return broken("LearnersNext must be empty when not joint".to_owned());
    }
    if !config.voters.is_joint() && config.auto_leave {
        return broken("AutoLeave must be false when not joint".to_owned());
    }
    Ok(())
}
