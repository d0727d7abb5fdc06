//! Bounds on the version of a key at each hole, derived from versions that were observed later.
//!
//! The version of a key counts its puts since its creation. Some of these puts have an answered
//! writer; the others must have filled holes:
//!
//! ```text
//! revision   7: put a   8: hole   9: hole   10: put a    11: read a →
//!            answered                       answered        (mod 10, created 5, version 6)
//! version    3          4..=5     5         6
//! ```
//!
//! After revision 9 the version must be 5, because the answered put at 10 makes it 6. After
//! revision 8 it must be at least 4, because only hole 9 can still add one. A hole counts for a key
//! only if one of its candidates puts that key; a hole that must put another key does not count,
//! unless one candidate puts both.
//!
//! So a hole is never filled with a write that puts a key once too often, nor with one that omits a
//! put that no later hole can make up for. Without these bounds the search would notice the error
//! only at the read, after trying every order of the writes in between.

use std::collections::{BTreeMap, BTreeSet};

use super::constraints::Constraints;
use super::footprint;
use super::leases::Leases;
use super::revision_table::RevisionTable;
use super::unknown_writes::UnknownWrites;
use crate::record::{Body, History, Kv, Op, Request};

/// The version bounds of all holes.
#[derive(Debug)]
pub(crate) struct VersionBounds<'a> {
    /// By revision of the hole.
    bounds: BTreeMap<i64, Vec<VersionBound<'a>>>,
}

/// A bound on the version of one key after a hole.
#[derive(Debug)]
pub(crate) struct VersionBound<'a> {
    pub(crate) key: &'a str,
    created: i64,
    version_min: i64,
    version_max: i64,
}

impl VersionBound<'_> {
    /// Reports whether the value of the key after the hole meets the bound.
    pub(crate) fn is_met(&self, left: Option<&Kv>) -> bool {
        left.is_some_and(|kv| {
            kv.create == self.created && (self.version_min..=self.version_max).contains(&kv.version)
        })
    }
}

impl<'a> VersionBounds<'a> {
    pub(crate) fn new(
        history: &'a History,
        table: &RevisionTable<'a>,
        constraints: &Constraints<'a>,
        leases: &Leases<'_>,
        unknown_writes: &UnknownWrites<'a>,
    ) -> VersionBounds<'a> {
        let is_hole = |revision: &i64| table.writer(*revision).is_none();
        let mut holes = HoleCandidates::default();
        for hole in (2..=table.last()).filter(is_hole) {
            holes.add(hole, &unknown_writes.eligible(constraints, leases, hole), unknown_writes);
        }
        let spans = version_spans(constraints, &acknowledged_puts(history, table));
        // A hole reserved for one key is lost for others, which may in turn reserve more. Two
        // passes suffice for nearly all histories.
        for _ in 0..2 {
            spans.iter().for_each(|span| holes.reserve(span));
        }
        let mut bounds: BTreeMap<i64, Vec<VersionBound<'a>>> = BTreeMap::new();
        for span in &spans {
            for (hole, bound) in holes.bounds(span) {
                bounds.entry(hole).or_default().push(bound);
            }
        }
        VersionBounds { bounds }
    }

    /// Returns the bounds of a hole.
    pub(crate) fn bounds(&self, hole: i64) -> &[VersionBound<'a>] {
        self.bounds.get(&hole).map_or(&[], Vec::as_slice)
    }
}

/// The revisions of a key between two observations, or from its creation to its first observation.
#[derive(Debug)]
struct VersionSpan<'a> {
    kv: &'a Kv,
    /// The revision of the earlier observation.
    after: i64,
    /// The version at the earlier observation.
    version: i64,
    /// The revisions of answered puts in the span.
    acknowledged: Vec<i64>,
}

/// Returns the spans between observations of each key, in order.
fn version_spans<'a>(
    constraints: &Constraints<'a>,
    acknowledged: &BTreeMap<&str, Vec<i64>>,
) -> Vec<VersionSpan<'a>> {
    let mut by_key: BTreeMap<&str, BTreeMap<i64, &'a Kv>> = BTreeMap::new();
    for (revision, kv) in constraints.all_known_puts() {
        by_key.entry(&kv.key).or_default().insert(revision, kv);
    }
    let mut spans = Vec::new();
    for (key, seen) in by_key {
        let acknowledged = acknowledged.get(key).map_or(&[][..], Vec::as_slice);
        let mut before: Option<&Kv> = None;
        for kv in seen.into_values() {
            let same = before.filter(|before| before.create == kv.create);
            let (after, version) =
                same.map_or((kv.create - 1, 0), |before| (before.modified, before.version));
            let acknowledged = within(acknowledged, after, kv.modified).to_vec();
            spans.push(VersionSpan { kv, after, version, acknowledged });
            before = Some(kv);
        }
    }
    spans
}

