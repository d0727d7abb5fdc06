//! What could fill a hole: a revision that nobody was rejected to have made.

use std::collections::{BTreeMap, BTreeSet};

use super::conflict::Conflict;
use super::search::{Candidate, Search, SearchInput};
use super::timeline;
use super::version_bounds::VersionBound;
use crate::log::Writer;
use crate::model::{Change, evaluate};
use crate::record::{Kv, Millis, Span, joined};
use crate::violation::{Rule, Violation};
use crate::watch::Coverage;

/// How many are named of those that could not fill a hole.
const REPORTED_MAX: usize = 5;

impl Search<'_> {
    /// What would have to be otherwise before a hole for it to be filled otherwise: the keys that fillers depend on, and the writes
    /// that were used up, unless one like them is still to be had.
    pub(super) fn hole_conflict(&self, revision: i64, eligible: &[usize]) -> Conflict {
        let SearchInput { unknown_writes, leased, version_bounds, table, .. } = &self.input;
        let mut conflict = Conflict::default();
        let unused = eligible.iter().filter(|i| !self.used[**i]);
        let free: BTreeSet<usize> = unused.map(|i| unknown_writes.all[*i].class).collect();
        for i in eligible {
            if self.used[*i] && !free.contains(&unknown_writes.all[*i].class) {
                conflict.add_used_write(*i);
            }
        }
        let touched = eligible.iter().flat_map(|i| &unknown_writes.all[*i].touches);
        touched
            .chain(leased.all())
            .for_each(|span| conflict.add_keys(span, table.last_observed(span, revision - 1)));
        // A key that this hole has to put, as it is now.
        for bound in version_bounds.bounds(revision).iter().filter(|bound| !self.is_met(bound)) {
            let span = Span::one(bound.key);
            conflict.add_keys(&span, table.last_observed(&span, revision - 1));
        }
        conflict
    }

    /// What could fill a hole, in the order in which it is tried; and, if a lease could have but for its time, that.
    pub(super) fn candidates(
        &self,
        revision: i64,
        eligible: &[usize],
    ) -> (Vec<Candidate>, Option<Violation>) {
        let mut classes = BTreeSet::new();
        let mut candidates: Vec<Candidate> = eligible
            .iter()
            .filter(|i| !self.used[**i])
            .filter(|i| classes.insert(self.input.unknown_writes.all[**i].class))
            .filter_map(|i| self.try_unknown_write(revision, *i))
            .collect();
        // A revocation that was answered at this very revision is the likeliest of all.
        candidates.sort_by_key(|it| match it.writer {
            Writer::Operation(i) => self.input.history.operations[i].is_unknown(),
            Writer::Expiry(_) => true,
        });
        let mut early = None;
        for (lease, changes) in self.expiries(revision) {
            match self.expired_early(revision, lease) {
                None => {
                    candidates.push(Candidate {
                        writer: Writer::Expiry(lease),
                        unknown_write: None,
                        changes,
                    });
                }
                Some(violation) => early = Some(violation),
            }
        }
        (candidates, early)
    }

    /// What one that may have happened would do at this hole, if it fits.
    fn try_unknown_write(&self, revision: i64, i: usize) -> Option<Candidate> {
        let unknown_write = &self.input.unknown_writes.all[i];
        let (_, changes) = evaluate(&self.keys, unknown_write.request).ok()?;
        let writer = Writer::Operation(unknown_write.operation);
        let fits = self.fits(revision, &changes);
        fits.then_some(Candidate { writer, unknown_write: Some(i), changes })
    }

    /// The leases that have keys, and what their expiry would do, where it fits.
    fn expiries(&self, revision: i64) -> Vec<(i64, Vec<Change>)> {
        let mut by_lease: BTreeMap<i64, Vec<Change>> = BTreeMap::new();
        if self.input.leased.all().next().is_none() {
            return Vec::new();
        }
        for kv in self.keys.range_at(&Span::all(), revision).filter(|kv| kv.lease != 0) {
            let change = Change { key: kv.key.clone(), before: Some(kv.clone()), after: None };
            by_lease.entry(kv.lease).or_default().push(change);
        }
        by_lease.into_iter().filter(|(_, changes)| self.fits(revision, changes)).collect()
    }

    /// Why `lease` may not have expired by the time that `revision` was seen.
    fn expired_early(&self, revision: i64, lease: i64) -> Option<Violation> {
        let (until, by) = self.input.leases.alive_until(lease)?;
        let seen = self.input.timeline.first_seen(revision)?;
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

    /// Whether changes agree with what clients read and watchers were rejected of a hole.
    fn fits(&self, revision: i64, changes: &[Change]) -> bool {
        self.fits_constraints(revision, changes)
            && self.input.watches.iter().all(|it| it.agrees(revision, changes))
    }

    /// Whether changes agree with what was read of a hole.
    fn fits_constraints(&self, revision: i64, changes: &[Change]) -> bool {
        let put = |kv: &Kv| changes.iter().any(|it| it.after.as_deref() == Some(kv));
        let constraints = self.input.constraints;
        !changes.is_empty()
            && changes.iter().all(|change| constraints.permits(change, revision))
            && constraints.known_puts(revision).iter().all(|kv| put(kv))
            && self.meets_version_bounds(revision, changes)
    }

    /// Whether a key is as a hole must leave it, already.
    fn is_met(&self, bound: &VersionBound<'_>) -> bool {
        bound.is_met(self.keys.get(bound.key).map(|kv| &**kv))
    }

    /// Whether changes leave of all keys what must be left of them.
    fn meets_version_bounds(&self, hole: i64, changes: &[Change]) -> bool {
        self.input.version_bounds.bounds(hole).iter().all(|bound| {
            // Of several changes of a key, the last counts.
            match changes.iter().rev().find(|change| change.key == bound.key) {
                Some(change) => bound.is_met(change.after.as_deref()),
                None => self.is_met(bound),
            }
        })
    }

    /// The watcher without whom a hole could be filled, if there is one.
    pub(super) fn contradicting_watch(&self, revision: i64, eligible: &[usize]) -> Option<usize> {
        let unused = eligible.iter().filter(|i| !self.used[**i]);
        unused.copied().find_map(|i| {
            let (_, changes) =
                evaluate(&self.keys, self.input.unknown_writes.all[i].request).ok()?;
            let against = |it: &Coverage<'_>| !it.agrees(revision, &changes);
            let watches = self.input.watches.iter().enumerate();
            let mut against = watches.filter(|(_, it)| against(it)).map(|(i, _)| i);
            let only = against.next().filter(|_| against.next().is_none());
            only.filter(|_| self.fits_constraints(revision, &changes))
        })
    }

    /// Nobody could have made a revision.
    pub(super) fn unexplained_revision(&self, revision: i64, eligible: &[usize]) -> Violation {
        let known_puts = self.input.constraints.known_puts(revision);
        let mut text = format!("revision {revision} exists");
        if let Some(seen) = self.input.timeline.first_seen(revision) {
            text += &format!(" ({})", timeline::describe(self.input.history, seen));
        }
        if !known_puts.is_empty() {
            text += &format!(" and put {}", joined(known_puts, ", "));
        }
        text += "; no response claims it";
        let rejected = eligible.iter().take(REPORTED_MAX).map(|i| {
            let used = if self.used[*i] { "used for another revision" } else { "does not fit" };
            format!(
                "; {used}: {}",
                self.input.history.operations[self.input.unknown_writes.all[*i].operation]
            )
        });
        rejected.for_each(|it| text += &it);
        if eligible.is_empty() {
            text += ", and no unknown write could have made it";
        }
        Violation::new(Rule::UnexplainedRevision, text)
    }
}
