//! The progress of every member, in the order of their ids.

use std::fmt;

use types::MemberId;

use super::Progress;

/// A small map from member to progress.
///
/// A sorted list rather than a tree: a cluster has a handful of members, every broadcast walks all of
/// them in order, and a walk by position leaves the rest of the core free to change meanwhile.
#[derive(Clone, Debug, Default)]
pub struct ProgressMap(Vec<(MemberId, Progress)>);

impl ProgressMap {
    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody is tracked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The member at a position in the order of ids.
    #[must_use]
    pub fn id_at(&self, position: usize) -> Option<MemberId> {
        self.0.get(position).map(|(id, _)| *id)
    }

    /// The progress of a member.
    #[must_use]
    pub fn get(&self, id: MemberId) -> Option<&Progress> {
        self.position(id).ok().map(|at| &self.0[at].1)
    }

    /// The progress of a member, to change.
    #[must_use]
    pub fn get_mut(&mut self, id: MemberId) -> Option<&mut Progress> {
        self.position(id).ok().map(|at| &mut self.0[at].1)
    }

    /// Whether the member is tracked.
    #[must_use]
    pub fn contains(&self, id: MemberId) -> bool {
        self.position(id).is_ok()
    }

    /// Tracks a member, or replaces its progress.
    pub fn insert(&mut self, id: MemberId, progress: Progress) {
        match self.position(id) {
            Ok(at) => self.0[at].1 = progress,
            Err(at) => self.0.insert(at, (id, progress)),
        }
    }

    /// Forgets a member.
    pub fn remove(&mut self, id: MemberId) {
        if let Ok(at) = self.position(id) {
            self.0.remove(at);
        }
    }

    /// All members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (MemberId, &Progress)> {
        self.0.iter().map(|(id, progress)| (*id, progress))
    }

    /// All members, in order, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (MemberId, &mut Progress)> {
        self.0.iter_mut().map(|(id, progress)| (*id, progress))
    }

    fn position(&self, id: MemberId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id)
    }
}

/// One member a line, as etcd prints it.
impl fmt::Display for ProgressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(id, progress)| writeln!(f, "{}: {progress}", id.0))
    }
}
