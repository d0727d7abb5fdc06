//! Key prefixes: `--namespace`.
//!
//! ```text
//!   client        namespace "app/"       member
//!   a             ──────────────────►    app/a
//!   [a, c)                               [app/a, app/c)
//!   [a, \0)       to the last key        [app/a, app0)
//!   a             ◄──────────────────    app/a
//! ```
//!
//! Clients see neither the prefix nor keys outside of it. An empty namespace changes nothing.

use bytes::{BufMut as _, Bytes, BytesMut};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest,
    RangeResponse, RequestOp, ResponseOp, TxnRequest, TxnResponse, WatchResponse,
};
use proto::mvccpb::KeyValue;

/// The range end that means "to the last key".
pub(crate) const NO_END: &[u8] = b"\0";

/// The prefix of all keys of the clients of this proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespace {
    prefix: Bytes,
    /// The end of the range of all keys with the prefix.
    end: Bytes,
}

impl Namespace {
    pub(crate) fn new(prefix: &str) -> Namespace {
        let prefix = Bytes::copy_from_slice(prefix.as_bytes());
        Namespace { end: after(&prefix), prefix }
    }

    /// Returns whether there is no prefix.
    pub(crate) fn is_empty(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Adds the prefix to a key.
    pub(crate) fn key(&self, key: &Bytes) -> Bytes {
        if self.is_empty() {
            return key.clone();
        }
        let mut prefixed = BytesMut::with_capacity(self.prefix.len() + key.len());
        prefixed.put_slice(&self.prefix);
        prefixed.put_slice(key);
        prefixed.freeze()
    }

    /// Adds the prefix to the end of a range.
    pub(crate) fn range_end(&self, end: &Bytes) -> Bytes {
        match &end[..] {
            b"" => Bytes::new(),
            NO_END if !self.is_empty() => self.end.clone(),
            _ => self.key(end),
        }
    }

    /// Removes the prefix from a key; none if the key is outside of the namespace.
    pub(crate) fn strip(&self, key: &Bytes) -> Option<Bytes> {
        key.starts_with(&self.prefix).then(|| key.slice(self.prefix.len()..))
    }

    /// Prefixes the keys of a request.
    pub(crate) fn range(&self, request: &mut RangeRequest) {
        (request.key, request.range_end) =
            (self.key(&request.key), self.range_end(&request.range_end));
    }

    /// Prefixes the key of a request.
    pub(crate) fn put(&self, request: &mut PutRequest) {
        request.key = self.key(&request.key);
    }

    /// Prefixes the keys of a request.
    pub(crate) fn delete_range(&self, request: &mut DeleteRangeRequest) {
        (request.key, request.range_end) =
            (self.key(&request.key), self.range_end(&request.range_end));
    }

    /// Prefixes all keys of a transaction, at every depth.
    pub(crate) fn txn(&self, request: &mut TxnRequest) {
        if self.is_empty() {
            return;
        }
        request.compare.iter_mut().for_each(|compare| self.compare(compare));
        request.success.iter_mut().chain(&mut request.failure).for_each(|op| self.op(op));
    }

    fn compare(&self, compare: &mut Compare) {
        (compare.key, compare.range_end) =
            (self.key(&compare.key), self.range_end(&compare.range_end));
    }

    fn op(&self, op: &mut RequestOp) {
        match &mut op.request {
            Some(Request::RequestRange(range)) => self.range(range),
            Some(Request::RequestPut(put)) => self.put(put),
            Some(Request::RequestDeleteRange(delete)) => self.delete_range(delete),
            Some(Request::RequestTxn(txn)) => self.txn(txn),
            None => {}
        }
    }

    /// Removes the prefix from the keys of a response.
    pub(crate) fn range_response(&self, response: &mut RangeResponse) {
        self.strip_all(response.kvs.iter_mut());
    }

    /// Removes the prefix from the key of a response.
    pub(crate) fn put_response(&self, response: &mut PutResponse) {
        self.strip_all(response.prev_kv.iter_mut());
    }

    /// Removes the prefix from the keys of a response.
    pub(crate) fn delete_response(&self, response: &mut DeleteRangeResponse) {
        self.strip_all(response.prev_kvs.iter_mut());
    }

    /// Removes the prefix from all keys of a response, at every depth.
    pub(crate) fn txn_response(&self, response: &mut TxnResponse) {
        if !self.is_empty() {
            response.responses.iter_mut().for_each(|op| self.op_response(op));
        }
    }

    fn op_response(&self, op: &mut ResponseOp) {
        match &mut op.response {
            Some(Response::ResponseRange(range)) => self.range_response(range),
            Some(Response::ResponsePut(put)) => self.put_response(put),
            Some(Response::ResponseDeleteRange(delete)) => self.delete_response(delete),
            Some(Response::ResponseTxn(txn)) => self.txn_response(txn),
            None => {}
        }
    }

    /// Removes the prefix from the keys of events.
    pub(crate) fn watch_response(&self, response: &mut WatchResponse) {
        let kvs = response
            .events
            .iter_mut()
            .flat_map(|event| event.kv.iter_mut().chain(event.prev_kv.iter_mut()));
        self.strip_all(kvs);
    }

    fn strip_all<'a>(&self, kvs: impl Iterator<Item = &'a mut KeyValue>) {
        if self.is_empty() {
            return;
        }
        for kv in kvs {
            // A member answers with keys of the requested range.
            kv.key = self.strip(&kv.key).unwrap_or_default();
        }
    }
}

