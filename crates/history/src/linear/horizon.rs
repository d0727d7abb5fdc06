//! What of a state can still be seen: two that differ in nothing else lead to the same.
//!
//! A key that is put again before anybody looks might have been put by any of the holes before: its value and the revision that put it are forgotten. So, of many orders in which
//! holes could have been filled, most come to the same, and only one of them has to be gone through.
//!
//! ```text
//! revision   6: hole   7: hole   8: hole   9: put a → told      10: read a, b
//!            put a     put a     put b     a is put again       so after 8: a is (created 3, version 4), b is (mod 8, "7", created 8, version 1)
//!            put a     put b     put a                          so after 8: a is the same, b is another
//! ```
//!
//! Always kept is what the next put carries on, which is when the key was created and its version, and what may end it, which is its lease. A write that may
//! have happened sees no more of a key than whether its compares hold.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::clues::Clues;
use super::footprint::ops;
use super::lives::keys_put;
use super::maybes::Maybes;
use super::script::Script;
use crate::model::{Keys, relates};
use crate::record::{Compare, Delete, History, Kv, Op, Put, Range, Request, Span, Target};
use crate::watch::Coverage;

/// What becomes of keys, and when somebody looks at them.
#[derive(Debug)]
pub(crate) struct Horizon<'a> {
    /// By key: when it is surely put or deleted.
    replaced: BTreeMap<&'a str, Vec<i64>>,
    /// When somebody looks at keys: at twice a revision, if what it left is looked at and held against it at once; one later, if that is done with the next.
    looks: Vec<(Span, i64)>,
    /// What writes that may have happened ask of values and revisions.
    compares: Vec<&'a Compare>,
}

impl<'a> Horizon<'a> {
    pub(crate) fn new(
        history: &'a History,
        script: &Script<'a>,
        clues: &Clues<'a>,
        maybes: &Maybes<'a>,
        watchers: &[Coverage<'a>],
    ) -> Horizon<'a> {
        let mut horizon =
            Horizon { replaced: BTreeMap::new(), looks: Vec::new(), compares: Vec::new() };
        for revision in 1..=script.last() {
            for sight in script.sights(revision) {
                horizon.look(&sight.request, 2 * revision);
            }
            let operation = script.writer(revision).map(|i| &history.operations[i]);
            if let Some(operation) = operation
                && let Some((_, response)) = operation.answer()
            {
                horizon.look(&operation.request, 2 * revision - 1);
                let put = keys_put(&operation.request, &response.body);
                put.into_iter().for_each(|key| horizon.replace(key, revision));
            }
        }
        clues.all_facts().for_each(|(revision, kv)| horizon.replace(&kv.key, revision));
        for (revision, events) in watchers.iter().flat_map(|watcher| &watcher.events) {
            for event in events.iter().filter(|event| event.prev.is_some()) {
                horizon.looks.push((Span::one(&event.kv.key), 2 * revision - 1));
            }
        }
        horizon.replaced.values_mut().for_each(|revisions| revisions.sort_unstable());
        horizon.looks.sort_by_key(|(_, at)| *at);
        for maybe in &maybes.all {
            if let Request::Txn(txn) = maybe.request {
                let hidden = |it: &&Compare| matches!(it.to, Target::Value(_) | Target::Mod(_));
                horizon.compares.extend(txn.compares.iter().filter(hidden));
            }
        }
        horizon
    }

    fn replace(&mut self, key: &'a str, revision: i64) {
        self.replaced.entry(key).or_default().push(revision);
    }

    /// Whoever asks this sees values, or the revisions that put them.
    fn look(&mut self, request: &Request, at: i64) {
        self.looks.extend(looked_at(request).into_iter().map(|span| (span, at)));
    }

    /// A number for what can still be seen of the keys as they are now.
    pub(crate) fn digest(&self, keys: &Keys) -> u64 {
        let mut hasher = DefaultHasher::new();
        let now = keys.revision();
        for kv in keys.range_at(&Span::all(), now) {
            (&kv.key, kv.create, kv.version, kv.lease).hash(&mut hasher);
            if self.is_seen(kv, now) {
                (&kv.value, kv.modified).hash(&mut hasher);
            } else {
                let asking = self.compares.iter().filter(|it| it.span.contains(&kv.key));
                asking.for_each(|compare| relates(compare, Some(kv)).hash(&mut hasher));
            }
        }
        hasher.finish()
    }

    /// Whether somebody looks at a key after `now`, before it is put again.
    fn is_seen(&self, kv: &Kv, now: i64) -> bool {
        let until = self.replaced.get(kv.key.as_str()).and_then(|revisions| {
            revisions.get(revisions.partition_point(|revision| *revision <= now))
        });
        let until = until.map_or(i64::MAX, |revision| 2 * revision);
        let from = self.looks.partition_point(|(_, at)| *at <= 2 * now);
        let mut looks = self.looks[from..].iter().take_while(|(_, at)| *at < until);
        looks.any(|(span, _)| span.contains(&kv.key))
    }
}

/// The keys of which a request that was answered tells the value or the revision that put it.
fn looked_at(request: &Request) -> Vec<Span> {
    match request {
        Request::Put(put) => put_look(put).into_iter().collect(),
        Request::Delete(delete) => delete_look(delete).into_iter().collect(),
        Request::Range(range) => range_look(range).into_iter().collect(),
        Request::Txn(txn) => {
            let compares = txn.compares.iter().map(|compare| compare.span.clone());
            let ops = ops(request).filter_map(|op| match op {
                Op::Put(put) => put_look(put),
                Op::Delete(delete) => delete_look(delete),
                Op::Range(range) => range_look(range),
            });
            compares.chain(ops).collect()
        }
        _ => Vec::new(),
    }
}

fn put_look(put: &Put) -> Option<Span> {
    put.prev_kv.then(|| Span::one(&put.key))
}

fn delete_look(delete: &Delete) -> Option<Span> {
    delete.prev_kv.then(|| delete.span.clone())
}

/// How many there are is no secret.
fn range_look(range: &Range) -> Option<Span> {
    (!range.count_only).then(|| range.span.clone())
}
