//! Attributes of spans, with etcd's names.

use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp,
    TxnRequest, WatchCreateRequest,
};
use trace::Value;

use super::spans::Attributes;

/// The lease of a transaction without a put. Compat: as in etcd.
const NO_PUT: i64 = -1;

pub(crate) fn range(request: &RangeRequest) -> Attributes {
    let mut attributes = range_stream(request);
    attributes.push(("keys_only", Value::Flag(request.keys_only)));
    attributes
}

pub(crate) fn range_stream(request: &RangeRequest) -> Attributes {
    vec![
        ("range_begin", Value::bytes(&request.key)),
        ("range_end", Value::bytes(&request.range_end)),
        ("rev", Value::Number(request.revision)),
        ("limit", Value::Number(request.limit)),
        ("count_only", Value::Flag(request.count_only)),
    ]
}

pub(crate) fn put(request: &PutRequest) -> Attributes {
    vec![("key", Value::bytes(&request.key))]
}

pub(crate) fn delete_range(request: &DeleteRangeRequest) -> Attributes {
    vec![
        ("range_begin", Value::bytes(&request.key)),
        ("range_end", Value::bytes(&request.range_end)),
    ]
}

pub(crate) fn txn(request: &TxnRequest) -> Attributes {
    let TxnRequest { compare, success, failure } = request;
    let compared = compare.iter().map(|compare| &compare.key[..]).find(|key| !key.is_empty());
    vec![
        ("compare_first_key", Value::bytes(compared.unwrap_or_default())),
        ("success_first_key", Value::bytes(first_key(success))),
        ("success_first_type", first_type(success).into()),
        ("success_first_lease", Value::Number(first_lease(success))),
        ("compare_len", Value::count(compare.len())),
        ("success_len", Value::count(success.len())),
        ("failure_len", Value::count(failure.len())),
        ("read_only", Value::Flag(mvcc::txn::is_read_only(request))),
    ]
}

pub(crate) fn compact(request: &CompactionRequest) -> Attributes {
    vec![("is_physical", Value::Flag(request.physical)), ("rev", Value::Number(request.revision))]
}

/// Without the id, which the server may still have to choose.
pub(crate) fn lease_grant(request: &LeaseGrantRequest) -> Attributes {
    vec![("ttl", Value::Number(request.ttl))]
}

pub(crate) fn lease(id: i64) -> Attributes {
    vec![("id", Value::Number(id))]
}

pub(crate) fn watch(request: &WatchCreateRequest) -> Attributes {
    vec![
        ("key", Value::bytes(&request.key)),
        ("range_end", Value::bytes(&request.range_end)),
        ("start_rev", Value::Number(request.start_revision)),
        ("progress_notify", Value::Flag(request.progress_notify)),
        ("prev_kv", Value::Flag(request.prev_kv)),
        ("fragment", Value::Flag(request.fragment)),
    ]
}

/// Returns the first key that is not empty. Compat: as in etcd, nested transactions are skipped.
fn first_key(operations: &[RequestOp]) -> &[u8] {
    let keys = operations.iter().filter_map(|operation| match &operation.request {
        Some(Request::RequestPut(put)) => Some(&put.key[..]),
        Some(Request::RequestRange(range)) => Some(&range.key[..]),
        Some(Request::RequestDeleteRange(delete)) => Some(&delete.key[..]),
        Some(Request::RequestTxn(_)) | None => None,
    });
    keys.into_iter().find(|key| !key.is_empty()).unwrap_or_default()
}

fn first_type(operations: &[RequestOp]) -> &'static str {
    let first = operations.iter().find_map(|operation| operation.request.as_ref());
    match first {
        Some(Request::RequestPut(_)) => "put",
        Some(Request::RequestRange(_)) => "range",
        Some(Request::RequestDeleteRange(_)) => "delete_range",
        Some(Request::RequestTxn(_)) => "txn",
        None => "",
    }
}

fn first_lease(operations: &[RequestOp]) -> i64 {
    let lease = |operation: &RequestOp| match &operation.request {
        Some(Request::RequestPut(put)) => Some(put.lease),
        _ => None,
    };
    operations.iter().find_map(lease).unwrap_or(NO_PUT)
}

#[cfg(test)]
mod tests {
    use proto::etcdserverpb::Compare;

    use super::*;

    fn op(request: Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    #[test]
    fn a_transaction_is_described_by_its_first_keys() {
        let range = RangeRequest { key: "r".into(), ..RangeRequest::default() };
        let put = PutRequest { key: "p".into(), lease: 7, ..PutRequest::default() };
        let compare = |key: &'static str| Compare { key: key.into(), ..Compare::default() };
        let request = TxnRequest {
            compare: vec![compare(""), compare("c")],
            success: vec![op(Request::RequestRange(range)), op(Request::RequestPut(put))],
            failure: Vec::new(),
        };
        let expected = [
            ("compare_first_key", Value::bytes(b"c")),
            ("success_first_key", Value::bytes(b"r")),
            ("success_first_type", "range".into()),
            ("success_first_lease", Value::Number(7)),
            ("compare_len", Value::Number(2)),
            ("success_len", Value::Number(2)),
            ("failure_len", Value::Number(0)),
            ("read_only", Value::Flag(false)),
        ];
        assert_eq!(txn(&request), expected);
    }

    #[test]
    fn an_empty_transaction_has_default_attributes() {
        let attributes = txn(&TxnRequest::default());
        assert_eq!(attributes[1], ("success_first_key", Value::bytes(b"")));
        assert_eq!(attributes[2], ("success_first_type", "".into()));
        assert_eq!(attributes[3], ("success_first_lease", Value::Number(NO_PUT)));
    }
}
