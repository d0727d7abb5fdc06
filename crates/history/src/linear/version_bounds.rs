//! How often a key must still be put: what the version that somebody saw of it says of the holes before.
//!
//! A version counts the puts since the key was created, and those that somebody was told to have made are known. What is missing was put by holes:
//!
//! ```text
//! revision   7: put a → told      8: hole   9: hole   10: put a → told      11: read a → (mod 10, created 5, version 6)
//! version    3                    3 or 4    4 or 5    6, or it was never seen so: after 8 there is only one hole left, and after 9 there is none
//! ```
//!
//! How many holes are left for a key is counted from what could have filled them: one that must put another key is none, unless something puts both.
//!
//! So a hole is not filled by a write that puts a key once too often, nor by one that leaves it out where none may. Without this, the search would find out only when the key is
//! seen, and try every order of the writes between.

use std::collections::{BTreeMap, BTreeSet};

use super::constraints::Constraints;
use super::footprint;
use super::leases::Leases;
use super::revision_table::RevisionTable;
use super::unknown_writes::UnknownWrites;
use crate::record::{Body, History, Kv, Op, Request};

/// What holes must leave of keys that were seen later.
#[derive(Debug)]
pub(crate) struct VersionBounds<'a> {
    /// By hole.
    bounds: BTreeMap<i64, Vec<VersionBound<'a>>>,
}

/// What a hole must leave of a key.
#[derive(Debug)]
pub(crate) struct VersionBound<'a> {
    pub(crate) key: &'a str,
    created: i64,
    version_min: i64,
    version_max: i64,
}

impl VersionBound<'_> {
    /// Whether it leaves the key so.
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
        // What one key takes up is not there for another, which may be taken up by it in turn: twice is enough for nearly all.
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

    /// What a hole must leave.
    pub(crate) fn bounds(&self, hole: i64) -> &[VersionBound<'a>] {
        self.bounds.get(&hole).map_or(&[], Vec::as_slice)
    }
}

/// A key between two times that it was seen, or from its creation on.
#[derive(Debug)]
struct VersionSpan<'a> {
    kv: &'a Kv,
    /// The puts after this revision are counted.
    after: i64,
    /// What they are counted from.
    version: i64,
    /// Those of them that somebody was told to have made.
    acknowledged: Vec<i64>,
}

/// By key and in order, all spans between two times that it was seen.
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

/// Who could put what, by hole.
#[derive(Debug, Default)]
struct HoleCandidates<'a> {
    /// For each hole, the keys that each write could put that could fill it.
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

    /// The holes in a span that could put its key.
    fn open_holes(&self, span: &VersionSpan<'_>) -> Vec<i64> {
        let VersionSpan { kv, after, .. } = span;
        let could = |keys: &BTreeSet<&str>| keys.contains(kv.key.as_str());
        let holes = self.puts.range(after + 1..(kv.modified + 1).max(after + 1));
        holes.filter(|(_, puts)| puts.iter().any(could)).map(|(hole, _)| *hole).collect()
    }

    /// Where a key must be put by every hole that could, or by the one that created it, nothing fills that hole that does not put it.
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

    /// What each hole in a span must leave of its key. That which put it last has been seen itself.
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

/// By key: the revisions by which somebody was told to have put it.
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

/// The keys that a request put, by its answer.
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

/// Those after one revision and up to another.
fn within(sorted: &[i64], after: i64, to: i64) -> &[i64] {
    let from = sorted.partition_point(|it| *it <= after);
    let end = sorted.partition_point(|it| *it <= to);
    sorted.get(from..end).unwrap_or_default()
}

fn count(revisions: &[i64]) -> i64 {
    i64::try_from(revisions.len()).unwrap_or(i64::MAX)
}
