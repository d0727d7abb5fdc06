//! The reference store.

use std::collections::BTreeMap;

use super::evaluate::evaluate;
use super::keys::{Change, KeyHistory};
use crate::record::{Body, Op, Range, Refusal, Request, Response};

/// The reference store: its responses are correct by definition. It has no clock; leases expire
/// when [`Model::expire`] is called.
#[derive(Clone, Debug)]
pub struct Model {
    keys: KeyHistory,
    /// The TTL of each lease, in seconds.
    leases: BTreeMap<i64, i64>,
    compacted: i64,
}

impl Default for Model {
    fn default() -> Model {
        // Compat: as in etcd, the first compaction to revision 0 succeeds, so -1 means that nothing
        // is compacted.
        Model { keys: KeyHistory::default(), leases: BTreeMap::new(), compacted: -1 }
    }
}

impl Model {
    /// Returns the keys with all their revisions.
    #[must_use]
    pub fn keys(&self) -> &KeyHistory {
        &self.keys
    }

    /// Returns the compacted revision, or -1 before the first compaction.
    #[must_use]
    pub fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Executes a request.
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

    /// Returns the response of a member at `revision` to a serializable read without a revision.
    pub fn stale(&self, range: &Range, revision: i64) -> Result<Response, Refusal> {
        let at = Range { revision, ..range.clone() };
        let (body, _) = evaluate(&self.keys, &Request::Range(at))?;
        Ok(Response { revision, body })
    }

    /// Expires a lease: revokes it together with its keys.
    pub fn expire(&mut self, lease: i64) {
        if self.leases.contains_key(&lease) {
            self.apply(&Request::Revoke { lease })
                .expect("only a missing lease is refused, and this one exists");
        }
    }

    fn commit(&mut self, changes: &[Change]) {
        if !changes.is_empty() {
            self.keys.apply(changes);
        }
    }

    /// Refuses a request on a missing lease or a compacted revision.
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
        let exists = lease == 0 || self.leases.contains_key(&lease);
        if exists { Ok(()) } else { Err(Refusal::LeaseNotFound) }
    }

    fn admit_read(&self, range: &Range) -> Result<(), Refusal> {
        let is_compacted = range.revision > 0 && range.revision < self.compacted;
        if is_compacted { Err(Refusal::Compacted) } else { Ok(()) }
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
    fn a_txn_reads_its_own_writes_and_compares_the_state_before_it() {
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
    fn a_missing_key_compares_as_zero_and_fails_value_compares() {
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
    fn a_key_put_after_a_delete_starts_at_version_one() {
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
    fn revoking_a_lease_deletes_its_keys() {
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
    fn compacted_revisions_cannot_be_read() {
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
