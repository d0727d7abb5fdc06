//! The keys that a request may read or change, whatever the state.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{History, Kv, Op, Put, Request, Span};

/// For each lease, the keys that any request would attach to it.
#[derive(Debug, Default)]
pub(crate) struct LeasedKeys {
    by_lease: BTreeMap<i64, Vec<Span>>,
    all: BTreeSet<Span>,
}

impl LeasedKeys {
    pub(crate) fn new(history: &History) -> LeasedKeys {
        let mut by_lease: BTreeMap<i64, Vec<Span>> = BTreeMap::new();
        for put in history.operations.iter().flat_map(|operation| puts(&operation.request)) {
            let spans = by_lease.entry(put.lease).or_default();
            if put.lease != 0 && !spans.iter().any(|span| span.key == put.key) {
                spans.push(Span::one(&put.key));
            }
        }
        by_lease.remove(&0);
        let all = by_lease.values().flatten().cloned().collect();
        LeasedKeys { by_lease, all }
    }

    /// Returns the keys of one lease.
    fn of(&self, lease: i64) -> &[Span] {
        self.by_lease.get(&lease).map_or(&[], Vec::as_slice)
    }

    /// Returns the keys of all leases.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Span> {
        self.all.iter()
    }
}

/// Returns every put in a request, in both branches of a transaction.
pub(crate) fn puts(request: &Request) -> impl Iterator<Item = &Put> {
    let alone = match request {
        Request::Put(put) => Some(put),
        _ => None,
    };
    let inside = ops(request).filter_map(|op| match op {
        Op::Put(put) => Some(put),
        Op::Delete(_) | Op::Range(_) => None,
    });
    alone.into_iter().chain(inside)
}

/// Returns every operation of a transaction, in both branches.
pub(crate) fn ops(request: &Request) -> impl Iterator<Item = &Op> {
    let (then, otherwise) = match request {
        Request::Txn(txn) => (txn.then.as_slice(), txn.otherwise.as_slice()),
        _ => (&[][..], &[][..]),
    };
    then.iter().chain(otherwise)
}

/// Returns the keys that a request may change.
pub(crate) fn writes(request: &Request, leased: &LeasedKeys) -> Vec<Span> {
    match request {
        Request::Put(put) => vec![Span::one(&put.key)],
        Request::Delete(delete) => vec![delete.span.clone()],
        Request::Revoke { lease } => leased.of(*lease).to_vec(),
        Request::Txn(_) => ops(request).filter_map(written).collect(),
        _ => Vec::new(),
    }
}

fn written(op: &Op) -> Option<Span> {
    match op {
        Op::Put(put) => Some(Span::one(&put.key)),
        Op::Delete(delete) => Some(delete.span.clone()),
        Op::Range(_) => None,
    }
}

/// Returns the keys that a request may change, and the keys that its effect depends on.
pub(crate) fn touches(request: &Request, leased: &LeasedKeys) -> Vec<Span> {
    let mut spans = writes(request, leased);
    match request {
        Request::Range(range) => spans.push(range.span.clone()),
        Request::Txn(txn) => {
            spans.extend(txn.compares.iter().map(|compare| compare.span.clone()));
            spans.extend(ops(request).filter_map(|op| match op {
                Op::Range(range) => Some(range.span.clone()),
                Op::Put(_) | Op::Delete(_) => None,
            }));
        }
        _ => {}
    }
    spans
}

/// Reports whether a request contains a put of exactly this key, value and lease.
pub(crate) fn could_put(request: &Request, kv: &Kv) -> bool {
    puts(request).any(|put| put.key == kv.key && put.value == kv.value && put.lease == kv.lease)
}
