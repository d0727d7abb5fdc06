//! Committed entries are durable on a quorum, never change, and are in the log of every later
//! leader.
//!
//! The *ledger* is the committed log. An entry is added when a leader first commits it; at that
//! time a quorum of the leader's configuration must have it on disk. The commit index of every
//! member must be within the ledger, and its committed entries must equal the ledger's.

use std::collections::BTreeMap;

use raft::{ConfState, Entry, EntryId};
use types::{Index, MemberId, Term};

use crate::app::entry_digest;
use crate::disk::Disk;

use super::logs::EntryDigest;
use super::{Check, Invariant, LogView, Violation, ensure};

/// The ledger of committed entries.
#[derive(Default)]
pub(crate) struct Commits {
    /// The entry at index `i` is at `i - 1`, with the term of the leader that committed it first.
    ledger: Vec<(EntryDigest, Term)>,
}

impl Commits {
    /// Adds the initial entries of a new cluster, which are committed from the start.
    pub(crate) fn begin_with(&mut self, entries: &[Entry]) {
        let known = |entry: &Entry| EntryDigest { term: entry.term, digest: entry_digest(entry) };
        self.ledger = entries.iter().map(|entry| (known(entry), entry.term)).collect();
    }

    /// Returns the highest index that any member has committed.
    pub(crate) fn last_index(&self) -> Index {
        Index(self.ledger.len() as u64)
    }

    fn get(&self, index: Index) -> Option<EntryDigest> {
        self.get_with_term(index).map(|(known, _)| known)
    }

    fn get_with_term(&self, index: Index) -> Option<(EntryDigest, Term)> {
        let position = index.0.checked_sub(1)?;
        self.ledger.get(usize::try_from(position).ok()?).copied()
    }

    /// Returns the last committed entry that a log contains.
    pub(crate) fn last_in(&self, view: &LogView) -> Index {
        let mut index = self.last_index().min(view.last_index());
        while index > view.before().index && self.get(index) != view.get(index) {
            index = index.prev();
        }
        index
    }

    /// Checks that the leader of a term may commit up to `to`.
    pub(crate) fn leader_commits(
        &mut self,
        leader: MemberId,
        term: Term,
        view: &LogView,
        to: Index,
        conf: &ConfState,
        disks: &BTreeMap<MemberId, Disk>,
    ) -> Check {
        let known = view.get(to).ok_or_else(|| not_handed_out(leader, to))?;
        let id = EntryId { term: known.term, index: to };
        let durable = |member| disks.get(&member).is_some_and(|disk| disk.durable().holds(id));
        ensure(has_quorum(conf, durable), Invariant::CommittedIsDurable, || {
            let holders: Vec<_> =
                disks.keys().filter(|&&member| durable(member)).map(|id| id.0).collect();
            format!(
                "{leader} commits {}/{to}, which is durable only on {holders:?} of {conf:?}",
                known.term
            )
        })?;
        while self.last_index() < to {
            let next = self.last_index().next();
            let known = view.get(next).ok_or_else(|| not_handed_out(leader, next))?;
            self.ledger.push((known, term));
        }
        Ok(())
    }

    /// Checks that a follower may commit up to `to`.
    pub(crate) fn follower_learns(&self, member: MemberId, to: Index) -> Check {
        ensure(to <= self.last_index(), Invariant::CommittedIsDurable, || {
            format!("{member} commits {to}; no leader has committed beyond {}", self.last_index())
        })
    }

    /// Checks that the committed entries of a member, from `from` to `to`, equal the ledger's.
    pub(crate) fn compare(
        &self,
        member: MemberId,
        view: &LogView,
        from: Index,
        to: Index,
    ) -> Check {
        self.visible(view, from, to)
            .try_for_each(|index| self.holds(Invariant::CommittedIsImmutable, member, view, index))
    }

    /// Checks that a new leader has everything that earlier terms had committed when it was
    /// elected, up to `to`. A candidate whose votes arrive late may become leader of a term long
    /// past; it need not have the entries that later terms committed.
    pub(crate) fn leader_is_complete(
        &self,
        leader: MemberId,
        term: Term,
        view: &LogView,
        to: Index,
    ) -> Check {
        let earlier = |&index: &Index| {
            self.get_with_term(index).is_some_and(|(_, committed_in)| committed_in < term)
        };
        self.visible(view, Index(1), to)
            .filter(earlier)
            .try_for_each(|index| self.holds(Invariant::LeaderCompleteness, leader, view, index))
    }

    /// Returns the indexes of a range that are not compacted in a log.
    fn visible(&self, view: &LogView, from: Index, to: Index) -> impl Iterator<Item = Index> {
        (from.max(view.before().index.next()).0..=to.0).map(Index)
    }

    fn holds(&self, invariant: Invariant, member: MemberId, view: &LogView, index: Index) -> Check {
        let (committed, held) = (self.get(index), view.get(index));
        ensure(committed == held, invariant, || {
            let term = |known: Option<EntryDigest>| known.map_or(Term::ZERO, |known| known.term);
            let (committed, held) = (term(committed), term(held));
            format!("{member} has {held}/{index} where {committed}/{index} is committed")
        })
    }
}

fn not_handed_out(leader: MemberId, index: Index) -> Violation {
    let detail = format!("{leader} commits {index} before handing it out to be saved");
    Violation { invariant: Invariant::CommittedIsDurable, detail }
}

/// Reports whether the members with `has` form a quorum. Implemented here because the core's own
/// arithmetic is under test.
fn has_quorum(conf: &ConfState, has: impl Fn(MemberId) -> bool) -> bool {
    let majority = |voters: &[MemberId]| {
        voters.is_empty() || 2 * voters.iter().filter(|&&id| has(id)).count() > voters.len()
    };
    majority(&conf.voters) && majority(&conf.voters_outgoing)
}
