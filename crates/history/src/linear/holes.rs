//! What could fill a hole: a revision that nobody was told to have made.

use std::collections::{BTreeMap, BTreeSet};

use super::conflict::Conflict;
use super::lives::Due;
use super::search::{Filler, Given, Search};
use super::timeline;
use crate::log::Writer;
use crate::model::{Change, evaluate};
use crate::record::{Kv, Millis, Span, joined};
use crate::violation::{Rule, Violation};
use crate::watch::Coverage;

/// How many are named of those that could not fill a hole.
const TOLD_MAX: usize = 5;

impl Search<'_> {
    /// What would have to be otherwise before a hole for it to be filled otherwise: the keys that fillers depend on, and the writes
    /// that were used up, unless one like them is still to be had.
    pub(super) fn could_be_otherwise(&self, revision: i64, eligible: &[usize]) -> Conflict {
        let Given { maybes, leased, lives, script, .. } = &self.given;
        let mut conflict = Conflict::default();
        let unused = eligible.iter().filter(|i| !self.used[**i]);
        let free: BTreeSet<usize> = unused.map(|i| maybes.all[*i].class).collect();
        for i in eligible {
            if self.used[*i] && !free.contains(&maybes.all[*i].class) {
                conflict.miss(*i);
            }
        }
        let touched = eligible.iter().flat_map(|i| &maybes.all[*i].touches);
        touched
            .chain(leased.all())
            .for_each(|span| conflict.add(span, script.known(span, revision - 1)));
        // A key that this hole has to put, as it is now.
        for due in lives.dues(revision).iter().filter(|due| !self.is_met(due)) {
            let span = Span::one(due.key);
            conflict.add(&span, script.known(&span, revision - 1));
        }
        conflict
    }

    /// What could fill a hole, in the order in which it is tried; and, if a lease could have but for its time, that.
    pub(super) fn fillers(
        &self,
        revision: i64,
        eligible: &[usize],
    ) -> (Vec<Filler>, Option<Violation>) {
        let mut classes = BTreeSet::new();
        let mut fillers: Vec<Filler> = eligible
            .iter()
            .filter(|i| !self.used[**i])
            .filter(|i| classes.insert(self.given.maybes.all[**i].class))
            .filter_map(|i| self.try_maybe(revision, *i))
            .collect();
        // A revocation that was answered at this very revision is the likeliest of all.
        fillers.sort_by_key(|it| match it.writer {
            Writer::Operation(i) => self.given.history.operations[i].is_unknown(),
            Writer::Expiry(_) => true,
        });
        let mut early = None;
        for (lease, changes) in self.expiries(revision) {
            match self.too_early(revision, lease) {
                None => {
                    fillers.push(Filler { writer: Writer::Expiry(lease), maybe: None, changes });
                }
                Some(violation) => early = Some(violation),
            }
        }
        (fillers, early)
    }

    /// What one that may have happened would do at this hole, if it fits.
    fn try_maybe(&self, revision: i64, i: usize) -> Option<Filler> {
        let maybe = &self.given.maybes.all[i];
        let (_, changes) = evaluate(&self.keys, maybe.request).ok()?;
        let writer = Writer::Operation(maybe.operation);
        let fits = self.fits(revision, &changes);
        fits.then_some(Filler { writer, maybe: Some(i), changes })
    }

    /// The leases that have keys, and what their expiry would do, where it fits.
    fn expiries(&self, revision: i64) -> Vec<(i64, Vec<Change>)> {
        let mut by_lease: BTreeMap<i64, Vec<Change>> = BTreeMap::new();
        if self.given.leased.all().next().is_none() {
            return Vec::new();
        }
        for kv in self.keys.range_at(&Span::all(), revision).filter(|kv| kv.lease != 0) {
            let change = Change { key: kv.key.clone(), before: Some(kv.clone()), after: None };
            by_lease.entry(kv.lease).or_default().push(change);
        }
        by_lease.into_iter().filter(|(_, changes)| self.fits(revision, changes)).collect()
    }

    /// Why `lease` may not have expired by the time that `revision` was seen.
    fn too_early(&self, revision: i64, lease: i64) -> Option<Violation> {
        let (until, by) = self.given.leases.alive_until(lease)?;
        let seen = self.given.timeline.first_sight(revision)?;
        if seen.at_ns >= until {
            return None;
        }
        let text = format!(
            "by {} ms the keys of lease {lease} were gone, at revision {revision}; it lives until {} ms at least: {by}",
            Millis(seen.at_ns),
            Millis(until)
        );
        Some(Violation::new(Rule::ExpiredEarly, text))
    }

    /// Whether changes agree with what clients read and watchers were told of a hole.
    fn fits(&self, revision: i64, changes: &[Change]) -> bool {
        self.fits_facts(revision, changes)
            && self.given.watchers.iter().all(|it| it.agrees(revision, changes))
    }

    /// Whether changes agree with what was read of a hole.
    fn fits_facts(&self, revision: i64, changes: &[Change]) -> bool {
        let put = |kv: &Kv| changes.iter().any(|it| it.after.as_deref() == Some(kv));
        let clues = self.given.clues;
        !changes.is_empty()
            && changes.iter().all(|change| clues.permits(change, revision))
            && clues.facts(revision).iter().all(|kv| put(kv))
            && self.leaves_what_is_due(revision, changes)
    }

    /// Whether a key is as a hole must leave it, already.
    fn is_met(&self, due: &Due<'_>) -> bool {
        due.is_met(self.keys.get(due.key).map(|kv| &**kv))
    }

    /// Whether changes leave of all keys what must be left of them.
    fn leaves_what_is_due(&self, hole: i64, changes: &[Change]) -> bool {
        self.given.lives.dues(hole).iter().all(|due| {
            // Of several changes of a key, the last counts.
            match changes.iter().rev().find(|change| change.key == due.key) {
                Some(change) => due.is_met(change.after.as_deref()),
                None => self.is_met(due),
            }
        })
    }

    /// The watcher without whom a hole could be filled, if there is one.
    pub(super) fn suspect(&self, revision: i64, eligible: &[usize]) -> Option<usize> {
        let unused = eligible.iter().filter(|i| !self.used[**i]);
        unused.copied().find_map(|i| {
            let (_, changes) = evaluate(&self.keys, self.given.maybes.all[i].request).ok()?;
            let against = |it: &Coverage<'_>| !it.agrees(revision, &changes);
            let watchers = self.given.watchers.iter().enumerate();
            let mut against = watchers.filter(|(_, it)| against(it)).map(|(i, _)| i);
            let only = against.next().filter(|_| against.next().is_none());
            only.filter(|_| self.fits_facts(revision, &changes))
        })
    }

    /// Nobody could have made a revision.
    pub(super) fn nobody(&self, revision: i64, eligible: &[usize]) -> Violation {
        let facts = self.given.clues.facts(revision);
        let mut text = format!("revision {revision} exists");
        if let Some(seen) = self.given.timeline.first_sight(revision) {
            text += &format!(" ({})", timeline::describe(self.given.history, seen));
        }
        if !facts.is_empty() {
            text += &format!(" and put {}", joined(facts, ", "));
        }
        text += "; nobody was told to have made it";
        let told = eligible.iter().take(TOLD_MAX).map(|i| {
            let used = if self.used[*i] { "used for another revision" } else { "does not fit" };
            format!(
                "; {used}: {}",
                self.given.history.operations[self.given.maybes.all[*i].operation]
            )
        });
        told.for_each(|it| text += &it);
        if eligible.is_empty() {
            text += ", and nothing of unknown outcome could have";
        }
        Violation::new(Rule::NobodyWrote, text)
    }
}
