//! Candidates for a hole: a revision that no response claims to have written.

use std::collections::{BTreeMap, BTreeSet};

use super::conflict::Conflict;
use super::search::{Candidate, Search, SearchInput};
use super::timeline;
use super::version_bounds::VersionBound;
use crate::log::RevisionWriter;
use crate::model::{Change, evaluate};
use crate::record::{Kv, Millis, Span, joined};
use crate::violation::{Rule, Violation};
use crate::watch::Coverage;

/// The number of unsuitable candidates that a violation lists.
const REPORTED_MAX: usize = 5;

impl Search<'_> {
    /// Returns the causes if a hole cannot be filled: the keys that the candidates depend on, and
    /// the unknown writes that are used already, unless an equivalent one is unused.
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
        // A key that this hole must put according to its version bound.
        for bound in version_bounds.bounds(revision).iter().filter(|bound| !self.is_met(bound)) {
            let span = Span::one(bound.key);
            conflict.add_keys(&span, table.last_observed(&span, revision - 1));
        }
        conflict
    }

    /// Returns the candidates for a hole in the order to try, and a violation if an expiry fits
    /// except for its time.
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
        // Try answered revocations first: their response names this very revision.
        candidates.sort_by_key(|it| match it.writer {
            RevisionWriter::Operation(i) => self.input.history.operations[i].is_unknown(),
            RevisionWriter::Expiry(_) => true,
        });
        let mut early = None;
        for (lease, changes) in self.expiries(revision) {
            match self.expired_early(revision, lease) {
                None => {
                    candidates.push(Candidate {
                        writer: RevisionWriter::Expiry(lease),
                        unknown_write: None,
                        changes,
                    });
                }
                Some(violation) => early = Some(violation),
            }
        }
        (candidates, early)
    }

    /// Returns an unknown write as a candidate if its changes fit the hole.
    fn try_unknown_write(&self, revision: i64, i: usize) -> Option<Candidate> {
        let unknown_write = &self.input.unknown_writes.all[i];
        let (_, changes) = evaluate(&self.keys, unknown_write.request).ok()?;
        let writer = RevisionWriter::Operation(unknown_write.operation);
        let fits = self.fits(revision, &changes);
        fits.then_some(Candidate { writer, unknown_write: Some(i), changes })
    }

    /// Returns the leases with keys and the changes of their expiry, where these fit the hole.
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

    /// Returns a violation if `lease` cannot have expired before `revision` was first observed.
    fn expired_early(&self, revision: i64, lease: i64) -> Option<Violation> {
        let (until, by) = self.input.leases.alive_until(lease)?;
        let seen = self.input.timeline.first_seen(revision)?;
        if seen.at_ns >= until {
            return None;
        }
        let text = format!(
            "by {} ms the keys of lease {lease} were deleted, at revision {revision}; the lease is valid until {} ms at least: {by}",
            Millis(seen.at_ns),
            Millis(until)
        );
        Some(Violation::new(Rule::ExpiredEarly, text))
    }

    /// Reports whether changes agree with all constraints and watches at a hole.
    fn fits(&self, revision: i64, changes: &[Change]) -> bool {
        self.fits_constraints(revision, changes)
            && self.input.watches.iter().all(|it| it.agrees(revision, changes))
    }

    /// Reports whether changes agree with all constraints at a hole.
    fn fits_constraints(&self, revision: i64, changes: &[Change]) -> bool {
        let put = |kv: &Kv| changes.iter().any(|it| it.after.as_deref() == Some(kv));
        let constraints = self.input.constraints;
        !changes.is_empty()
            && changes.iter().all(|change| constraints.permits(change, revision))
            && constraints.known_puts(revision).iter().all(|kv| put(kv))
            && self.meets_version_bounds(revision, changes)
    }

    /// Reports whether the current value of a key meets a bound.
    fn is_met(&self, bound: &VersionBound<'_>) -> bool {
        bound.is_met(self.keys.get(bound.key).map(|kv| &**kv))
    }

    /// Reports whether all keys meet their version bounds after these changes.
    fn meets_version_bounds(&self, hole: i64, changes: &[Change]) -> bool {
        self.input.version_bounds.bounds(hole).iter().all(|bound| {
            // Of several changes of one key, the last one counts.
            match changes.iter().rev().find(|change| change.key == bound.key) {
                Some(change) => bound.is_met(change.after.as_deref()),
                None => self.is_met(bound),
            }
        })
    }

    /// Returns the only watch that prevents the hole from being filled, if there is exactly one.
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

    /// Builds the violation of a hole without a candidate.
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
