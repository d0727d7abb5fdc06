//! Flags that limit clients.

use std::time::Duration;

use e2e::frames::{Connection, GoAway};
use e2e::{Client, Member, Options};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{MemberAddRequest, PutRequest, RequestOp, TxnRequest};
use tonic::{Code, Status};

#[tokio::test(flavor = "multi_thread")]
async fn max_txn_ops_bounds_a_transaction() {
    let member = Member::start(Options::new().flag("max-txn-ops", "3"));
    let client = member.client();
    assert!(client.txn(puts(3)).await.unwrap().succeeded);
    let refused = client.txn(puts(4)).await.unwrap_err();
    assert_is(&refused, Code::InvalidArgument, "etcdserver: too many operations in txn request");
    assert_eq!(client.get_prefix("k").await.unwrap().count, 3);
}

/// There are two limits: on a proposal, and half a mebibyte above it on a received message.
#[tokio::test(flavor = "multi_thread")]
async fn max_request_bytes_bounds_a_request() {
    let member = Member::start(Options::new().flag("max-request-bytes", "8192"));
    let client = member.client();
    client.put("k", &"v".repeat(8000)).await.unwrap();
    let large = client.put("k", &"v".repeat(9000)).await.unwrap_err();
    assert_is(&large, Code::InvalidArgument, "etcdserver: request is too large");

    let huge = client.put("k", &"v".repeat(600_000)).await.unwrap_err();
    let text = "grpc: received message larger than max (600007 vs. 532480)";
    assert_is(&huge, Code::ResourceExhausted, text);
    assert_eq!(client.get("k").await.unwrap().kvs[0].version, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn max_concurrent_streams_is_announced() {
    let member = Member::start(Options::new().flag("max-concurrent-streams", "7"));
    let mut connection = Connection::open(&member.sandbox().client_address()).unwrap();
    assert_eq!(connection.streams_max().unwrap(), Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_pings_too_often_gets_goaway() {
    let member = Member::start(Options::new());
    let mut connection = Connection::open(&member.sandbox().client_address()).unwrap();
    for _ in 0..4 {
        connection.ping().unwrap();
    }
    let calm = GoAway { code: 11, text: "too_many_pings".to_owned() };
    assert_eq!(connection.wait_for_go_away().unwrap(), calm);
}

/// The HTTP/2 library would drop the fragment, and serve the path.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_with_a_fragment_ends_the_connection() {
    let member = Member::start(Options::new());
    let mut connection = Connection::open(&member.sandbox().client_address()).unwrap();
    connection.post("/etcdserverpb.KV/Range#x").unwrap();
    let refused = GoAway { code: 1, text: "fragment in :path".to_owned() };
    assert_eq!(connection.wait_for_go_away().unwrap(), refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_keepalive_min_time_bounds_the_ping_interval() {
    let ping = Duration::from_millis(20);
    let strict = Member::start(Options::new().flag("grpc-keepalive-min-time", "1m"));
    let address = format!("http://{}", strict.sandbox().client_address());
    // The connection may end before or after the watch is created.
    let ended = match Client::pinging(&address, ping).watch_prefix("k", 0).await {
        Ok(mut watching) => watching.next().await.unwrap_err(),
        Err(ended) => ended,
    };
    // The client library hides the reason: see the test above.
    assert_ne!(ended.code(), Code::DeadlineExceeded, "{ended:?}");

    let lenient = Member::start(Options::new().flag("grpc-keepalive-min-time", "1ms"));
    let address = format!("http://{}", lenient.sandbox().client_address());
    let mut watching = Client::pinging(&address, ping).watch_prefix("k", 0).await.unwrap();
    // Long enough for twenty pings without a response in between.
    tokio::time::sleep(ping * 20).await;
    lenient.client().put("k", "v").await.unwrap();
    assert_eq!(watching.events(1).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn max_learners_bounds_the_number_of_learners() {
    let member = Member::start(Options::new().flag("max-learners", "2"));
    let client = member.client();
    for port in [1, 2] {
        add_learner(&client, port).await.unwrap();
    }
    let refused = add_learner(&client, 3).await.unwrap_err();
    let text = "etcdserver: too many learner members in cluster";
    assert_is(&refused, Code::FailedPrecondition, text);
}

async fn add_learner(client: &Client, port: u16) -> Result<(), Status> {
    let peer_urls = vec![format!("http://127.0.0.1:{port}")];
    client.cluster().member_add(MemberAddRequest { peer_urls, is_learner: true }).await?;
    Ok(())
}

fn puts(count: usize) -> TxnRequest {
    let put = |number| {
        let put = PutRequest { key: format!("k{number}").into(), ..PutRequest::default() };
        RequestOp { request: Some(Request::RequestPut(put)) }
    };
    TxnRequest { success: (0..count).map(put).collect(), ..TxnRequest::default() }
}

#[track_caller]
fn assert_is(status: &Status, code: Code, text: &str) {
    assert_eq!((status.code(), status.message()), (code, text));
}
