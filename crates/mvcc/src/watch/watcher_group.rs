//! Watchers indexed by their keys: finds the watchers of a changed key.
//!
//! ```text
//!   keys     "foo" → [3, 8]   "bar" → [1]         an ordered map: one lookup
//!   ranges   [a, c) → [2]     [b, open) → [5, 7]  an interval tree
//! ```
//!
//! Members are numbers that the caller chooses. Each has a *position* in its list, which the caller
//! stores, so that it is removed without a search: the last member of the list takes its position.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::interval_tree::IntervalTree;
use super::key_span::KeySpan;

/// Members indexed by their keys.
#[derive(Debug, Default)]
pub(super) struct WatcherGroup {
    keys: BTreeMap<Bytes, Vec<usize>>,
    ranges: IntervalTree,
    len: usize,
}

impl WatcherGroup {
    /// Returns the number of members.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a member. Returns its position in the list.
    pub(super) fn add(&mut self, span: &KeySpan, member: usize) -> usize {
        let members = match span {
            KeySpan::Key(key) => self.keys.entry(key.clone()).or_default(),
            KeySpan::Range { start, end } => self.ranges.members(start, end),
        };
        members.push(member);
        self.len += 1;
        members.len() - 1
    }

    /// Removes a member. Returns the member that took its place.
    pub(super) fn remove(&mut self, span: &KeySpan, position: usize) -> Option<usize> {
        let members = match span {
            KeySpan::Key(key) => self.keys.get_mut(key),
            KeySpan::Range { start, end } => self.ranges.get_mut(start, end),
        };
        let members = members.expect("a member with a position is in a list");
        members.swap_remove(position);
        self.len -= 1;
        let moved = members.get(position).copied();
        if members.is_empty() {
            self.forget(span);
        }
        moved
    }

    /// Calls `f` with every member that watches a key.
    pub(super) fn each(&self, key: &[u8], f: &mut impl FnMut(usize)) {
        if let Some(members) = self.keys.get(key) {
            members.iter().copied().for_each(&mut *f);
        }
        self.ranges.stab(key, &mut |members| members.iter().copied().for_each(&mut *f));
    }

    fn forget(&mut self, span: &KeySpan) {
        match span {
            KeySpan::Key(key) => drop(self.keys.remove(key)),
            KeySpan::Range { start, end } => self.ranges.remove(start, end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members_of(group: &WatcherGroup, key: &str) -> Vec<usize> {
        let mut found = Vec::new();
        group.each(key.as_bytes(), &mut |member| found.push(member));
        found.sort_unstable();
        found
    }

    #[test]
    fn keys_and_ranges_are_found_together() {
        let mut group = WatcherGroup::default();
        group.add(&KeySpan::new(b"b", b"").unwrap(), 1);
        group.add(&KeySpan::new(b"a", b"c").unwrap(), 2);
        group.add(&KeySpan::new(b"b", b"\0").unwrap(), 3);
        assert_eq!(members_of(&group, "a"), [2]);
        assert_eq!(members_of(&group, "b"), [1, 2, 3]);
        assert_eq!(members_of(&group, "c"), [3]);
        assert_eq!(group.len(), 3);
    }

    #[test]
    fn the_last_member_of_a_list_takes_the_place_of_a_removed_one() {
        for end in ["", "z"] {
            let span = KeySpan::new(b"b", end.as_bytes()).unwrap();
            let mut group = WatcherGroup::default();
            let positions: Vec<_> = (10..13).map(|member| group.add(&span, member)).collect();
            assert_eq!(positions, [0, 1, 2]);
            assert_eq!(group.remove(&span, 0), Some(12));
            assert_eq!(group.remove(&span, 1), None);
            assert_eq!(members_of(&group, "b"), [12]);
            assert_eq!(group.remove(&span, 0), None);
            assert_eq!((members_of(&group, "b"), group.len()), (vec![], 0));
        }
    }
}
