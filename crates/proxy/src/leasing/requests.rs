//! The transactions of the leasing protocol. etcd's leasing clients send the same kind, so both can
//! share a prefix.
//!
//! ```text
//!   acquire    if    l/k absent, k attached to no lease
//!              then  get k, put l/k ""                      else  get k, get l/k
//!   write      if    l/a created at 7, l/b absent           7: this proxy owns a, but not b
//!              then  the write, get a                       else  get l/a, get l/b
//!   revoke     if    l/k created at 7                then  put l/k "REVOKE", keeping its lease
//!   release    if    l/k created at 7                then  delete l/k
//! ```
//!
//! The creation revision names one ownership: a transaction that arrives late, after the key was
//! released and acquired again, changes nothing.

use bytes::Bytes;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

use super::KeyRange;
use crate::namespace::{NO_END, Namespace};

/// The value of a leasing key whose owner has to release it. As in etcd.
pub(super) const REVOKE: &[u8] = b"REVOKE";

/// The names of leasing keys, and the transactions about them.
#[derive(Debug)]
pub(super) struct LeasingKeys {
    /// Leasing keys are named as keys in a namespace are.
    prefix: Namespace,
    /// The range of all leasing keys.
    all: KeyRange,
}

/// A key that a transaction writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GuardedKey {
    pub(super) key: Bytes,
    /// The creation revision of its leasing key if this proxy owns it; 0 if it must be absent.
    pub(super) owned_since: i64,
}

impl LeasingKeys {
    pub(super) fn new(prefix: &str) -> LeasingKeys {
        let prefix = Namespace::new(prefix);
        let end = prefix.range_end(&Bytes::from_static(NO_END));
        let all = KeyRange { key: prefix.key(&Bytes::new()), end };
        LeasingKeys { prefix, all }
    }

    /// Returns the leasing key of a key.
    pub(super) fn of(&self, key: &Bytes) -> Bytes {
        self.prefix.key(key)
    }

    /// Returns the key of a leasing key.
    pub(super) fn owned_by(&self, leasing_key: &Bytes) -> Option<Bytes> {
        self.prefix.strip(leasing_key)
    }

    /// Returns the range of all leasing keys.
    pub(super) fn all(&self) -> &KeyRange {
        &self.all
    }

    /// Returns whether a key is a leasing key itself. Such a key is not owned: other proxies write
    /// it without a revocation.
    pub(super) fn contain(&self, key: &Bytes) -> bool {
        self.prefix.strip(key).is_some()
    }

    /// Returns the leasing keys that must not exist when a range is deleted: those of its keys,
    /// and all of them if the range contains leasing keys.
    pub(super) fn of_range(&self, range: &KeyRange) -> KeyRange {
        let ends_behind = &range.end[..] == NO_END || range.end > self.all.key;
        let begins_before = &self.all.end[..] == NO_END || range.key < self.all.end;
        if ends_behind && begins_before {
            return self.all.clone();
        }
        KeyRange { key: self.of(&range.key), end: self.prefix.range_end(&range.end) }
    }

    /// Acquires a key, and reads it.
    pub(super) fn acquire(&self, key: &Bytes, lease: i64) -> TxnRequest {
        let leasing_key = self.of(key);
        let no_lease = Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Lease.into(),
            key: key.clone(),
            target_union: Some(TargetUnion::Lease(0)),
            ..Compare::default()
        };
        let put = PutRequest { key: leasing_key.clone(), lease, ..PutRequest::default() };
        TxnRequest {
            compare: vec![created_at(&leasing_key, 0), no_lease],
            success: vec![get(key), op(Request::RequestPut(put))],
            failure: vec![get(key), get(&leasing_key)],
        }
    }

    /// Guards a write: nothing is written unless all keys are owned as expected. On success, also
    /// reads `read_back`; otherwise reads the leasing keys.
    pub(super) fn guarded(
        &self,
        write: RequestOp,
        keys: &[GuardedKey],
        ranges: &[KeyRange],
        read_back: &[Bytes],
    ) -> TxnRequest {
        let points = keys.iter().map(|key| created_at(&self.of(&key.key), key.owned_since));
        let ranges = ranges.iter().map(|range| none_in(&self.of_range(range)));
        TxnRequest {
            compare: points.chain(ranges).collect(),
            success: std::iter::once(write).chain(read_back.iter().map(get)).collect(),
            failure: keys.iter().map(|key| get(&self.of(&key.key))).collect(),
        }
    }

    /// Releases a key.
    pub(super) fn release(&self, key: &Bytes, owned_since: i64) -> TxnRequest {
        let key = self.of(key);
        let compare = vec![created_at(&key, owned_since)];
        let delete = DeleteRangeRequest { key, ..DeleteRangeRequest::default() };
        let success = vec![op(Request::RequestDeleteRange(delete))];
        TxnRequest { compare, success, failure: Vec::new() }
    }
}

