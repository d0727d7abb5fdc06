use super::*;
use crate::etcdserverpb::response_op::Response;
use crate::etcdserverpb::{
    PutRequest, PutResponse, RequestHeader, ResponseHeader, ResponseOp, TxnResponse,
};

/// The deepest transactions of the log: with a put in the innermost, and with an empty innermost.
const DEEPEST_WITH_PUT: usize = 4_999;
const DEEPEST: usize = 5_000;

/// Runs a test with the stack of a thread that handles transactions.
fn with_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(test).unwrap();
    thread.join().unwrap();
}

fn put(key: &str) -> RequestOp {
    let put = PutRequest { key: key.to_owned().into(), ..PutRequest::default() };
    RequestOp { request: Some(Request::RequestPut(put)) }
}

/// Nests transactions around one, with a comparison and a put beside each, in either branch.
fn nested(innermost: TxnRequest, depth: usize) -> TxnRequest {
    (1..depth).fold(innermost, |txn, level| {
        let inner = vec![RequestOp { request: Some(Request::RequestTxn(txn)) }];
        let compare = vec![Compare { key: "c".into(), ..Compare::default() }];
        let other = vec![put(&level.to_string())];
        let (success, failure) = if level % 3 == 0 { (inner, other) } else { (other, inner) };
        TxnRequest { compare, success, failure }
    })
}

fn with_put() -> TxnRequest {
    TxnRequest { success: vec![put("innermost")], ..TxnRequest::default() }
}

fn request(txn: TxnRequest) -> InternalRaftRequest {
    let header = Some(RequestHeader { id: 7, ..RequestHeader::default() });
    InternalRaftRequest { header, txn: Some(txn), ..InternalRaftRequest::default() }
}

/// Encodes as prost does, which takes long for deep messages.
fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn encoded_txn(txn: &TxnRequest) -> Bytes {
    let mut reversed = Vec::new();
    txn_reversed(txn, &mut reversed);
    reversed.reverse();
    reversed.into()
}

fn encoded_request(mut request: InternalRaftRequest) -> Bytes {
    encode_request(&mut request).into()
}

#[test]
fn transactions_decode_at_every_depth() {
    with_stack(|| {
        for depth in [1, 2, 49, 50, 51, 52, 100, 128, 129, 1000, DEEPEST_WITH_PUT] {
            let txn = nested(with_put(), depth);
            let bytes = encoded_txn(&txn);
            assert_eq!(NestedTxn::decode(bytes.clone()).unwrap().0, txn, "depth {depth}");
            assert!(decode_txn(bytes, LEVELS_MAX - 1).is_ok_and(|it| it == txn));
            let mut request = request(txn);
            let bytes = Bytes::from(encode_request(&mut request));
            if depth <= 128 {
                assert_eq!(bytes, encoded(&request), "depth {depth}");
            }
            assert_eq!(decode_request(bytes.clone()).unwrap(), request, "depth {depth}");
            assert!(decode_deep_request(bytes).is_ok_and(|it| it == request));
        }
    });
}

#[test]
fn the_bound_is_that_of_the_log() {
    with_stack(|| {
        let taken = |txn: TxnRequest| {
            let from_client = NestedTxn::decode(encoded_txn(&txn)).is_ok();
            let in_log = decode_request(encoded_request(request(txn))).is_ok();
            assert_eq!(from_client, in_log);
            in_log
        };
        assert!(taken(nested(with_put(), DEEPEST_WITH_PUT)));
        assert!(!taken(nested(with_put(), DEEPEST_WITH_PUT + 1)));
        assert!(taken(nested(TxnRequest::default(), DEEPEST)));
        assert!(!taken(nested(TxnRequest::default(), DEEPEST + 1)));
        // A client's request of 10,000 levels, which is one of 10,001 in the log.
        let compare = vec![Compare { key: "c".into(), ..Compare::default() }];
        assert!(!taken(nested(TxnRequest { compare, ..TxnRequest::default() }, DEEPEST)));
    });
}

