//! Evaluates a request against a state, without changing it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::keys::{Change, KeyHistory};
use crate::record::{
    Body, Compare, Delete, Kv, Op, Put, Range, Refusal, Relation, Request, Span, Target, Txn,
};

/// Returns the response that `request` would get as the next request, and the changes it would
/// make: none, or all of them at the next revision.
///
/// Ignores whether leases exist and whether revisions are compacted.
pub(crate) fn evaluate(
    keys: &KeyHistory,
    request: &Request,
) -> Result<(Body, Vec<Change>), Refusal> {
    let mut draft = Draft { keys, changes: Vec::new() };
    let body = match request {
        Request::Put(put) => draft.put(put),
        Request::Delete(delete) => draft.delete(delete),
        Request::Range(range) => draft.range(range)?,
        Request::Txn(txn) => draft.txn(txn)?,
        Request::Revoke { lease } => draft.revoke(*lease),
        Request::Grant { lease, ttl_s } => Body::Grant { lease: *lease, ttl_s: *ttl_s },
        Request::KeepAlive { .. } => Body::KeepAlive { ttl_s: 0 },
        Request::Compact { .. } => Body::Compact,
    };
    Ok((body, draft.changes))
}

/// A request under evaluation, with the changes it has made so far.
struct Draft<'a> {
    keys: &'a KeyHistory,
    changes: Vec<Change>,
}

impl Draft<'_> {
    /// Returns the value of `key` as this request sees it.
    fn get(&self, key: &str) -> Option<&Arc<Kv>> {
        match self.changes.iter().rev().find(|change| change.key == key) {
            Some(change) => change.after.as_ref(),
            None => self.keys.get(key),
        }
    }

    /// Returns the keys of `span` as this request sees them.
    fn select(&self, span: &Span) -> Vec<Arc<Kv>> {
        let stored = self.keys.range_at(span, self.keys.revision());
        if self.changes.is_empty() {
            return stored.cloned().collect();
        }
        let mut found: BTreeMap<&str, &Arc<Kv>> = stored.map(|kv| (kv.key.as_str(), kv)).collect();
        for change in self.changes.iter().filter(|change| span.contains(&change.key)) {
            match &change.after {
                Some(kv) => found.insert(&change.key, kv),
                None => found.remove(change.key.as_str()),
            };
        }
        found.into_values().cloned().collect()
    }

    fn put(&mut self, put: &Put) -> Body {
        let before = self.get(&put.key).cloned();
        let modified = self.keys.revision() + 1;
        let kv = Kv {
            key: put.key.clone(),
            value: put.value.clone(),
            create: before.as_ref().map_or(modified, |kv| kv.create),
            modified,
            version: before.as_ref().map_or(1, |kv| kv.version + 1),
            lease: put.lease,
        };
        let prev = before.as_deref().filter(|_| put.prev_kv).cloned();
        self.changes.push(Change { key: put.key.clone(), before, after: Some(Arc::new(kv)) });
        Body::Put { prev }
    }

    fn delete(&mut self, delete: &Delete) -> Body {
        let removed = self.select(&delete.span);
        let prevs = if delete.prev_kv { owned(&removed) } else { Vec::new() };
        let deleted = count(removed.len());
        self.remove(removed);
        Body::Delete { deleted, prevs }
    }

    fn revoke(&mut self, lease: i64) -> Body {
        let removed = self.keys.attached(lease).cloned().collect();
        self.remove(removed);
        Body::Revoke
    }

    fn remove(&mut self, removed: Vec<Arc<Kv>>) {
        self.changes.extend(removed.into_iter().map(|kv| Change {
            key: kv.key.clone(),
            before: Some(kv),
            after: None,
        }));
    }

    fn range(&self, range: &Range) -> Result<Body, Refusal> {
        let mut found = match range.revision {
            ..=0 => self.select(&range.span),
            at if at > self.keys.revision() => return Err(Refusal::FutureRevision),
            at => self.keys.range_at(&range.span, at).cloned().collect(),
        };
        let total = found.len();
        if range.count_only {
            found.clear();
        } else if range.limit > 0 {
            found.truncate(usize::try_from(range.limit).unwrap_or(usize::MAX));
        }
        let more = !range.count_only && found.len() < total;
        Ok(Body::Range { kvs: owned(&found), count: count(total), more })
    }

    fn txn(&mut self, txn: &Txn) -> Result<Body, Refusal> {
        let succeeded = txn.compares.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { &txn.then } else { &txn.otherwise };
        let results = ops.iter().map(|op| self.op(op)).collect::<Result<_, _>>()?;
        Ok(Body::Txn { succeeded, results })
    }

    fn op(&mut self, op: &Op) -> Result<Body, Refusal> {
        Ok(match op {
            Op::Put(put) => self.put(put),
            Op::Delete(delete) => self.delete(delete),
            Op::Range(range) => self.range(range)?,
        })
    }

    /// Reports whether a compare holds. All compares are evaluated before the first change.
    fn holds(&self, compare: &Compare) -> bool {
        let found = self.select(&compare.span);
        match found.as_slice() {
            [] => relates(compare, None),
            kvs => kvs.iter().all(|kv| relates(compare, Some(kv))),
        }
    }
}

/// Reports whether `kv`, or its absence, satisfies `compare`.
pub(crate) fn relates(compare: &Compare, kv: Option<&Kv>) -> bool {
    let number = |of: fn(&Kv) -> i64| kv.map_or(0, of);
    let order = match &compare.to {
        Target::Value(value) => match kv {
            None => return false,
            Some(kv) => kv.value.as_str().cmp(value),
        },
        Target::Version(to) => number(|kv| kv.version).cmp(to),
        Target::Create(to) => number(|kv| kv.create).cmp(to),
        Target::Mod(to) => number(|kv| kv.modified).cmp(to),
        Target::Lease(to) => number(|kv| kv.lease).cmp(to),
    };
    match compare.is {
        Relation::Equal => order.is_eq(),
        Relation::NotEqual => order.is_ne(),
        Relation::Greater => order.is_gt(),
        Relation::Less => order.is_lt(),
    }
}

fn owned(kvs: &[Arc<Kv>]) -> Vec<Kv> {
    kvs.iter().map(|kv| Kv::clone(kv)).collect()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).expect("a number of keys in memory fits in an i64")
}
