//! A digest of the observable part of a state: states that differ only in unobservable ways lead to
//! the same verdict.
//!
//! The value of a key that is overwritten before its next observation cannot influence the verdict,
//! and neither can the revision that put it. Many orders of filling holes therefore reach
//! equivalent states, and only one of them has to be searched:
//!
//! ```text
//! revision   6: hole      7: hole      8: put a, answered
//! first      put a="x"    put a="y"    overwrites a
//! second     put a="y"    put a="x"    overwrites a
//!
//! digest after 7, in both cases:   a (created 3, version 4), without value and mod revision
//! ```
//!
//! The digest always includes what the next put inherits (create revision and version) and what may
//! delete the key (its lease). An unknown write observes no more of a key than whether its compares
//! hold.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::constraints::Constraints;
use super::footprint::ops;
use super::revision_table::RevisionTable;
use super::unknown_writes::UnknownWrites;
use super::version_bounds::keys_put;
use crate::model::{KeyHistory, relates};
use crate::record::{Compare, Delete, History, Kv, Op, Put, Range, Request, Span, Target};
use crate::watch::Coverage;

/// The revisions at which keys are overwritten and observed.
#[derive(Debug)]
pub(crate) struct Observable<'a> {
    /// By key: the revisions that certainly put it.
    overwritten: BTreeMap<&'a str, Vec<i64>>,
    /// Observed ranges with their time, sorted: `2 * revision` for an observation of the state
    /// after a revision, `2 * revision - 1` for one of the state before it.
    observed_at: Vec<(Span, i64)>,
    /// Compares of unknown writes with values and mod revisions.
    compares: Vec<&'a Compare>,
}

impl<'a> Observable<'a> {
    pub(crate) fn new(
        history: &'a History,
        table: &RevisionTable<'a>,
        constraints: &Constraints<'a>,
        unknown_writes: &UnknownWrites<'a>,
        watches: &[Coverage<'a>],
    ) -> Observable<'a> {
        let mut observable = Observable {
            overwritten: BTreeMap::new(),
            observed_at: Vec::new(),
            compares: Vec::new(),
        };
        for revision in 1..=table.last() {
            for observation in table.observations(revision) {
                observable.observe(&observation.request, 2 * revision);
            }
            let operation = table.writer(revision).map(|i| &history.operations[i]);
            if let Some(operation) = operation
                && let Some((_, response)) = operation.answer()
            {
                observable.observe(&operation.request, 2 * revision - 1);
                let put = keys_put(&operation.request, &response.body);
                put.into_iter().for_each(|key| observable.overwrite(key, revision));
            }
        }
        constraints
            .all_known_puts()
            .for_each(|(revision, kv)| observable.overwrite(&kv.key, revision));
        for (revision, events) in watches.iter().flat_map(|watch| &watch.events) {
            for event in events.iter().filter(|event| event.prev.is_some()) {
                observable.observed_at.push((Span::one(&event.kv.key), 2 * revision - 1));
            }
        }
        observable.overwritten.values_mut().for_each(|revisions| revisions.sort_unstable());
        observable.observed_at.sort_by_key(|(_, at)| *at);
        for write in &unknown_writes.all {
            if let Request::Txn(txn) = write.request {
                let hidden = |it: &&Compare| matches!(it.to, Target::Value(_) | Target::Mod(_));
                observable.compares.extend(txn.compares.iter().filter(hidden));
            }
        }
        observable
    }

    fn overwrite(&mut self, key: &'a str, revision: i64) {
        self.overwritten.entry(key).or_default().push(revision);
    }

    /// Records the ranges whose values or mod revisions the response to `request` reveals.
    fn observe(&mut self, request: &Request, at: i64) {
        self.observed_at.extend(observed_spans(request).into_iter().map(|span| (span, at)));
    }

    /// Returns a digest of the observable part of the current state.
    pub(crate) fn digest(&self, keys: &KeyHistory) -> u64 {
        let mut hasher = DefaultHasher::new();
        let now = keys.revision();
        for kv in keys.range_at(&Span::all(), now) {
            (&kv.key, kv.create, kv.version, kv.lease).hash(&mut hasher);
            if self.is_observed(kv, now) {
                (&kv.value, kv.modified).hash(&mut hasher);
            } else {
                let compares = self.compares.iter().filter(|it| it.span.contains(&kv.key));
                compares.for_each(|compare| relates(compare, Some(kv)).hash(&mut hasher));
            }
        }
        hasher.finish()
    }

    /// Reports whether a key is observed after `now` and before it is overwritten.
    fn is_observed(&self, kv: &Kv, now: i64) -> bool {
        let until = self.overwritten.get(kv.key.as_str()).and_then(|revisions| {
            revisions.get(revisions.partition_point(|revision| *revision <= now))
        });
        let until = until.map_or(i64::MAX, |revision| 2 * revision);
        let from = self.observed_at.partition_point(|(_, at)| *at <= 2 * now);
        let mut observed_at = self.observed_at[from..].iter().take_while(|(_, at)| *at < until);
        observed_at.any(|(span, _)| span.contains(&kv.key))
    }
}

/// Returns the ranges whose values or mod revisions the response to a request reveals.
fn observed_spans(request: &Request) -> Vec<Span> {
    match request {
        Request::Put(put) => put_observes(put).into_iter().collect(),
        Request::Delete(delete) => delete_observes(delete).into_iter().collect(),
        Request::Range(range) => range_observes(range).into_iter().collect(),
        Request::Txn(txn) => {
            let compares = txn.compares.iter().map(|compare| compare.span.clone());
            let ops = ops(request).filter_map(|op| match op {
                Op::Put(put) => put_observes(put),
                Op::Delete(delete) => delete_observes(delete),
                Op::Range(range) => range_observes(range),
            });
            compares.chain(ops).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the key whose previous value a put reveals.
fn put_observes(put: &Put) -> Option<Span> {
    put.prev_kv.then(|| Span::one(&put.key))
}

/// Returns the span whose previous values a delete reveals.
fn delete_observes(delete: &Delete) -> Option<Span> {
    delete.prev_kv.then(|| delete.span.clone())
}

/// Returns the span whose values a read reveals; none for a count.
fn range_observes(range: &Range) -> Option<Span> {
    (!range.count_only).then(|| range.span.clone())
}
