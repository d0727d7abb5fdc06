//! What is committed is durable on a quorum, stays as it is, and is in the log of every later leader.
//!
//! The ledger is the one true log: an entry gets into it when a leader first counts it as committed, and at
//! that moment a quorum of the leader's configuration must have it on disk. Everybody else's commit
//! index must lie within the ledger, and everybody's committed entries must be those of the ledger.

use std::collections::BTreeMap;

use raft::{ConfState, Entry, EntryId};
use types::{Index, MemberId, Term};

use crate::app::entry_digest;
use crate::disk::Disk;

use super::logs::Known;
use super::{Check, Invariant, LogView, Violation, ensure};

/// The ledger of committed entries.
#[derive(Default)]
pub(crate) struct Commits {
    /// The entry at index `i` is at `i - 1`, with the term of the leader that committed it first.
    ledger: Vec<(Known, Term)>,
}

impl Commits {
    /// The first entries of a new cluster are committed from the beginning.
    pub(crate) fn begin_with(&mut self, entries: &[Entry]) {
        let known = |entry: &Entry| Known { term: entry.term, digest: entry_digest(entry) };
        self.ledger = entries.iter().map(|entry| (known(entry), entry.term)).collect();
    }

    /// The last index that anybody has counted as committed.
    pub(crate) fn last_index(&self) -> Index {
        Index(self.ledger.len() as u64)
    }

    fn get(&self, index: Index) -> Option<Known> {
        self.get_with_term(index).map(|(known, _)| known)
    }

    fn get_with_term(&self, index: Index) -> Option<(Known, Term)> {
        let position = index.0.checked_sub(1)?;
        self.ledger.get(usize::try_from(position).ok()?).copied()
    }

    /// The last committed entry that a log holds.
    pub(crate) fn last_in(&self, view: &LogView) -> Index {
        let mut index = self.last_index().min(view.last_index());
        while index > view.before().index && self.get(index) != view.get(index) {
            index = index.prev();
        }
        index
    }

    /// The leader of a term commits up to `to`.
    pub(crate) fn leader_commits(
        &mut self,
        leader: MemberId,
        term: Term,
        view: &LogView,
        to: Index,
        conf: &ConfState,
        disks: &BTreeMap<MemberId, Disk>,
    ) -> Check {
        let known = view.get(to).ok_or_else(|| unseen(leader, to))?;
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
            let known = view.get(next).ok_or_else(|| unseen(leader, next))?;
            self.ledger.push((known, term));
        }
        Ok(())
    }

    /// A member that does not lead has learned that everything up to `to` is committed.
    pub(crate) fn follower_learns(&self, member: MemberId, to: Index) -> Check {
        ensure(to <= self.last_index(), Invariant::CommittedIsDurable, || {
            format!(
                "{member} takes {to} for committed; no leader has gone beyond {}",
                self.last_index()
            )
        })
    }

    /// The committed entries of a member, from `from` to `to`, must be those of the ledger.
    pub(crate) fn compare(
        &self,
        member: MemberId,
        view: &LogView,
        from: Index,
        to: Index,
    ) -> Check {
        self.visible(view, from, to)
            .try_for_each(|index| self.holds(Invariant::CommittedIsForEver, member, view, index))
    }

    /// A new leader must have everything that was committed in earlier terms when it was elected, here
    /// up to `to`. A candidate whose votes come late may find itself the leader of a term long past;
    /// what later terms have committed it need not have.
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

    /// The indexes of a range that have not been compacted away from a log.
    fn visible(&self, view: &LogView, from: Index, to: Index) -> impl Iterator<Item = Index> {
        (from.max(view.before().index.next()).0..=to.0).map(Index)
    }

    fn holds(&self, invariant: Invariant, member: MemberId, view: &LogView, index: Index) -> Check {
        let (committed, held) = (self.get(index), view.get(index));
        ensure(committed == held, invariant, || {
            let term = |known: Option<Known>| known.map_or(Term::ZERO, |known| known.term);
            let (committed, held) = (term(committed), term(held));
            format!("{member} has {held}/{index} where {committed}/{index} is committed")
        })
    }
}

fn unseen(leader: MemberId, index: Index) -> Violation {
    let detail = format!("{leader} commits {index} before it handed it out to be saved");
    Violation { invariant: Invariant::CommittedIsDurable, detail }
}

/// Whether those for whom `has` is true make a quorum of the configuration. Written out here
/// rather than borrowed from the core, whose arithmetic is under test.
fn has_quorum(conf: &ConfState, has: impl Fn(MemberId) -> bool) -> bool {
    let majority = |voters: &[MemberId]| {
        voters.is_empty() || 2 * voters.iter().filter(|&&id| has(id)).count() > voters.len()
    };
    majority(&conf.voters) && majority(&conf.voters_outgoing)
}
