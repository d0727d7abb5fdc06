//! Constraints on a revision that responses about other revisions imply.
//!
//! A read of `a="x" (mod 7, created 3, version 4)` at revision 9 implies that revision 7 put this
//! value, that revisions 8 and 9 did not change `a`, and that no revision since 3 deleted it. If
//! another read shows version 3 of `a`, put by revision 5, then revision 6 did not change `a`
//! either. For a revision with a known writer this adds nothing. For a hole it often leaves a
//! single unknown write as a candidate.

use std::collections::{BTreeMap, BTreeSet};

use super::footprint;
use crate::model::Change;
use crate::record::{
    Body, Compare, Event, History, Kv, Op, Outcome, Relation, Request, Response, Target, WatchBody,
};

use crate::watch::Coverage;

/// By key: half-open spans of revisions, from the first revision (exclusive) to the last
/// (inclusive).
type Spans<'a> = BTreeMap<&'a str, BTreeMap<i64, i64>>;

/// The constraints that all observations imply.
#[derive(Debug, Default)]
pub(crate) struct Constraints<'a> {
    /// By revision: the values that it put.
    known_puts: BTreeMap<i64, Vec<&'a Kv>>,
    /// By key: spans of revisions that did not change it.
    untouched: Spans<'a>,
    /// By key: spans of revisions after which the key existed without interruption.
    alive: Spans<'a>,
    /// Every observed pair of key and value.
    observed: BTreeSet<(&'a str, &'a str)>,
    /// Compares of transactions with a value.
    compared: Vec<&'a Compare>,
}