/// The keys that each hole may put.
#[derive(Debug, Default)]
struct HoleCandidates<'a> {
    /// For each hole, the sets of keys that its candidates put.
    puts: BTreeMap<i64, Vec<BTreeSet<&'a str>>>,
}

impl<'a> HoleCandidates<'a> {
    fn add(&mut self, hole: i64, eligible: &[usize], unknown_writes: &UnknownWrites<'a>) {
        let keys = |i: &usize| {
            let puts = footprint::puts(unknown_writes.all[*i].request);
            puts.map(|put| put.key.as_str()).collect::<BTreeSet<_>>()
        };
        let mut puts: Vec<_> = eligible.iter().map(keys).filter(|keys| !keys.is_empty()).collect();
        puts.sort_unstable();
        puts.dedup();
        self.puts.insert(hole, puts);
    }

    /// Returns the holes in a span that may put its key.
    fn open_holes(&self, span: &VersionSpan<'_>) -> Vec<i64> {
        let VersionSpan { kv, after, .. } = span;
        let could = |keys: &BTreeSet<&str>| keys.contains(kv.key.as_str());
        let holes = self.puts.range(after + 1..(kv.modified + 1).max(after + 1));
        holes.filter(|(_, puts)| puts.iter().any(could)).map(|(hole, _)| *hole).collect()
    }

    /// Reserves holes for a key: if all holes that may put the key must do so, or if a hole created
    /// or last put the key, candidates that do not put it are removed.
    fn reserve(&mut self, span: &VersionSpan<'_>) {
        let (kv, open) = (span.kv, self.open_holes(span));
        let missing = kv.version - span.version - count(&span.acknowledged);
        for hole in &open {
            if (missing >= count(&open) || *hole == kv.create || *hole == kv.modified)
                && let Some(puts) = self.puts.get_mut(hole)
            {
                puts.retain(|keys| keys.contains(kv.key.as_str()));
            }
        }
    }

    /// Returns the version bounds at the holes of a span, except the last one, whose value was
    /// observed.
    fn bounds(&self, span: &VersionSpan<'a>) -> Vec<(i64, VersionBound<'a>)> {
        let (kv, open) = (span.kv, self.open_holes(span));
        let holes = self.puts.range(span.after + 1..kv.modified.max(span.after + 1));
        let is_hole = self.puts.contains_key(&kv.modified);
        let bound = |hole: i64| {
            let left = kv.version - count(within(&span.acknowledged, hole, kv.modified));
            VersionBound {
                key: &kv.key,
                created: kv.create,
                version_min: left - count(within(&open, hole, kv.modified)),
                version_max: left - i64::from(is_hole),
            }
        };
        holes.map(|(hole, _)| (*hole, bound(*hole))).collect()
    }
}

/// Returns the revisions of answered puts by key.
fn acknowledged_puts<'a>(
    history: &'a History,
    table: &RevisionTable<'a>,
) -> BTreeMap<&'a str, Vec<i64>> {
    let mut acknowledged: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for revision in 2..=table.last() {
        let operation = table.writer(revision).map(|i| &history.operations[i]);
        let Some((_, response)) = operation.and_then(|it| it.answer()) else { continue };
        let Some(operation) = operation else { continue };
        for key in keys_put(&operation.request, &response.body) {
            acknowledged.entry(key).or_default().push(revision);
        }
    }
    acknowledged
}

/// Returns the keys that an answered request put.
pub(super) fn keys_put<'a>(request: &'a Request, body: &Body) -> Vec<&'a str> {
    match (request, body) {
        (Request::Put(put), _) => vec![&put.key],
        (Request::Txn(txn), Body::Txn { succeeded, .. }) => {
            let ops = if *succeeded { &txn.then } else { &txn.otherwise };
            let put = |op: &'a Op| match op {
                Op::Put(put) => Some(put.key.as_str()),
                Op::Delete(_) | Op::Range(_) => None,
            };
            ops.iter().filter_map(put).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the revisions in `after + 1..=to`.
fn within(sorted: &[i64], after: i64, to: i64) -> &[i64] {
    let from = sorted.partition_point(|it| *it <= after);
    let end = sorted.partition_point(|it| *it <= to);
    sorted.get(from..end).unwrap_or_default()
}

fn count(revisions: &[i64]) -> i64 {
    i64::try_from(revisions.len()).unwrap_or(i64::MAX)
}