/// Asks the owner of a leasing key to release it.
pub(super) fn revoke(leasing_key: &Bytes, owned_since: i64) -> TxnRequest {
    let put = PutRequest {
        key: leasing_key.clone(),
        value: Bytes::from_static(REVOKE),
        ignore_lease: true,
        ..PutRequest::default()
    };
    TxnRequest {
        compare: vec![created_at(leasing_key, owned_since)],
        success: vec![op(Request::RequestPut(put))],
        failure: Vec::new(),
    }
}

/// Compares the creation revision of a key; 0 if the key does not exist.
fn created_at(key: &Bytes, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        ..Compare::default()
    }
}

/// Requires that a range has no keys.
fn none_in(range: &KeyRange) -> Compare {
    Compare { range_end: range.end.clone(), ..created_at(&range.key, 0) }
}

fn get(key: &Bytes) -> RequestOp {
    op(Request::RequestRange(RangeRequest { key: key.clone(), ..RangeRequest::default() }))
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &'static str, end: &'static str) -> KeyRange {
        KeyRange { key: key.into(), end: end.into() }
    }

    #[test]
    fn leasing_keys_of_a_range_are_a_range() {
        let keys = LeasingKeys::new("l/");
        assert_eq!(keys.of_range(&range("a", "c")), range("l/a", "l/c"));
        assert_eq!(keys.of_range(&range("m", "\0")), range("l/m", "l0"), "to the last key");
        assert_eq!(keys.owned_by(&"l/a".into()), Some("a".into()));
    }

    #[test]
    fn a_range_with_leasing_keys_needs_all_of_them_released() {
        let keys = LeasingKeys::new("l/");
        for (key, end) in [("\0", "\0"), ("a", "m"), ("l/k", "l/z"), ("l/k", "\0"), ("a", "l/k")] {
            assert_eq!(keys.of_range(&range(key, end)), range("l/", "l0"), "[{key:?}, {end:?})");
        }
        for (key, end) in [("a", "l/"), ("l0", "z"), ("m", "\0")] {
            assert_ne!(keys.of_range(&range(key, end)), range("l/", "l0"), "[{key:?}, {end:?})");
        }
    }

    #[test]
    fn a_write_is_guarded_by_each_ownership() {
        let keys = LeasingKeys::new("l/");
        let guarded = [("a", 7), ("b", 0)]
            .map(|(key, owned_since)| GuardedKey { key: key.into(), owned_since });
        let txn = keys.guarded(get(&"w".into()), &guarded, &[range("c", "e")], &["a".into()]);
        let compares: Vec<_> = txn
            .compare
            .iter()
            .map(|compare| (&compare.key[..], &compare.range_end[..], compare.target_union.clone()))
            .collect();
        let since = |revision| Some(TargetUnion::CreateRevision(revision));
        assert_eq!(
            compares,
            [
                (&b"l/a"[..], &b""[..], since(7)),
                (b"l/b", b"", since(0)),
                (b"l/c", b"l/e", since(0))
            ]
        );
        assert_eq!(txn.success, [get(&"w".into()), get(&"a".into())]);
        assert_eq!(txn.failure, [get(&"l/a".into()), get(&"l/b".into())]);
    }
}
