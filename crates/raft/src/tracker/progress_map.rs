//! The progress of every member, in id order.

use std::fmt;

use types::MemberId;

use super::Progress;

/// A small map from member to progress.
///
/// A sorted list instead of a tree: clusters have a handful of members, every broadcast visits all
/// of them in order, and iterating by position does not borrow the rest of the core.
#[derive(Clone, Debug, Default)]
pub struct ProgressMap(Vec<(MemberId, Progress)>);

impl ProgressMap {
    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether no member is tracked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the member at a position in id order.
    #[must_use]
    pub fn id_at(&self, position: usize) -> Option<MemberId> {
        self.0.get(position).map(|(id, _)| *id)
    }

    /// Returns the progress of a member.
    #[must_use]
    pub fn get(&self, id: MemberId) -> Option<&Progress> {
        self.position(id).ok().map(|at| &self.0[at].1)
    }

    /// Returns the progress of a member, for modification.
    #[must_use]
    pub fn get_mut(&mut self, id: MemberId) -> Option<&mut Progress> {
        self.position(id).ok().map(|at| &mut self.0[at].1)
    }

    /// Reports whether the member is tracked.
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

    /// Stops tracking a member.
    pub fn remove(&mut self, id: MemberId) {
        if let Ok(at) = self.position(id) {
            self.0.remove(at);
        }
    }

    /// Returns all members in id order.
    pub fn iter(&self) -> impl Iterator<Item = (MemberId, &Progress)> {
        self.0.iter().map(|(id, progress)| (*id, progress))
    }

    /// Returns all members in id order, for modification.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (MemberId, &mut Progress)> {
        self.0.iter_mut().map(|(id, progress)| (*id, progress))
    }

    fn position(&self, id: MemberId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id)
    }
}

/// Prints one member per line, as etcd does.
impl fmt::Display for ProgressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(id, progress)| writeln!(f, "{}: {progress}", id.0))
    }
}