#[test]
fn no_depth_exhausts_the_stack_of_the_decoder() {
    // The smallest nested transactions that fit into the default of --max-request-bytes, wrapped
    // inside out. On the small stack of a test.
    let mut parts = Vec::new();
    let mut length = 0;
    while length < 3 << 19 {
        for tag in [0x22, 0x12] {
            let mut head = vec![tag];
            prost::encoding::encode_varint(length as u64, &mut head);
            length += head.len();
            parts.push(head);
        }
    }
    let bytes = Bytes::from(parts.iter().rev().flatten().copied().collect::<Vec<_>>());
    assert!(NestedTxn::decode(bytes.clone()).is_err());
    assert!(decode_deep_request(bytes).is_err());
}

#[test]
fn a_truncated_transaction_decodes_only_if_cut_between_fields() {
    let bytes = encoded(&request(nested(with_put(), 60)));
    for len in 1..bytes.len() {
        if let Ok(request) = decode_deep_request(bytes.slice(..len)) {
            assert_eq!(request.encoded_len(), len, "cut between two fields");
        }
    }
}

#[test]
fn unknown_fields_are_dropped_and_known_ones_of_another_type_refused() {
    let deep = nested(with_put(), 60);
    let with = |extra: &[u8]| NestedTxn::decode([&encoded(&deep)[..], extra].concat().as_slice());
    for unknown in [&b"\x98\x06\x01"[..], b"\x9a\x06\x01k", b"\x9d\x06abcd", b"\x99\x06abcdefgh"] {
        assert_eq!(with(unknown).unwrap().0, deep, "{unknown:x?}");
    }
    for other in [&b"\x08\x01"[..], b"\x10\x01", b"\x1d\x01\x02\x03\x04", b"\x12\x05k", b"\x0b"] {
        assert!(with(other).is_err(), "{other:x?}");
    }
}

#[test]
fn a_request_decodes_around_its_transaction() {
    with_stack(|| {
        let deep = request(nested(with_put(), DEEPEST_WITH_PUT));
        let around = decode_request_around_txn(encoded_request(deep.clone())).unwrap();
        assert_eq!(around, InternalRaftRequest { txn: None, ..deep });
        let flat = request(with_put());
        assert_eq!(decode_request_around_txn(encoded(&flat)).unwrap(), flat);
        assert!(decode_request_around_txn(Bytes::from_static(b"\xff")).is_err());
        assert!(decode_request_around_txn(Bytes::from_static(b"\x0a\x05k")).is_err());
    });
}

/// Nests responses around one to a put, with another put beside each.
fn nested_response(depth: usize) -> TxnResponse {
    let op = |response| ResponseOp { response: Some(response) };
    let header = |revision| Some(ResponseHeader { revision, ..ResponseHeader::default() });
    let put = |revision| {
        op(Response::ResponsePut(PutResponse { header: header(revision), prev_kv: None }))
    };
    let innermost = TxnResponse { header: header(1), succeeded: true, responses: vec![put(1)] };
    (2..).take(depth - 1).fold(innermost, |txn, level| {
        let responses = vec![put(level), op(Response::ResponseTxn(txn)), put(level)];
        TxnResponse { header: header(level), succeeded: level % 3 == 0, responses }
    })
}

#[test]
fn responses_decode_and_encode_at_every_depth() {
    with_stack(|| {
        for depth in [1, 2, 49, 50, 51, 128, 1000, DEEPEST_WITH_PUT] {
            let response = NestedTxnResponse(nested_response(depth));
            let bytes = encoded(&response);
            if depth <= 128 {
                assert_eq!(bytes, encoded(&response.0), "depth {depth}");
            }
            assert_eq!(bytes.len(), response.encoded_len(), "depth {depth}");
            assert_eq!(NestedTxnResponse::decode(bytes).unwrap(), response, "depth {depth}");
        }
        let beyond = encoded(&NestedTxnResponse(nested_response(DEEPEST_WITH_PUT + 2)));
        assert!(NestedTxnResponse::decode(beyond).is_err());
    });
}

#[test]
fn a_damaged_response_is_refused_or_shorter() {
    let bytes = encoded(&nested_response(60));
    for len in 1..bytes.len() {
        if let Ok(NestedTxnResponse(response)) = NestedTxnResponse::decode(bytes.slice(..len)) {
            assert_eq!(response.encoded_len(), len, "cut between two fields");
        }
    }
}

#[test]
fn a_nested_transaction_encodes_as_prost_does() {
    let txn = NestedTxn(nested(with_put(), 100));
    assert_eq!(encoded(&txn), encoded(&txn.0));
    assert_eq!(encoded(&txn).len(), txn.encoded_len());
}
