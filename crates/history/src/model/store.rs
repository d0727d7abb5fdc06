//! A perfect store.

use std::collections::BTreeMap;

use super::evaluate::evaluate;
use super::keys::{Change, KeyHistory};
use crate::record::{Body, Op, Range, Refusal, Request, Response};

/// A perfect store: what it answers is right by definition. Time does not pass in it; leases expire when told to.
#[derive(Clone, Debug)]
pub struct Model {
    keys: KeyHistory,
    /// Leases and their seconds.
    leases: BTreeMap<i64, i64>,
    compacted: i64,
}

impl Default for Model {
    fn default() -> Model {
        // As in etcd, nothing is compacted at first, and compacting to zero once is no error.
        Model { keys: KeyHistory::default(), leases: BTreeMap::new(), compacted: -1 }
    }
}

impl Model {
    /// The keys and their past.
    #[must_use]
    pub fn keys(&self) -> &KeyHistory {
        &self.keys
    }

    /// Everything before this is gone; -1 if nothing is.
    #[must_use]
    pub fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Does what is asked.
    pub fn apply(&mut self, request: &Request) -> Result<Response, Refusal> {
        self.admit(request)?;
        let (mut body, changes) = evaluate(&self.keys, request)?;
        match request {
            Request::Grant { lease, ttl_s } => {
                self.leases.insert(*lease, *ttl_s);
            }
            Request::Revoke { lease } => {
                self.leases.remove(lease);
            }
            Request::KeepAlive { lease } => {
                body = Body::KeepAlive { ttl_s: self.leases.get(lease).copied().unwrap_or(0) };
            }
            Request::Compact { revision } => self.compacted = *revision,
            Request::Put(_) | Request::Delete(_) | Request::Range(_) | Request::Txn(_) => {}
        }
        self.commit(&changes);
        Ok(Response { revision: self.keys.revision(), body })
    }

    /// What a member that has nothing newer than `revision` would answer to a serializable read of now.
    pub fn stale(&self, range: &Range, revision: i64) -> Result<Response, Refusal> {
        let at = Range { revision, ..range.clone() };
        let (body, _) = evaluate(&self.keys, &Request::Range(at))?;
        Ok(Response { revision, body })
    }

    /// Lets a lease expire: it and its keys are gone, as if revoked.
    pub fn expire(&mut self, lease: i64) {
        if self.leases.contains_key(&lease) {
            self.apply(&Request::Revoke { lease }).expect("the lease is there");
        }
    }

    fn commit(&mut self, changes: &[Change]) {
        if !changes.is_empty() {
            self.keys.apply(changes);
        }
    }

    /// Whether leases and compaction let it happen.
    fn admit(&self, request: &Request) -> Result<(), Refusal> {
        match request {
            Request::Put(put) => self.admit_lease(put.lease),
            Request::Range(range) => self.admit_read(range),
            Request::Txn(txn) => {
                let (body, _) = evaluate(&self.keys, request)?;
                let then = matches!(body, Body::Txn { succeeded: true, .. });
                let ops = if then { &txn.then } else { &txn.otherwise };
                ops.iter().try_for_each(|op| self.admit_op(op))
            }
            Request::Grant { lease, .. } if self.leases.contains_key(lease) => {
                Err(Refusal::LeaseExists)
            }
            Request::Revoke { lease } => self.admit_lease(*lease),
            Request::Compact { revision } if *revision <= self.compacted => Err(Refusal::Compacted),
            Request::Compact { revision } if *revision > self.keys.revision() => {
                Err(Refusal::FutureRevision)
            }
            Request::Delete(_)
            | Request::Grant { .. }
            | Request::KeepAlive { .. }
            | Request::Compact { .. } => Ok(()),
        }
    }

    fn admit_op(&self, op: &Op) -> Result<(), Refusal> {
        match op {
            Op::Put(put) => self.admit_lease(put.lease),
            Op::Delete(_) => Ok(()),
            Op::Range(range) => self.admit_read(range),
        }
    }

    fn admit_lease(&self, lease: i64) -> Result<(), Refusal> {
        let there = lease == 0 || self.leases.contains_key(&lease);
        if there { Ok(()) } else { Err(Refusal::LeaseNotFound) }
    }

