use grpc::Code;
use proto::mvccpb::KeyValue;
use testkit::waiting::TIMEOUT;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::context::own_metadata;
use crate::tests::fake_member::{self, FakeMember, ReceivedCall};
use crate::watch::Watches;

fn proxy(member: &FakeMember) -> Arc<KvProxy> {
    proxy_to(member.upstream(), false)
}

/// Returns a proxy whose answers are `ordered` or not.
fn proxy_to(upstream: Upstream, ordered: bool) -> Arc<KvProxy> {
    let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).unwrap());
    Arc::new(KvProxy::new(upstream, Namespace::default(), ordered, metrics, None))
}

/// Returns a proxy with the leasing prefix `l/`, whose session never starts: the member does not
/// confirm the watcher of leasing keys.
fn leasing_proxy(member: &FakeMember) -> Arc<KvProxy> {
    let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).unwrap());
    let (upstream, namespace) = (member.upstream(), Namespace::default());
    let watches = Watches::new(upstream.clone(), namespace.clone(), Arc::clone(&metrics));
    let leasing = Leasing::start("l/", upstream.clone(), namespace.clone(), watches);
    Arc::new(KvProxy::new(upstream, namespace, false, metrics, Some(leasing)))
}

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision, ..ResponseHeader::default() })
}

fn range_response(value: &'static str, revision: i64) -> RangeResponse {
    let kv = KeyValue { key: "k".into(), value: value.into(), ..KeyValue::default() };
    RangeResponse { header: header(revision), kvs: vec![kv], more: false, count: 1 }
}

fn put(key: &'static str) -> PutRequest {
    PutRequest { key: key.into(), ..PutRequest::default() }
}

/// Reads `k`, as a client that accepts an old revision.
fn read(kv: &Arc<KvProxy>) -> JoinHandle<Result<Arc<RangeResponse>, Status>> {
    let kv = Arc::clone(kv);
    tokio::spawn(async move {
        let request =
            RangeRequest { key: "k".into(), serializable: true, ..RangeRequest::default() };
        kv.range(&own_metadata(), request, &SendBudget::default()).await
    })
}

async fn value(read: JoinHandle<Result<Arc<RangeResponse>, Status>>) -> Bytes {
    ended(read).await.unwrap().kvs[0].value.clone()
}

async fn ended<T>(call: JoinHandle<T>) -> T {
    timeout(TIMEOUT, call).await.expect("timed out waiting for the end of a call").unwrap()
}

#[tokio::test]
async fn a_read_that_a_member_could_not_answer_is_retried() {
    let mut member = FakeMember::start().await;
    let reading = read(&proxy(&member));
    member.next("Range").await.refuse(Code::Unavailable);
    member.next("Range").await.answer(&range_response("1", 5));
    assert_eq!(value(reading).await, "1");
}

/// Reads `k` from a member, past the cache.
fn read_from_member(kv: &Arc<KvProxy>) -> JoinHandle<Result<RangeResponse, Status>> {
    let kv = Arc::clone(kv);
    tokio::spawn(async move {
        let request =
            RangeRequest { key: "k".into(), serializable: true, ..RangeRequest::default() };
        kv.read(&own_metadata(), request).await
    })
}

/// `--experimental-serializable-ordering`.
#[tokio::test]
async fn an_answer_older_than_one_before_is_not_passed_on_if_answers_are_ordered() {
    let (mut one, mut other) = (FakeMember::start().await, FakeMember::start().await);
    let kv = proxy_to(fake_member::upstream(&[&one.address, &other.address]), true);
    let mut answer = async |value, revision| {
        let call = tokio::select! {
            call = one.next("Range") => call,
            call = other.next("Range") => call,
        };
        call.answer(&range_response(value, revision));
    };
    let first = read_from_member(&kv);
    answer("new", 7).await;
    assert_eq!(ended(first).await.unwrap().kvs[0].value, "new");
    let second = read_from_member(&kv);
    answer("old", 5).await;
    answer("new", 7).await;
    assert_eq!(ended(second).await.unwrap().kvs[0].value, "new");
}

#[tokio::test]
async fn an_answer_may_be_older_than_one_before_by_default() {
    let mut member = FakeMember::start().await;
    let kv = proxy(&member);
    for (value, revision) in [("new", 7), ("old", 5)] {
        let reading = read_from_member(&kv);
        member.next("Range").await.answer(&range_response(value, revision));
        assert_eq!(ended(reading).await.unwrap().kvs[0].value, value);
    }
}

#[tokio::test]
async fn an_ordered_read_fails_if_every_answer_is_older_than_one_before() {
    let mut member = FakeMember::start().await;
    let kv = proxy_to(member.upstream(), true);
    let first = read_from_member(&kv);
    member.next("Range").await.answer(&range_response("new", 7));
    ended(first).await.unwrap();
    let second = read_from_member(&kv);
    for _ in 0..ORDERING_ROUNDS {
        member.next("Range").await.answer(&range_response("old", 5));
    }
    assert_eq!(ended(second).await.unwrap_err(), errors::no_greater_revision());
}

#[tokio::test]
async fn a_write_is_not_retried() {
    let mut member = FakeMember::start().await;
    let kv = proxy(&member);
    let writing = tokio::spawn(async move { kv.put(&own_metadata(), put("k")).await });
    member.next("Put").await.refuse(Code::Unavailable);
    assert_eq!(ended(writing).await.unwrap_err().code, Code::Unavailable);
    assert!(member.try_next().is_none());
}

