//! `KV` through the generated client.

use api::GrpcConfig;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse,
    RequestOp, TxnRequest,
};
use rpc::etcdserverpb::kv_client::KvClient;
use tonic::Code;

use crate::support::{Channel, Fixture, message};

fn client(member: &Fixture) -> KvClient<Channel> {
    KvClient::new(member.channel()).max_decoding_message_size(usize::MAX)
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..Default::default() }
}

fn range(key: &str, range_end: &str) -> RangeRequest {
    let (key, range_end) = (key.to_owned().into(), range_end.to_owned().into());
    RangeRequest { key, range_end, ..Default::default() }
}

fn keys(response: &RangeResponse) -> Vec<&[u8]> {
    response.kvs.iter().map(|kv| &kv.key[..]).collect()
}

/// Puts `count` keys in one transaction.
async fn fill(client: &mut KvClient<Channel>, count: usize) {
    for chunk in (0..count).collect::<Vec<_>>().chunks(128) {
        let puts = chunk.iter().map(|number| RequestOp {
            request: Some(Request::RequestPut(put(&format!("k{number:05}"), "value"))),
        });
        let txn = TxnRequest { success: puts.collect(), ..Default::default() };
        client.txn(txn).await.unwrap();
    }
}

#[tokio::test]
async fn keys_are_put_read_and_deleted() {
    let member = Fixture::start();
    let mut client = client(&member);
    let first = client.put(put("a", "1")).await.unwrap().into_inner();
    assert_eq!(first.header.unwrap().revision, 2);
    let again = PutRequest { prev_kv: true, ..put("a", "2") };
    let again = client.put(again).await.unwrap().into_inner();
    assert_eq!(again.prev_kv.unwrap().value, "1");

    let read = client.range(range("a", "")).await.unwrap().into_inner();
    let [kv] = &read.kvs[..] else { panic!("{read:?}") };
    assert_eq!((&kv.value[..], kv.version, kv.mod_revision), (&b"2"[..], 2, 3));
    assert_eq!((read.count, read.more, read.header.unwrap().revision), (1, false, 3));

    let delete = DeleteRangeRequest { key: "a".into(), prev_kv: true, ..Default::default() };
    let deleted = client.delete_range(delete).await.unwrap().into_inner();
    assert_eq!((deleted.deleted, deleted.header.unwrap().revision), (1, 4));
    assert_eq!(deleted.prev_kvs[0].value, "2");
    let deleted = client.range(range("a", "")).await.unwrap().into_inner();
    assert_eq!((deleted.count, deleted.kvs), (0, vec![]));
}

#[tokio::test]
async fn a_transaction_executes_one_of_its_branches() {
    let member = Fixture::start();
    let mut client = client(&member);
    let compare = Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Version.into(),
        key: "a".into(),
        target_union: Some(TargetUnion::Version(0)),
        ..Default::default()
    };
    let op = |request| RequestOp { request: Some(request) };
    let txn = TxnRequest {
        compare: vec![compare],
        success: vec![op(Request::RequestPut(put("a", "1")))],
        failure: vec![op(Request::RequestRange(range("a", "")))],
    };
    let first = client.txn(txn.clone()).await.unwrap().into_inner();
    assert!(first.succeeded);
    assert_eq!(first.header, Some(member.server().header(2)));
    let second = client.txn(txn).await.unwrap().into_inner();
    assert!(!second.succeeded);
    let Some(Response::ResponseRange(found)) = &second.responses[0].response else {
        panic!("{second:?}")
    };
    assert_eq!(keys(found), [b"a"]);
}

#[tokio::test]
async fn a_read_only_transaction_is_not_logged() {
    const READS: u64 = 50;
    let member = Fixture::start();
    let mut client = client(&member);
    client.put(put("a", "1")).await.unwrap();
    let before = member.server().committed();
    let read = RequestOp { request: Some(Request::RequestRange(range("a", ""))) };
    let txn = TxnRequest { success: vec![read], ..Default::default() };
    for _ in 0..READS {
        let response = client.txn(txn.clone()).await.unwrap().into_inner();
        assert_eq!(response.responses.len(), 1);
    }
    // Entries that a member proposes itself at its start may come in between.
    assert!(member.server().committed().0 - before.0 < READS);
}

