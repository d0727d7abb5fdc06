//! Computes a configuration from the current one and a conf change.
//!
//! The functions are pure: they take a tracker and return a new configuration with its progress, or
//! an error. A *simple* change affects at most one voter, because majorities that differ in one
//! voter always overlap. All other changes enter a *joint* configuration and leave it again.

mod restore;

pub use restore::restore;

use thiserror::Error;
use types::{Index, MemberId};

use crate::conf::{ConfChangeSingle, ConfChangeType};
use crate::tracker::{Config, Progress, ProgressMap, ProgressTracker};

/// The maximum number of members. Clusters have a handful; the cost of a configuration grows with
/// the square of its size.
pub const MAX_MEMBERS: usize = 128;

/// An error in a conf change.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfChangeError {
    /// A joint configuration must be left before another one is entered.
    #[error("config is already joint")]
    AlreadyJoint,
    /// The outgoing half would have no voters.
    #[error("can't make a zero-voter config joint")]
    NoVotersToJoin,
    /// The configuration is not joint.
    #[error("can't leave a non-joint config")]
    NotJoint,
    /// A joint configuration can only be left.
    #[error("can't apply simple config change in joint config")]
    SimpleWhileJoint,
    /// The configuration would have no voters.
    #[error("removed all voters")]
    NoVotersLeft,
    /// The old and the new majority might not overlap.
    #[error("more than one voter changed without entering joint config")]
    TooManyVoters,
    /// More than [`MAX_MEMBERS`] members.
    #[error("more than {MAX_MEMBERS} members")]
    TooManyMembers,
    /// The id is reserved for a local thread.
    #[error("{0} is not the id of a member")]
    ReservedId(MemberId),
    /// The current configuration, or the result, is inconsistent.
    #[error("{0}")]
    Broken(String),
    /// No sequence of changes produces this list of members.
    #[error("inconsistent configuration: {0}")]
    NotEquivalent(String),
}

/// A configuration with the progress of its members.
pub type ChangedConfig = (Config, ProgressMap);

/// Computes changes to the configuration of a tracker.
#[derive(Clone, Copy, Debug)]
pub struct Changer<'a> {
    /// The tracker with the current configuration.
    pub tracker: &'a ProgressTracker,
    /// The last index of the leader, from which new members are probed.
    pub last_index: Index,
}

impl Changer<'_> {
    /// Enters a joint configuration: the current voters become the outgoing half, and the changes
    /// produce the incoming half.
    pub fn enter_joint(
        &self,
        auto_leave: bool,
        changes: &[ConfChangeSingle],
    ) -> Result<ChangedConfig, ConfChangeError> {
        let mut draft = self.draft()?;
        if draft.config.voters.is_joint() {
            return Err(ConfChangeError::AlreadyJoint);
        }
        // At bootstrap, members are added to an empty configuration; it cannot become joint.
        if draft.config.voters.incoming.is_empty() {
            return Err(ConfChangeError::NoVotersToJoin);
        }
        draft.config.voters.outgoing = draft.config.voters.incoming.clone();
        draft.apply(changes)?;
        draft.config.auto_leave = auto_leave;
        draft.finish()
    }

    /// Leaves the joint configuration: removes the outgoing half, including members that have no
    /// other role, and turns `learners_next` into learners.
    pub fn leave_joint(&self) -> Result<ChangedConfig, ConfChangeError> {
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

    /// Changes at most one voter and any number of learners at once.
    pub fn simple(&self, changes: &[ConfChangeSingle]) -> Result<ChangedConfig, ConfChangeError> {
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

    /// Returns a copy to modify. Checks it first, so that an error in the current configuration is
    /// not attributed to the change.
    fn draft(&self) -> Result<Draft<'_>, ConfChangeError> {
        let config = self.tracker.config.clone();
        let progress = self.tracker.progress.clone();
        check_invariants(&config, &progress)?;
        Ok(Draft { changer: self, config, progress })
    }

    /// Returns the number of voters in only one of the two configurations.
    fn voters_changed(&self, then: &Config) -> usize {
        let (now, then) = (&self.tracker.config.voters.incoming, &then.voters.incoming);
        let removed = now.iter().filter(|&id| !then.contains(id)).count();
        let added = then.iter().filter(|&id| !now.contains(id)).count();
        removed + added
    }
}

/// A configuration under change.
struct Draft<'a> {
    changer: &'a Changer<'a>,
    config: Config,
    progress: ProgressMap,
}

impl Draft<'_> {
    /// Applies changes to the incoming half.
    fn apply(&mut self, changes: &[ConfChangeSingle]) -> Result<(), ConfChangeError> {
        for change in changes {
            // Compat: as in etcd, the server zeroes the id of a change that it cancels after the
            // commit.
            if change.node_id == MemberId(0) {
                continue;
            }
            if change.targets_local_thread() {
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
        // It still votes in the outgoing half, so it becomes a learner when that half is left.
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
        // Otherwise a quorum check before its first response would count against it.
        progress.recent_active = true;
        self.progress.insert(id, progress);
    }

    fn finish(self) -> Result<ChangedConfig, ConfChangeError> {
        if self.progress.len() > MAX_MEMBERS {
            return Err(ConfChangeError::TooManyMembers);
        }
        check_invariants(&self.config, &self.progress)?;
        Ok((self.config, self.progress))
    }
}

/// Checks the invariants of [`Config`], and that exactly its members are tracked.
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
