//! What answers tell of revisions other than their own.
//!
//! Whoever reads `a="x" (mod 7, created 3, version 4)` as of revision 9 tells that revision 7 put that, that nothing touched `a` at 8
//! and 9, and that nothing deleted it since 3. Whoever read `a` at version 3 besides, put by revision 5, tells that nothing touched it at 6. For a revision that somebody was told to have made, this says nothing new. For one that is a hole, it often leaves only one write of
//! unknown outcome that could have made it.

use std::collections::{BTreeMap, BTreeSet};

use super::footprint;
use crate::model::Change;
use crate::record::{
    Body, Compare, Event, History, Kv, Op, Outcome, Relation, Request, Response, Target, WatchBody,
};

use crate::watch::Coverage;

/// By key and the revision after which something held: until when it did.
type Spans<'a> = BTreeMap<&'a str, BTreeMap<i64, i64>>;

/// What is told between the lines.
#[derive(Debug, Default)]
pub(crate) struct Constraints<'a> {
    /// By revision: what it put.
    known_puts: BTreeMap<i64, Vec<&'a Kv>>,
    /// By key and revision: until when the key stayed as it was then.
    untouched: Spans<'a>,
    /// By key and the revision that created it: until when it was there.
    alive: Spans<'a>,
    /// KeyHistory and values that somebody saw.
    observed: BTreeSet<(&'a str, &'a str)>,
    /// Values that somebody compared with.
    compared: Vec<&'a Compare>,
}

impl<'a> Constraints<'a> {
    /// What all answers tell, and what those watches were told that are believed.
    pub(crate) fn new(history: &'a History, believed: &[Coverage<'_>]) -> Constraints<'a> {
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
            let believed = believed.iter().any(|coverage| coverage.watch == i);
            for response in &watch.responses {
                if let WatchBody::Events(events) = &response.body {
                    events.iter().for_each(|event| constraints.add_event(event, believed));
                }
            }
        }
        constraints.join_versions();
        constraints
    }

    /// What was put by `revision`, as far as anybody read it.
    pub(crate) fn known_puts(&self, revision: i64) -> &[&'a Kv] {
        self.known_puts.get(&revision).map_or(&[], Vec::as_slice)
    }

    /// Whether somebody saw that `key` was not touched at `revision`.
    pub(crate) fn is_untouched(&self, key: &str, revision: i64) -> bool {
        within(&self.untouched, key, revision)
    }

    /// Whether nobody saw that `change` was not made at `revision`.
    pub(crate) fn permits(&self, change: &Change, revision: i64) -> bool {
        let must_exist = change.after.is_none() && within(&self.alive, &change.key, revision);
        !self.is_untouched(&change.key, revision) && !must_exist
    }

    /// Every put that was read back: the revision, and what it put.
    pub(crate) fn all_known_puts(&self) -> impl Iterator<Item = (i64, &'a Kv)> {
        self.known_puts.iter().flat_map(|(revision, kvs)| kvs.iter().map(|kv| (*revision, *kv)))
    }

    /// Whether nothing ever depended on what the value is that was put.
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
        // What a write tells of, but for itself, is the state before it.
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
                self.add_body(body, range.revision)
            }
            (_, body) => self.add_body(body, before),
        }
    }

    /// What is seen matters even if it is not believed: two writes are not alike if somebody could tell them apart.
    fn add_event(&mut self, event: &'a Event, believed: bool) {
        let put = Some(&event.kv).filter(|_| !event.delete);
        for (kv, as_of) in [(put, event.kv.modified), (event.prev.as_ref(), event.kv.modified - 1)]
        {
            match kv {
                Some(kv) if believed => self.add_kv(kv, as_of),
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

    /// Nothing touches a key between two puts of which the second counts one more than the first.
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

/// Whether a request says by itself that it could not have made `revision`.
pub(crate) fn excluded(constraints: &Constraints<'_>, request: &Request, revision: i64) -> bool {
    let alone = match request {
        Request::Put(put) => Some(put.key.as_str()),
        Request::Delete(delete) if delete.span.end.is_none() => Some(delete.span.key.as_str()),
        _ => None,
    };
    alone.is_some_and(|key| constraints.is_untouched(key, revision))
        || !constraints.known_puts(revision).iter().all(|kv| footprint::could_put(request, kv))
}
