//! What answers tell of revisions other than their own.
//!
//! Whoever reads `a="x" (mod 7, created 3, version 4)` as of revision 9 tells that revision 7 put that, that nothing touched `a` at 8
//! and 9, and that nothing deleted it since 3. Whoever read `a` at version 3 besides, put by revision 5, tells that nothing touched it at 6. For a revision that somebody was told to have made, this says nothing new. For one that is a hole, it often leaves only one write of
//! unknown outcome that could have made it.

use std::collections::{BTreeMap, BTreeSet};

use super::footprint;
use crate::model::Change;
use crate::record::{
    Body, Compare, Event, History, Kv, News, Op, Outcome, Relation, Request, Response, Target,
};

use crate::watch::Coverage;

/// By key and the revision after which something held: until when it did.
type Spans<'a> = BTreeMap<&'a str, BTreeMap<i64, i64>>;

/// What is told between the lines.
#[derive(Debug, Default)]
pub(crate) struct Clues<'a> {
    /// By revision: what it put.
    facts: BTreeMap<i64, Vec<&'a Kv>>,
    /// By key and revision: until when the key stayed as it was then.
    quiet: Spans<'a>,
    /// By key and the revision that created it: until when it was there.
    alive: Spans<'a>,
    /// Keys and values that somebody saw.
    seen: BTreeSet<(&'a str, &'a str)>,
    /// Values that somebody compared with.
    compared: Vec<&'a Compare>,
}

impl<'a> Clues<'a> {
    /// What all answers tell, and what those watches were told that are believed.
    pub(crate) fn new(history: &'a History, believed: &[Coverage<'_>]) -> Clues<'a> {
        let mut clues = Clues::default();
        for operation in &history.operations {
            if let Outcome::Answered { response, .. } = &operation.outcome {
                clues.hear(&operation.request, response);
            }
            if let Request::Txn(txn) = &operation.request {
                let values = |it: &&Compare| matches!(it.to, Target::Value(_));
                clues.compared.extend(txn.compares.iter().filter(values));
            }
        }
        for last in &history.finals {
            last.kvs.iter().for_each(|kv| clues.add(kv, last.revision));
        }
        for (i, watch) in history.watches.iter().enumerate() {
            let believed = believed.iter().any(|coverage| coverage.watch == i);
            for response in &watch.responses {
                if let News::Events(events) = &response.news {
                    events.iter().for_each(|event| clues.watch(event, believed));
                }
            }
        }
        clues.join_versions();
        clues
    }

    /// What was put by `revision`, as far as anybody read it.
    pub(crate) fn facts(&self, revision: i64) -> &[&'a Kv] {
        self.facts.get(&revision).map_or(&[], Vec::as_slice)
    }

    /// Whether somebody saw that `key` was not touched at `revision`.
    pub(crate) fn is_quiet(&self, key: &str, revision: i64) -> bool {
        within(&self.quiet, key, revision)
    }

    /// Whether nobody saw that `change` was not made at `revision`.
    pub(crate) fn permits(&self, change: &Change, revision: i64) -> bool {
        let lives_on = change.after.is_none() && within(&self.alive, &change.key, revision);
        !self.is_quiet(&change.key, revision) && !lives_on
    }

    /// Every put that was read back: the revision, and what it put.
    pub(crate) fn all_facts(&self) -> impl Iterator<Item = (i64, &'a Kv)> {
        self.facts.iter().flat_map(|(revision, kvs)| kvs.iter().map(|kv| (*revision, *kv)))
    }

    /// Whether nothing ever depended on what the value is that was put.
    pub(crate) fn is_anonymous(&self, key: &str, value: &str) -> bool {
        let matters = |compare: &Compare| {
            let plain = matches!(compare.is, Relation::Equal | Relation::NotEqual);
            compare.span.contains(key)
                && (!plain || matches!(&compare.to, Target::Value(to) if to == value))
        };
        !self.seen.contains(&(key, value)) && !self.compared.iter().any(|it| matters(it))
    }

    fn hear(&mut self, request: &'a Request, response: &'a Response) {
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
                    self.take(result, as_of);
                }
            }
            (Request::Range(range), body) if range.revision > 0 => self.take(body, range.revision),
            (_, body) => self.take(body, before),
        }
    }

    /// What is seen matters even if it is not believed: two writes are not alike if somebody could tell them apart.
    fn watch(&mut self, event: &'a Event, believed: bool) {
        let put = Some(&event.kv).filter(|_| !event.delete);
        for (kv, as_of) in [(put, event.kv.modified), (event.prev.as_ref(), event.kv.modified - 1)]
        {
            match kv {
                Some(kv) if believed => self.add(kv, as_of),
                Some(kv) => _ = self.seen.insert((&kv.key, &kv.value)),
                None => {}
            }
        }
    }

    fn take(&mut self, body: &'a Body, as_of: i64) {
        match body {
            Body::Put { prev } => prev.iter().for_each(|kv| self.add(kv, as_of)),
            Body::Delete { prevs: kvs, .. } | Body::Range { kvs, .. } => {
                kvs.iter().for_each(|kv| self.add(kv, as_of));
            }
            _ => {}
        }
    }

    fn add(&mut self, kv: &'a Kv, as_of: i64) {
        self.seen.insert((&kv.key, &kv.value));
        let facts = self.facts.entry(kv.modified).or_default();
        if !facts.contains(&kv) {
            facts.push(kv);
        }
        extend(&mut self.quiet, &kv.key, kv.modified, as_of);
        extend(&mut self.alive, &kv.key, kv.create, as_of);
    }

    /// Nothing touches a key between two puts of which the second counts one more than the first.
    fn join_versions(&mut self) {
        let facts = self.facts.values().flatten();
        let by_version: BTreeMap<_, i64> =
            facts.map(|kv| ((&*kv.key, kv.create, kv.version), kv.modified)).collect();
        for (&(key, created, version), &modified) in &by_version {
            if let Some(next) = by_version.get(&(key, created, version + 1)) {
                extend(&mut self.quiet, key, modified, next - 1);
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
pub(crate) fn excluded(clues: &Clues<'_>, request: &Request, revision: i64) -> bool {
    let alone = match request {
        Request::Put(put) => Some(put.key.as_str()),
        Request::Delete(delete) if delete.span.end.is_none() => Some(delete.span.key.as_str()),
        _ => None,
    };
    alone.is_some_and(|key| clues.is_quiet(key, revision))
        || !clues.facts(revision).iter().all(|kv| footprint::could_put(request, kv))
}