impl<'a> Constraints<'a> {
    /// Collects the constraints of all responses and of the trusted watches.
    pub(crate) fn new(history: &'a History, trusted: &[Coverage<'_>]) -> Constraints<'a> {
        let mut constraints = Constraints::default();
        for operation in &history.operations {
            if let Outcome::Answered { response, .. } = &operation.outcome {
                constraints.add_response(&operation.request, response);
            }
            if let Request::Txn(txn) = &operation.request {
                let values = |it: &&Compare| matches!(it.to, Target::Value(_));
                constraints.compared.extend(txn.compares.iter().filter(values));
            }
        }
        for last in &history.finals {
            last.kvs.iter().for_each(|kv| constraints.add_kv(kv, last.revision));
        }
        for (i, watch) in history.watches.iter().enumerate() {
            let trusted = trusted.iter().any(|coverage| coverage.watch == i);
            for response in &watch.responses {
                if let WatchBody::Events(events) = &response.body {
                    events.iter().for_each(|event| constraints.add_event(event, trusted));
                }
            }
        }
        constraints.join_versions();
        constraints
    }

    /// Returns the known puts of `revision`.
    pub(crate) fn known_puts(&self, revision: i64) -> &[&'a Kv] {
        self.known_puts.get(&revision).map_or(&[], Vec::as_slice)
    }

    /// Reports whether an observation shows that `revision` did not change `key`.
    pub(crate) fn is_untouched(&self, key: &str, revision: i64) -> bool {
        within(&self.untouched, key, revision)
    }

    /// Reports whether `change` at `revision` contradicts no observation.
    pub(crate) fn permits(&self, change: &Change, revision: i64) -> bool {
        let must_exist = change.after.is_none() && within(&self.alive, &change.key, revision);
        !self.is_untouched(&change.key, revision) && !must_exist
    }

    /// Returns every known put with its revision.
    pub(crate) fn all_known_puts(&self) -> impl Iterator<Item = (i64, &'a Kv)> {
        self.known_puts.iter().flat_map(|(revision, kvs)| kvs.iter().map(|kv| (*revision, *kv)))
    }

    /// Reports whether no observation and no compare depends on this value of the key.
    pub(crate) fn is_value_unobserved(&self, key: &str, value: &str) -> bool {
        let matters = |compare: &Compare| {
            let plain = matches!(compare.is, Relation::Equal | Relation::NotEqual);
            compare.span.contains(key)
                && (!plain || matches!(&compare.to, Target::Value(to) if to == value))
        };
        !self.observed.contains(&(key, value)) && !self.compared.iter().any(|it| matters(it))
    }

    fn add_response(&mut self, request: &'a Request, response: &'a Response) {
        let wrote = response.body.wrote() == Some(true);
        // The response of a write shows the state before the write.
        let before = response.revision - i64::from(wrote);
        match (request, &response.body) {
            (Request::Txn(txn), Body::Txn { succeeded, results }) => {
                let ops = if *succeeded { &txn.then } else { &txn.otherwise };
                for (op, result) in ops.iter().zip(results) {
                    let as_of = match op {
                        Op::Range(range) if range.revision > 0 => range.revision,
                        _ => before,
                    };
                    self.add_body(result, as_of);
                }
            }
            (Request::Range(range), body) if range.revision > 0 => {
                self.add_body(body, range.revision);
            }
            (_, body) => self.add_body(body, before),
        }
    }

    /// Records the value even if the watch is not trusted: two writes are interchangeable only if
    /// no observation can tell them apart.
    fn add_event(&mut self, event: &'a Event, trusted: bool) {
        let put = Some(&event.kv).filter(|_| !event.delete);
        for (kv, as_of) in [(put, event.kv.modified), (event.prev.as_ref(), event.kv.modified - 1)]
        {
            match kv {
                Some(kv) if trusted => self.add_kv(kv, as_of),
                Some(kv) => _ = self.observed.insert((&kv.key, &kv.value)),
                None => {}
            }
        }
    }

    fn add_body(&mut self, body: &'a Body, as_of: i64) {
        match body {
            Body::Put { prev } => prev.iter().for_each(|kv| self.add_kv(kv, as_of)),
            Body::Delete { prevs: kvs, .. } | Body::Range { kvs, .. } => {
                kvs.iter().for_each(|kv| self.add_kv(kv, as_of));
            }
            _ => {}
        }
    }

    fn add_kv(&mut self, kv: &'a Kv, as_of: i64) {
        self.observed.insert((&kv.key, &kv.value));
        let known_puts = self.known_puts.entry(kv.modified).or_default();
        if !known_puts.contains(&kv) {
            known_puts.push(kv);
        }
        extend(&mut self.untouched, &kv.key, kv.modified, as_of);
        extend(&mut self.alive, &kv.key, kv.create, as_of);
    }

    /// Derives that no revision changes a key between two puts with consecutive versions.
    fn join_versions(&mut self) {
        let known_puts = self.known_puts.values().flatten();
        let by_version: BTreeMap<_, i64> =
            known_puts.map(|kv| ((&*kv.key, kv.create, kv.version), kv.modified)).collect();
        for (&(key, created, version), &modified) in &by_version {
            if let Some(next) = by_version.get(&(key, created, version + 1)) {
                extend(&mut self.untouched, key, modified, next - 1);
            }
        }
    }
}

fn extend<'a>(spans: &mut Spans<'a>, key: &'a str, after: i64, until: i64) {
    let known = spans.entry(key).or_default().entry(after).or_insert(until);
    *known = until.max(*known);
}

fn within(spans: &Spans<'_>, key: &str, revision: i64) -> bool {
    let newest = spans.get(key).and_then(|spans| spans.range(..revision).next_back());
    newest.is_some_and(|(_, until)| *until >= revision)
}

/// Reports whether a request cannot have made `revision`, judged without the state.
pub(crate) fn excluded(constraints: &Constraints<'_>, request: &Request, revision: i64) -> bool {
    let alone = match request {
        Request::Put(put) => Some(put.key.as_str()),
        Request::Delete(delete) if delete.span.end.is_none() => Some(delete.span.key.as_str()),
        _ => None,
    };
    alone.is_some_and(|key| constraints.is_untouched(key, revision))
        || !constraints.known_puts(revision).iter().all(|kv| footprint::could_put(request, kv))
}
