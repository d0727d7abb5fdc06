//! A majority configuration: more than half of the voters decide.

use std::collections::BTreeSet;
use std::fmt;

use types::{Index, MemberId};

use super::VoteResult;

/// Up to this number of voters, majorities are computed without allocation.
const VOTERS_ON_STACK: usize = 7;

/// A set of voters. The empty set agrees to everything, so that a joint configuration with one
/// empty half behaves like the other half alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MajorityConfig(BTreeSet<MemberId>);

impl MajorityConfig {
    /// Reports whether there are no voters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of voters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether the member is a voter.
    #[must_use]
    pub fn contains(&self, id: MemberId) -> bool {
        self.0.contains(&id)
    }

    /// Returns the voters in id order.
    pub fn iter(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.0.iter().copied()
    }

    /// Adds a voter.
    pub fn insert(&mut self, id: MemberId) {
        self.0.insert(id);
    }

    /// Removes a voter.
    pub fn remove(&mut self, id: MemberId) {
        self.0.remove(&id);
    }

    /// Returns the largest index that more than half of the voters have acknowledged. A voter
    /// without an acknowledgement counts as zero; an empty set acknowledges everything.
    #[must_use]
    pub fn committed_index(&self, acked: impl Fn(MemberId) -> Option<Index>) -> Index {
        let voters = self.len();
        if voters == 0 {
            return Index::MAX;
        }
        let mut on_stack = [Index::ZERO; VOTERS_ON_STACK];
        let mut on_heap = Vec::new();
        let indexes = match on_stack.get_mut(..voters) {
            Some(indexes) => indexes,
            None => {
                on_heap.resize(voters, Index::ZERO);
                on_heap.as_mut_slice()
            }
        };
        for (slot, id) in indexes.iter_mut().zip(self.iter()) {
            *slot = acked(id).unwrap_or(Index::ZERO);
        }
        indexes.sort_unstable();
        // The quorum-th largest index: it and all larger ones form a quorum.
        indexes[voters - quorum_of(voters)]
    }

    /// Counts votes: `true` is granted, `false` is rejected, `None` is missing.
    #[must_use]
    pub fn vote_result(&self, vote: impl Fn(MemberId) -> Option<bool>) -> VoteResult {
        if self.is_empty() {
            return VoteResult::Won;
        }
        let (mut yes, mut missing) = (0, 0);
        for id in self.iter() {
            match vote(id) {
                Some(true) => yes += 1,
                Some(false) => {}
                None => missing += 1,
            }
        }
        let quorum = quorum_of(self.len());
        if yes >= quorum {
            VoteResult::Won
        } else if yes + missing >= quorum {
            VoteResult::Pending
        } else {
            VoteResult::Lost
        }
    }

    /// Draws the acknowledged index of each voter as a bar, whose length is the number of voters
    /// behind it.
    ///
    /// ```text
    ///        idx
    /// x>      101    (id=1)
    /// >       100    (id=2)
    /// xx>     103    (id=3)
    /// ```
    #[must_use]
    pub fn describe(&self, acked: impl Fn(MemberId) -> Option<Index>) -> String {
        let voters = self.len();
        if voters == 0 {
            return "<empty majority quorum>".to_owned();
        }
        let index_of = |id| acked(id).unwrap_or(Index::ZERO);
        let mut drawing = format!("{:voters$}    idx\n", "");
        for id in self.iter() {
            let index = index_of(id);
            let bar = self.iter().filter(|&other| index_of(other) < index).count();
            let line = match acked(id) {
                None => format!("?{:voters$}", ""),
                Some(_) => format!("{:x<bar$}>{:pad$}", "", "", pad = voters - bar),
            };
            drawing.push_str(&format!("{line} {:>5}    (id={id})\n", index.0));
        }
        drawing
    }
}

/// Returns the size of the smallest majority.
fn quorum_of(voters: usize) -> usize {
    voters / 2 + 1
}

impl FromIterator<MemberId> for MajorityConfig {
    fn from_iter<I: IntoIterator<Item = MemberId>>(ids: I) -> MajorityConfig {
        MajorityConfig(ids.into_iter().collect())
    }
}

impl fmt::Display for MajorityConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_ids(f, self.iter())
    }
}

/// Writes ids as configurations print them: `(1 2 a)`.
pub(crate) fn write_ids(
    f: &mut fmt::Formatter<'_>,
    ids: impl Iterator<Item = MemberId>,
) -> fmt::Result {
    f.write_str("(")?;
    for (position, id) in ids.enumerate() {
        let space = if position > 0 { " " } else { "" };
        write!(f, "{space}{id}")?;
    }
    f.write_str(")")
}
