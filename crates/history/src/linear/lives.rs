//! How often a key must still be put: what the version that somebody saw of it says of the holes before.
//!
//! A version counts the puts since the key was created, and those that somebody was told to have made are known. What is missing was put by holes:
//!
//! ```text
//! revision   7: put a → told      8: hole   9: hole   10: put a → told      11: read a → (mod 10, created 5, version 6)
//! version    3                    3 or 4    4 or 5    6, or it was never seen so: after 8 there is only one hole left, and after 9 there is none
//! ```
//!
//! So a hole is not filled by a write that puts a key once too often, nor by one that leaves it out where none may. Without this, the search would find out only when the key is
//! seen, and try every order of the writes between.

use std::collections::BTreeMap;

use super::clues::Clues;
use super::script::Script;
use crate::record::{Body, History, Kv, Op, Request};

/// What holes must leave of keys that were seen later.
#[derive(Debug)]
pub(crate) struct Lives<'a> {
    /// By hole.
    dues: BTreeMap<i64, Vec<Due<'a>>>,
}

/// What a hole must leave of a key.
#[derive(Debug)]
pub(crate) struct Due<'a> {
    pub(crate) key: &'a str,
    created: i64,
    version_min: i64,
    version_max: i64,
}

impl Due<'_> {
    /// Whether it leaves the key so.
    pub(crate) fn is_met(&self, left: Option<&Kv>) -> bool {
        left.is_some_and(|kv| {
            kv.create == self.created && (self.version_min..=self.version_max).contains(&kv.version)
        })
    }
}

impl<'a> Lives<'a> {
    pub(crate) fn new(history: &'a History, script: &Script<'a>, clues: &Clues<'a>) -> Lives<'a> {
        let is_hole = |revision: &i64| script.writer(*revision).is_none();
        let holes: Vec<i64> = (2..=script.last()).filter(is_hole).collect();
        let told = told_puts(history, script);
        let mut by_key: BTreeMap<&str, BTreeMap<i64, &Kv>> = BTreeMap::new();
        for (revision, kv) in clues.all_facts() {
            by_key.entry(&kv.key).or_default().insert(revision, kv);
        }
        let mut dues: BTreeMap<i64, Vec<Due<'a>>> = BTreeMap::new();
        for (key, seen) in by_key {
            let told = told.get(key).map_or(&[][..], Vec::as_slice);
            let mut after = i64::MIN;
            for (at, kv) in seen {
                // Holes since the key was seen before, and since it was created; that which put it has been seen itself.
                for hole in within(&holes, after.max(kv.create - 1), at - 1) {
                    let left = kv.version - count(within(told, *hole, at));
                    let version_max = left - i64::from(is_hole(&at));
                    let version_min = left - count(within(&holes, *hole, at));
                    let due = Due { key, created: kv.create, version_min, version_max };
                    dues.entry(*hole).or_default().push(due);
                }
                after = at;
            }
        }
        Lives { dues }
    }

    /// What a hole must leave.
    pub(crate) fn dues(&self, hole: i64) -> &[Due<'a>] {
        self.dues.get(&hole).map_or(&[], Vec::as_slice)
    }
}

/// By key: the revisions by which somebody was told to have put it.
fn told_puts<'a>(history: &'a History, script: &Script<'a>) -> BTreeMap<&'a str, Vec<i64>> {
    let mut told: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for revision in 2..=script.last() {
        let operation = script.writer(revision).map(|i| &history.operations[i]);
        let Some((_, response)) = operation.and_then(|it| it.answer()) else { continue };
        let Some(operation) = operation else { continue };
        for key in keys_put(&operation.request, &response.body) {
            told.entry(key).or_default().push(revision);
        }
    }
    told
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