    fn admit_read(&self, range: &Range) -> Result<(), Refusal> {
        let gone = range.revision > 0 && range.revision < self.compacted;
        if gone { Err(Refusal::Compacted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Compare, Delete, Put, Relation, Span, Target, Txn};

    fn put(key: &str, value: &str) -> Put {
        Put { key: key.to_owned(), value: value.to_owned(), lease: 0, prev_kv: false }
    }

    fn delete(span: Span) -> Delete {
        Delete { span, prev_kv: false }
    }

    fn reply(model: &mut Model, request: &Request) -> String {
        match model.apply(request) {
            Ok(response) => response.to_string(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn a_txn_sees_what_it_has_done_and_compares_with_what_was_before() {
        let mut model = Model::default();
        model.apply(&Request::Put(put("a", "1"))).unwrap();
        let compare = Compare { span: Span::one("a"), is: Relation::Equal, to: Target::Version(1) };
        let then = vec![
            Op::Delete(delete(Span::one("a"))),
            Op::Put(put("b", "2")),
            Op::Range(Range::now(Span::all())),
        ];
        let txn = Txn { compares: vec![compare], then, otherwise: vec![] };
        assert_eq!(
            reply(&mut model, &Request::Txn(txn.clone())),
            "revision 3: txn succeeded: [1 deleted; put; 1 found: [b=\"2\" (mod 3, created 3, version 1)]]"
        );
        assert_eq!(reply(&mut model, &Request::Txn(txn)), "revision 3: txn failed: []");
    }

    #[test]
    fn a_missing_key_has_no_value_and_zeros() {
        let model = Model::default();
        let compare = |to, is| {
            let txn = Txn {
                compares: vec![Compare { span: Span::one("a"), is, to }],
                then: vec![],
                otherwise: vec![],
            };
            let (body, _) = evaluate(model.keys(), &Request::Txn(txn)).unwrap();
            matches!(body, Body::Txn { succeeded: true, .. })
        };
        assert!(!compare(Target::Value(String::new()), Relation::Equal));
        assert!(!compare(Target::Value(String::new()), Relation::NotEqual));
        assert!(compare(Target::Mod(0), Relation::Equal));
        assert!(compare(Target::Lease(1), Relation::Less));
    }

    #[test]
    fn what_is_deleted_and_put_again_starts_anew() {
        let mut model = Model::default();
        for _ in 0..2 {
            model.apply(&Request::Put(put("a", "1"))).unwrap();
        }
        model.apply(&Request::Delete(delete(Span::all()))).unwrap();
        assert_eq!(
            reply(&mut model, &Request::Delete(delete(Span::all()))),
            "revision 4: 0 deleted"
        );
        model.apply(&Request::Put(put("a", "2"))).unwrap();
        assert_eq!(
            reply(&mut model, &Request::Range(Range::now(Span::one("a")))),
            "revision 5: 1 found: [a=\"2\" (mod 5, created 5, version 1)]"
        );
        let past = Range { revision: 3, ..Range::now(Span::one("a")) };
        assert_eq!(
            reply(&mut model, &Request::Range(past)),
            "revision 5: 1 found: [a=\"1\" (mod 3, created 2, version 2)]"
        );
    }

    #[test]
    fn a_revoked_lease_takes_its_keys_along() {
        let mut model = Model::default();
        let on_lease = Put { lease: 7, ..put("a", "1") };
        assert_eq!(reply(&mut model, &Request::Put(on_lease.clone())), "requested lease not found");
        model.apply(&Request::Grant { lease: 7, ttl_s: 5 }).unwrap();
        model.apply(&Request::Put(on_lease)).unwrap();
        model.apply(&Request::Put(put("b", "2"))).unwrap();
        assert_eq!(reply(&mut model, &Request::Revoke { lease: 7 }), "revision 4: revoked");
        assert_eq!(
            reply(&mut model, &Request::KeepAlive { lease: 7 }),
            "revision 4: renewed for 0 s"
        );
        assert!(model.keys().get("a").is_none() && model.keys().get("b").is_some());
    }

    #[test]
    fn what_is_compacted_cannot_be_read() {
        let mut model = Model::default();
        for value in ["1", "2", "3"] {
            model.apply(&Request::Put(put("a", value))).unwrap();
        }
        model.apply(&Request::Compact { revision: 3 }).unwrap();
        let at = |revision| Request::Range(Range { revision, ..Range::now(Span::all()) });
        assert_eq!(model.apply(&at(2)), Err(Refusal::Compacted));
        assert!(model.apply(&at(3)).is_ok());
        assert_eq!(model.apply(&at(5)), Err(Refusal::FutureRevision));
        assert_eq!(model.apply(&Request::Compact { revision: 3 }), Err(Refusal::Compacted));
    }
}