/// Returns the first key after all keys with a prefix.
fn after(prefix: &Bytes) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end.into();
        }
    }
    Bytes::from_static(NO_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(prefix: &[u8], key: &str, end: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let prefix = Bytes::copy_from_slice(prefix);
        let namespace = Namespace { end: after(&prefix), prefix };
        let key = namespace.key(&Bytes::copy_from_slice(key.as_bytes()));
        (key.to_vec(), namespace.range_end(&Bytes::copy_from_slice(end)).to_vec())
    }

    /// The cases are those of etcd's own test, except that the end of a range of a prefix that
    /// ends with 0xff is shorter here. The range is the same.
    #[test]
    fn ranges_are_prefixed_as_in_etcd() {
        let of = |key: &[u8], end: &[u8]| (key.to_vec(), end.to_vec());
        assert_eq!(interval(b"pfx/", "a", b""), of(b"pfx/a", b""));
        assert_eq!(interval(b"pfx/", "abc", b"def"), of(b"pfx/abc", b"pfx/def"));
        assert_eq!(interval(b"pfx/", "abc", b"\0"), of(b"pfx/abc", b"pfx0"));
        assert_eq!(interval(b"\xff\xff", "abc", b"\0"), of(b"\xff\xffabc", b"\0"));
        assert_eq!(interval(b"a\xff", "x", b"\0"), of(b"a\xffx", b"b"));
        assert_eq!(interval(b"", "x", b"\0"), of(b"x", b"\0"));
    }

    #[test]
    fn transactions_are_prefixed_at_every_depth() {
        let namespace = Namespace::new("n/");
        let put = PutRequest { key: "k".into(), ..PutRequest::default() };
        let inner = TxnRequest {
            success: vec![RequestOp { request: Some(Request::RequestPut(put)) }],
            ..TxnRequest::default()
        };
        let compare = Compare { key: "c".into(), range_end: "d".into(), ..Compare::default() };
        let mut txn = TxnRequest {
            compare: vec![compare],
            failure: vec![RequestOp { request: Some(Request::RequestTxn(inner)) }],
            ..TxnRequest::default()
        };
        namespace.txn(&mut txn);
        assert_eq!(
            (&txn.compare[0].key[..], &txn.compare[0].range_end[..]),
            (&b"n/c"[..], &b"n/d"[..])
        );
        let Some(Request::RequestTxn(inner)) = &txn.failure[0].request else { panic!("a txn") };
        let Some(Request::RequestPut(put)) = &inner.success[0].request else { panic!("a put") };
        assert_eq!(put.key, "n/k");
    }

    #[test]
    fn a_key_outside_of_the_namespace_has_no_name_inside() {
        let namespace = Namespace::new("n/");
        assert_eq!(namespace.strip(&"n/k".into()), Some("k".into()));
        assert_eq!(namespace.strip(&"m/k".into()), None);
        assert_eq!(Namespace::default().strip(&"m/k".into()), Some("m/k".into()));
    }
}