#[tokio::test]
async fn invalid_requests_are_refused_without_effect() {
    let member = Fixture::start();
    let mut client = client(&member);
    let error = client.put(PutRequest { ignore_value: true, ..put("a", "1") }).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::InvalidArgument, "etcdserver: value is provided")
    );
    let twice = vec![RequestOp { request: Some(Request::RequestPut(put("a", "1"))) }; 2];
    let error = client.txn(TxnRequest { success: twice, ..Default::default() }).await.unwrap_err();
    assert_eq!(error.message(), "etcdserver: duplicate key given in txn request");
    let unsorted = RangeRequest { sort_order: 9, ..range("a", "") };
    let error = client.range(unsorted).await.unwrap_err();
    assert_eq!(error.message(), "etcdserver: invalid sort option");
    assert_eq!(
        client.range(range("a", "")).await.unwrap().into_inner().header.unwrap().revision,
        1
    );
}

#[tokio::test]
async fn compacted_and_future_revisions_are_out_of_range() {
    let member = Fixture::start();
    let mut client = client(&member);
    for value in ["1", "2", "3"] {
        client.put(put("a", value)).await.unwrap();
    }
    let compact = CompactionRequest { revision: 3, physical: true };
    let compacted = client.compact(compact).await.unwrap().into_inner();
    assert_eq!(compacted.header.unwrap().revision, 4);
    let at = |revision| RangeRequest { revision, ..range("a", "") };
    let error = client.range(at(2)).await.unwrap_err();
    let text = "etcdserver: mvcc: required revision has been compacted";
    assert_eq!((error.code(), error.message()), (Code::OutOfRange, text));
    let error = client.range(at(9)).await.unwrap_err();
    assert_eq!(error.message(), "etcdserver: mvcc: required revision is a future revision");
    assert_eq!(client.compact(compact).await.unwrap_err().message(), text);
}

#[tokio::test]
async fn a_long_range_equals_its_pages() {
    let member = Fixture::start();
    let mut client = client(&member);
    fill(&mut client, 1500).await;
    let whole = client.range(range("k", "l")).await.unwrap().into_inner();
    assert_eq!((whole.kvs.len(), whole.count, whole.more), (1500, 1500, false));
    let mut pages = Vec::new();
    let mut next = b"k".to_vec();
    loop {
        let page = RangeRequest { key: next.into(), limit: 400, ..range("", "l") };
        let page = client.range(page).await.unwrap().into_inner();
        pages.extend(page.kvs);
        if !page.more {
            break;
        }
        next = [&pages.last().unwrap().key[..], b"\0"].concat();
    }
    assert_eq!(pages, whole.kvs);
}

#[tokio::test]
async fn the_chunks_of_a_range_stream_equal_the_range() {
    let member = Fixture::start();
    let mut client = client(&member);
    fill(&mut client, 300).await;
    let whole = client.range(range("k", "l")).await.unwrap().into_inner();
    let mut stream = client.range_stream(range("k", "l")).await.unwrap().into_inner();
    let mut pieces = Vec::new();
    while let Some(piece) = message(&mut stream).await.unwrap() {
        pieces.push(piece.range_response.unwrap());
    }
    let last = pieces.pop().unwrap();
    assert!(pieces.len() > 2, "the first chunk has ten keys, the next one twice as many");
    assert_eq!(pieces[0].kvs.len(), 10);
    assert!(pieces.iter().all(|piece| piece.header.is_none() && piece.count == 0));
    assert_eq!((last.header, last.count), (whole.header, 300));
    let kvs: Vec<_> = pieces.into_iter().flat_map(|piece| piece.kvs).chain(last.kvs).collect();
    assert_eq!(kvs, whole.kvs);

    let sorted = RangeRequest { sort_order: 2, ..range("k", "l") };
    let error = client.range_stream(sorted).await.map(|_| ()).unwrap_err();
    let text = "RangeStream does not support custom sort orders";
    assert_eq!((error.code(), error.message()), (Code::Unimplemented, text));
}

#[tokio::test]
async fn the_quota_is_checked_before_the_request() {
    let member = Fixture::with(|config| config.quota_backend_bytes = 1, GrpcConfig::default());
    let mut client = client(&member);
    for wrong in [put("", ""), put("a", "1")] {
        let error = client.put(wrong).await.unwrap_err();
        let text = "etcdserver: mvcc: database space exceeded";
        assert_eq!((error.code(), error.message()), (Code::ResourceExhausted, text));
    }
    let alarms = member.server().state().alarms().get(1);
    assert_eq!(alarms.len(), 1, "one NOSPACE alarm is raised");
}