/// Writes `k` while reads keep the value before, and ends the write without a result. Returns the
/// value that later reads are answered with.
async fn value_after_a_write_without_result(
    end: impl AsyncFn(JoinHandle<Result<PutResponse, Status>>, ReceivedCall),
) -> Bytes {
    let mut member = FakeMember::start().await;
    let kv = proxy(&member);
    let writer = Arc::clone(&kv);
    let writing = tokio::spawn(async move { writer.put(&own_metadata(), put("k")).await });
    let written = member.next("Put").await;
    let early = read(&kv);
    member.next("Range").await.answer(&range_response("old", 5));
    assert_eq!(value(early).await, "old");
    // Answered after the end of the write, with the value before it. Linearizable, since a
    // serializable read would be answered from the cache.
    let late = {
        let kv = Arc::clone(&kv);
        tokio::spawn(async move {
            let request = RangeRequest { key: "k".into(), ..RangeRequest::default() };
            kv.range(&own_metadata(), request, &SendBudget::default()).await
        })
    };
    let late_call = member.next("Range").await;
    end(writing, written).await;
    late_call.answer(&range_response("old", 5));
    assert_eq!(value(late).await, "old");
    let reading = read(&kv);
    tokio::select! {
        call = member.next("Range") => call.answer(&range_response("new", 6)),
        () = async { while !reading.is_finished() { tokio::task::yield_now().await } } => {}
    }
    value(reading).await
}

#[tokio::test]
async fn a_write_that_fails_invalidates_again() {
    let fail = async |writing: JoinHandle<Result<PutResponse, Status>>, call: ReceivedCall| {
        call.refuse(Code::Unavailable);
        assert_eq!(ended(writing).await.unwrap_err().code, Code::Unavailable);
    };
    assert_eq!(value_after_a_write_without_result(fail).await, "new");
}

#[tokio::test]
async fn a_write_that_is_canceled_invalidates_again() {
    let cancel = async |writing: JoinHandle<Result<PutResponse, Status>>, _| {
        writing.abort();
        assert!(timeout(TIMEOUT, writing).await.unwrap().unwrap_err().is_cancelled());
    };
    assert_eq!(value_after_a_write_without_result(cancel).await, "new");
}

/// A transaction may be applied with either branch.
#[test]
fn a_transaction_may_write_the_keys_of_both_branches_at_any_depth() {
    let op = |request| RequestOp { request: Some(request) };
    let delete = DeleteRangeRequest { key: "a".into(), range_end: "c".into(), prev_kv: false };
    let inner = TxnRequest {
        failure: vec![op(Request::RequestDeleteRange(delete))],
        ..TxnRequest::default()
    };
    let txn = TxnRequest {
        success: vec![op(Request::RequestPut(put("k")))],
        failure: vec![op(Request::RequestTxn(inner))],
        ..TxnRequest::default()
    };
    let range = |key: &'static str, end: &'static str| (Bytes::from(key), Bytes::from(end));
    assert_eq!(written_ranges(&txn), [range("k", ""), range("a", "c")]);
}

#[tokio::test]
async fn a_response_from_before_authentication_was_enabled_is_not_kept() {
    let mut member = FakeMember::start().await;
    let kv = proxy(&member);
    let reading = read(&kv);
    let call = member.next("Range").await;
    kv.forget();
    call.answer(&range_response("secret", 5));
    assert_eq!(value(reading).await, "secret");
    assert_eq!(kv.cache.len(), 0);
}

/// Deletes the keys with a prefix, and returns them.
fn delete(kv: &Arc<KvProxy>, prefix: &str) -> JoinHandle<Result<DeleteRangeResponse, Status>> {
    let kv = Arc::clone(kv);
    let request = DeleteRangeRequest {
        key: format!("{prefix}/").into(),
        range_end: format!("{prefix}0").into(),
        prev_kv: true,
    };
    tokio::spawn(
        async move { kv.delete_range(&own_metadata(), request, &SendBudget::default()).await },
    )
}

#[tokio::test]
async fn a_write_that_waits_for_other_owners_takes_no_permit_for_a_long_response() {
    let mut member = FakeMember::start().await;
    let kv = leasing_proxy(&member);
    // More than there are permits.
    let waiting = 2 * net::Runtimes::count_default() + 1;
    let deletes: Vec<_> = (0..waiting).map(|_| delete(&kv, "owned")).collect();
    for _ in 0..waiting {
        // The key of the owner was revoked, and is not released.
        let leasing_key = KeyValue {
            key: "l/owned/k".into(),
            value: "REVOKE".into(),
            create_revision: 3,
            ..KeyValue::default()
        };
        let owned = RangeResponse { kvs: vec![leasing_key], ..range_response("", 5) };
        member.next("Range").await.answer(&owned);
    }
    let deleting = delete(&kv, "free");
    let none = RangeResponse { kvs: Vec::new(), count: 0, ..range_response("", 5) };
    member.next("Range").await.answer(&none);
    let deleted = ResponseOp {
        response: Some(Response::ResponseDeleteRange(DeleteRangeResponse::default())),
    };
    let response = TxnResponse { header: header(6), succeeded: true, responses: vec![deleted] };
    member.next("Txn").await.answer(&response);
    assert_eq!(ended(deleting).await.unwrap().header, header(6));
    assert!(deletes.iter().all(|delete| !delete.is_finished()));
}
