//! `grpc-proxy start --experimental-leasing-prefix`: proxies that own keys.

use e2e::{Client, Member, Options, Proxy};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::mvccpb::KeyValue;
use testkit::waiting::{TIMEOUT, yield_until_async};
use tonic::Code;

/// The prefix of leasing keys in all tests.
const PREFIX: &str = "--experimental-leasing-prefix=l/";
/// The log message when a proxy has forgotten its keys.
const LOST: &str = "leasing session lost; its keys are forgotten";
/// The calls of a member that read or write keys.
const CALLS: [&str; 3] = ["Range", "Txn", "Put"];

/// Starts a proxy, and waits until it can own keys.
fn proxy(member: &Member, flags: &[&str]) -> Proxy {
    let endpoints = format!("--endpoints={}", member.sandbox().client_address());
    let flags = [&[endpoints.as_str(), PREFIX], flags].concat();
    let proxy = Proxy::start("grpc-proxy", &flags);
    proxy.log().wait_for_message("leasing session started");
    proxy
}

/// Starts a member, and two proxies in front of it.
fn start() -> (Member, Proxy, Proxy) {
    let member = Member::start(Options::new());
    let proxies = (proxy(&member, &[]), proxy(&member, &[]));
    (member, proxies.0, proxies.1)
}

/// Bounds a call.
async fn within<T>(what: &str, call: impl Future<Output = Result<T, tonic::Status>>) -> T {
    let Ok(answer) = tokio::time::timeout(TIMEOUT, call).await else {
        panic!("timed out after {TIMEOUT:?}: {what}")
    };
    answer.unwrap_or_else(|status| panic!("{what}: {status}"))
}

async fn put(client: &Client, key: &str, value: &str) -> pb::PutResponse {
    within(&format!("put {key} {value}"), client.put(key, value)).await
}

/// Reads a key.
async fn get(client: &Client, key: &str) -> Option<KeyValue> {
    within(&format!("get {key}"), client.get(key)).await.kvs.into_iter().next()
}

async fn value(client: &Client, key: &str) -> String {
    get(client, key).await.map_or_else(String::new, |kv| text(&kv))
}

fn text(kv: &KeyValue) -> String {
    String::from_utf8(kv.value.to_vec()).unwrap()
}

/// Returns the number of calls that a member has received about keys.
fn calls(member: &Member) -> f64 {
    let series = |method| {
        format!(
            r#"grpc_server_started_total{{grpc_method="{method}",grpc_service="etcdserverpb.KV",grpc_type="unary"}}"#
        )
    };
    CALLS.iter().map(|method| member.metric(&series(method))).sum()
}

fn op(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn get_op(key: &str) -> pb::RequestOp {
    let key = key.to_owned().into();
    op(Request::RequestRange(pb::RangeRequest { key, ..Default::default() }))
}

fn put_op(key: &str, value: &str) -> pb::RequestOp {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    op(Request::RequestPut(pb::PutRequest { key, value, ..Default::default() }))
}

fn has_value(key: &str, value: &str) -> pb::Compare {
    pb::Compare {
        key: key.to_owned().into(),
        target: CompareTarget::Value.into(),
        result: CompareResult::Equal.into(),
        target_union: Some(TargetUnion::Value(value.to_owned().into())),
        ..Default::default()
    }
}

fn deletion(key: &str, end: &str) -> pb::DeleteRangeRequest {
    let (key, range_end) = (key.to_owned().into(), end.to_owned().into());
    pb::DeleteRangeRequest { key, range_end, prev_kv: false }
}

#[tokio::test]
async fn reads_of_an_owned_key_are_answered_from_memory() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let (direct, client) = (member.client(), proxy.client());
    put(&direct, "k", "1").await;
    assert_eq!(value(&client, "k").await, "1");
    let leasing_key = get(&direct, "l/k").await.expect("a leasing key");
    assert!(leasing_key.value.is_empty() && leasing_key.lease != 0, "{leasing_key:?}");
    let expected = get(&direct, "k").await;

    let before = calls(&member);
    for _ in 0..10 {
        assert_eq!(get(&client, "k").await, expected);
    }
    let range = pb::RangeRequest { key: "k".into(), ..Default::default() };
    let serializable = pb::RangeRequest { serializable: true, ..range.clone() };
    assert_eq!(client.range(serializable).await.unwrap().kvs[0].value, "1");
    let keys_only = pb::RangeRequest { keys_only: true, ..range.clone() };
    assert_eq!(client.range(keys_only).await.unwrap().kvs[0].value, "");
    let count_only = pb::RangeRequest { count_only: true, ..range.clone() };
    assert_eq!(client.range(count_only).await.unwrap().count, 1);
    assert_eq!(calls(&member), before, "no call reaches the member");

    let past = pb::RangeRequest { revision: 1, ..range };
    assert_eq!(client.range(past).await.unwrap().count, 0);
    assert_eq!(calls(&member), before + 1.0);
}

#[tokio::test]
async fn owned_keys_are_read_while_no_member_is_reachable() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let client = proxy.client();
    put(&member.client(), "k", "1").await;
    assert_eq!(value(&client, "k").await, "1");
    assert_eq!(value(&client, "absent").await, "");
    let stopped = member.kill();
    assert_eq!(value(&client, "k").await, "1");
    assert_eq!(get(&client, "absent").await, None);
    assert_eq!(client.get("other").await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(client.put("k", "2").await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(client.get("k").await.unwrap_err().code(), Code::Unavailable, "it may be written");
    let member = stopped.start();
    // The proxy leaves an endpoint alone for a moment after it could not connect.
    let is_written = async || client.put("k", "3").await.is_ok();
    yield_until_async("the proxy reaches the member", is_written).await;
    assert_eq!((value(&client, "k").await, value(&member.client(), "k").await), both("3"));
}

fn both(value: &str) -> (String, String) {
    (value.to_owned(), value.to_owned())
}

#[tokio::test]
async fn a_write_through_another_proxy_is_seen_by_the_owner() {
    let (member, owner, writer) = start();
    let (owner, writer) = (owner.client(), writer.client());
    assert_eq!(get(&owner, "k").await, None);
    assert!(get(&member.client(), "l/k").await.is_some());
    put(&writer, "k", "1").await;
    assert_eq!(get(&member.client(), "l/k").await, None, "the owner has released the key");
    assert_eq!(value(&owner, "k").await, "1");
    for n in 2..20 {
        let (reader, writer) = if n % 2 == 0 { (&owner, &writer) } else { (&writer, &owner) };
        put(writer, "k", &n.to_string()).await;
        assert_eq!(value(reader, "k").await, n.to_string());
    }
}

/// Races of an acquisition and a write, in either order.
#[tokio::test]
async fn a_read_after_a_write_sees_it_whichever_proxy_comes_first() {
    let (_member, reader, writer) = start();
    let (reader, writer) = (&reader.client(), &writer.client());
    for round in 0..10 {
        let race = async |n: i32| {
            let key = format!("{round}-{n}");
            tokio::join!(get(reader, &key), put(writer, &key, "1"));
            assert_eq!(value(reader, &key).await, "1", "{key}");
            tokio::join!(get(reader, &key), put(reader, &key, "2"), put(writer, &key, "2"));
            assert_eq!(value(reader, &key).await, "2", "{key}");
        };
        tokio::join!(race(0), race(1), race(2), race(3), race(4), race(5), race(6), race(7));
    }
}

#[tokio::test]
async fn writes_of_the_owner_are_kept_as_the_member_has_them() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let (direct, client) = (member.client(), proxy.client());
    put(&direct, "k", "1").await;
    get(&client, "k").await;
    let with_prev =
        pb::PutRequest { key: "k".into(), value: "2".into(), prev_kv: true, ..Default::default() };
    let answer = client.kv().put(with_prev).await.unwrap().into_inner();
    assert_eq!(answer.prev_kv.unwrap().value, "1");
    assert!(answer.header.unwrap().cluster_id != 0);
    let same = async || {
        let before = calls(&member);
        let found = within("get k", client.get("k")).await;
        assert_eq!(calls(&member), before, "answered from memory");
        let expected = within("get k", direct.get("k")).await;
        assert_eq!(found, expected);
        found.kvs.into_iter().next()
    };
    assert_eq!(text(&same().await.unwrap()), "2");
    let touch = pb::PutRequest { key: "k".into(), ignore_value: true, ..Default::default() };
    client.kv().put(touch).await.unwrap();
    let touched = same().await.unwrap();
    assert_eq!((text(&touched).as_str(), touched.version), ("2", 3));
    assert_eq!(client.delete("k").await.unwrap().deleted, 1);
    assert_eq!(same().await, None);
    put(&client, "k", "4").await;
    assert_eq!(same().await.unwrap().version, 1);
    let refused = client.put("", "x").await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: key is not provided");
}

#[tokio::test]
async fn a_client_that_follows_the_protocol_can_write_directly() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let (direct, client) = (member.client(), proxy.client());
    put(&direct, "k", "1").await;
    assert_eq!(value(&client, "k").await, "1");
    let revoke = pb::PutRequest {
        key: "l/k".into(),
        value: "REVOKE".into(),
        ignore_lease: true,
        ..Default::default()
    };
    direct.kv().put(revoke).await.unwrap();
    yield_until_async("the leasing key is deleted", async || get(&direct, "l/k").await.is_none())
        .await;
    put(&direct, "k", "2").await;
    assert_eq!(value(&client, "k").await, "2");
}

#[tokio::test]
async fn a_leasing_key_that_is_deleted_ends_the_ownership() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let (direct, client) = (member.client(), proxy.client());
    put(&direct, "k", "1").await;
    assert_eq!(value(&client, "k").await, "1");
    let lease = get(&direct, "l/k").await.expect("a leasing key").lease;
    direct.lease().lease_revoke(pb::LeaseRevokeRequest { id: lease }).await.unwrap();
    put(&direct, "k", "2").await;
    yield_until_async("the new value is read", async || value(&client, "k").await == "2").await;
    assert!(proxy.log().record(LOST).is_none(), "before the proxy learned of the lease");
}

/// Takes a TTL of the session: a minute.
#[tokio::test]
async fn the_keys_of_a_killed_owner_are_written_after_its_lease_has_expired() {
    let (member, owner, writer) = start();
    put(&member.client(), "k", "1").await;
    assert_eq!(value(&owner.client(), "k").await, "1");
    let leasing_key = get(&member.client(), "l/k").await.expect("a leasing key");
    drop(owner);
    let written = put(&writer.client(), "k", "2").await;
    assert!(written.header.unwrap().revision > leasing_key.mod_revision + 1, "it was revoked");
    assert_eq!(get(&member.client(), "l/k").await, None);
    let left = pb::LeaseTimeToLiveRequest { id: leasing_key.lease, keys: false };
    let left = member.client().lease().lease_time_to_live(left).await.unwrap().into_inner();
    assert_eq!(left.ttl, -1, "the lease has expired");
    assert_eq!(value(&writer.client(), "k").await, "2");
}

#[tokio::test]
async fn transactions_that_read_owned_keys_are_evaluated_in_memory() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let (direct, client) = (member.client(), proxy.client());
    put(&direct, "a", "1").await;
    for key in ["a", "b"] {
        get(&client, key).await;
    }
    let txn = |expected: &str| pb::TxnRequest {
        compare: vec![has_value("a", expected)],
        success: vec![get_op("a"), get_op("b")],
        failure: vec![put_op("a", "2"), get_op("a")],
    };
    let before = calls(&member);
    let local = within("a transaction", client.txn(txn("1"))).await;
    assert_eq!(calls(&member), before, "no call reaches the member");
    assert_eq!(local, within("a transaction", direct.txn(txn("1"))).await);

    // The other branch writes.
    let written = within("a transaction", client.txn(txn("0"))).await;
    assert!(!written.succeeded);
    let before = calls(&member);
    let local = within("a transaction", client.txn(txn("2"))).await;
    assert_eq!(calls(&member), before, "the result of the write is kept");
    assert_eq!(local, within("a transaction", direct.txn(txn("2"))).await);
}

#[tokio::test]
async fn a_transaction_through_another_proxy_revokes_all_its_keys() {
    let (member, owner, writer) = start();
    let (owner, writer) = (owner.client(), writer.client());
    for key in ["a", "b", "c"] {
        get(&owner, key).await;
    }
    // Owned by the writer itself.
    get(&writer, "d").await;
    let inner =
        pb::TxnRequest { success: vec![put_op("b", "1"), put_op("d", "1")], ..Default::default() };
    let txn = pb::TxnRequest {
        success: vec![put_op("a", "1"), op(Request::RequestTxn(inner))],
        ..Default::default()
    };
    let answer = within("a transaction", writer.txn(txn)).await;
    assert!(answer.succeeded && answer.responses.len() == 2, "{answer:?}");
    for (key, is_owned) in [("l/a", false), ("l/b", false), ("l/c", true), ("l/d", true)] {
        assert_eq!(get(&member.client(), key).await.is_some(), is_owned, "{key}");
    }
    for key in ["a", "b", "d"] {
        assert_eq!((value(&owner, key).await, value(&writer, key).await), both("1"), "{key}");
    }
}

#[tokio::test]
async fn a_deleted_range_is_released_by_all_owners() {
    let (member, one, two) = start();
    let (direct, one, two) = (member.client(), one.client(), two.client());
    for key in ["j", "k1", "k2", "k3", "m"] {
        put(&direct, key, "1").await;
    }
    for (client, key) in [(&one, "j"), (&one, "k1"), (&two, "k2"), (&one, "absent"), (&one, "m")] {
        get(client, key).await;
    }
    let found = within("a range", one.get_prefix("k")).await;
    assert_eq!(found.count, 3, "a range is read from a member");
    let deleted = within("a deletion", two.kv().delete_range(deletion("k", "l"))).await;
    assert_eq!(deleted.into_inner().deleted, 3);
    for key in ["k1", "k2", "k3"] {
        assert_eq!((get(&one, key).await, get(&two, key).await), (None, None), "{key}");
    }
    for key in ["l/j", "l/m", "l/absent"] {
        assert!(get(&direct, key).await.is_some(), "{key} is outside of the range");
    }
    // To the last key, in a transaction.
    let rest = op(Request::RequestDeleteRange(deletion("m", "\0")));
    let txn = pb::TxnRequest { success: vec![rest], ..Default::default() };
    assert!(within("a transaction", two.txn(txn)).await.succeeded);
    assert_eq!((get(&one, "m").await, get(&direct, "l/m").await.is_some()), (None, false));
    // With the leasing keys themselves.
    let all = within("a deletion", two.kv().delete_range(deletion("\0", "\0"))).await;
    assert_eq!(all.into_inner().deleted, 1, "leasing keys are released before");
    assert_eq!((get(&one, "j").await, get(&two, "j").await), (None, None));
}

#[tokio::test]
async fn keys_with_a_lease_are_not_owned() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let (direct, client) = (member.client(), proxy.client());
    let grant = pb::LeaseGrantRequest { ttl: 600, id: 0 };
    let lease = direct.lease().lease_grant(grant).await.unwrap().into_inner().id;
    let leased = |key: &'static str| pb::PutRequest {
        key: key.into(),
        value: "1".into(),
        lease,
        ..Default::default()
    };
    direct.kv().put(leased("before")).await.unwrap();
    assert_eq!(value(&client, "before").await, "1");
    assert_eq!(get(&direct, "l/before").await, None);
    get(&client, "after").await;
    assert!(get(&direct, "l/after").await.is_some());
    client.kv().put(leased("after")).await.unwrap();
    yield_until_async("the key is released", async || get(&direct, "l/after").await.is_none())
        .await;
    assert_eq!(value(&client, "after").await, "1");
    client.lease().lease_revoke(pb::LeaseRevokeRequest { id: lease }).await.unwrap();
    assert_eq!((get(&client, "before").await, get(&client, "after").await), (None, None));
}

#[tokio::test]
async fn leasing_keys_are_in_the_namespace() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &["--namespace=app/"]);
    let (direct, client) = (member.client(), proxy.client());
    put(&direct, "app/k", "1").await;
    assert_eq!(value(&client, "k").await, "1");
    assert!(get(&direct, "app/l/k").await.is_some());
    assert_eq!(get(&client, "l/k").await.unwrap().key, "l/k");
    put(&client, "k", "2").await;
    assert_eq!((value(&client, "k").await, value(&direct, "app/k").await), both("2"));
    let deleted = within("a deletion", client.kv().delete_range(deletion("k", "\0"))).await;
    assert_eq!(deleted.into_inner().deleted, 1, "leasing keys are released before");
    assert_eq!(get(&client, "k").await, None);
}

fn with_token<T>(message: T, token: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("token", token.parse().unwrap());
    request
}

/// Adds the user `root`, enables authentication, and returns a token.
async fn enable_auth(client: &Client) -> String {
    let mut auth = client.auth();
    let (name, password) = ("root".to_owned(), "r".to_owned());
    let user = pb::AuthUserAddRequest {
        name: name.clone(),
        password: password.clone(),
        ..Default::default()
    };
    auth.user_add(user).await.unwrap();
    auth.role_add(pb::AuthRoleAddRequest { name: name.clone() }).await.unwrap();
    let grant = pb::AuthUserGrantRoleRequest { user: name.clone(), role: name.clone() };
    auth.user_grant_role(grant).await.unwrap();
    auth.auth_enable(pb::AuthEnableRequest {}).await.unwrap();
    auth.authenticate(pb::AuthenticateRequest { name, password }).await.unwrap().into_inner().token
}

#[tokio::test]
async fn authenticated_users_respect_owners_and_are_not_answered_from_memory() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let (direct, client) = (member.client(), proxy.client());
    get(&client, "owned").await;
    let token = enable_auth(&client).await;
    proxy.log().wait_for_message(LOST);
    let anonymous = client.get("owned").await.unwrap_err();
    assert_eq!(anonymous.message(), "etcdserver: user name is empty");

    // The test owns the key.
    let grant = with_token(pb::LeaseGrantRequest { ttl: 600, id: 0 }, &token);
    let lease = direct.lease().lease_grant(grant).await.unwrap().into_inner().id;
    let own = pb::PutRequest { key: "l/k".into(), lease, ..Default::default() };
    direct.kv().put(with_token(own, &token)).await.unwrap();
    let read = async |client: &Client, key: &'static str| {
        let request = pb::RangeRequest { key: key.into(), ..Default::default() };
        let found = client.kv().range(with_token(request, &token)).await.unwrap();
        found.into_inner().kvs.first().map(text)
    };
    let put = pb::PutRequest { key: "k".into(), value: "1".into(), ..Default::default() };
    let mut kv = client.kv();
    let writing = within("put k", kv.put(with_token(put, &token)));
    let releasing = async {
        let is_revoked = async || read(&direct, "l/k").await.as_deref() == Some("REVOKE");
        yield_until_async("the owner is asked for the key", is_revoked).await;
        assert_eq!(read(&direct, "k").await, None, "the write waits");
        let release = with_token(deletion("l/k", ""), &token);
        direct.kv().delete_range(release).await.unwrap();
    };
    tokio::join!(writing, releasing);
    assert_eq!(read(&client, "k").await.as_deref(), Some("1"));
    assert_eq!(read(&direct, "l/k").await, None, "the reader has not acquired the key");
}

#[tokio::test]
async fn a_proxy_whose_lease_is_revoked_starts_another_session() {
    let member = Member::start(Options::new());
    let proxy = proxy(&member, &[]);
    let (direct, client) = (member.client(), proxy.client());
    put(&direct, "k", "1").await;
    assert_eq!(value(&client, "k").await, "1");
    let first = get(&direct, "l/k").await.expect("a leasing key").lease;
    direct.lease().lease_revoke(pb::LeaseRevokeRequest { id: first }).await.unwrap();
    // The next renewal finds out, within 20 seconds.
    proxy.log().wait_for_message(LOST);
    let again = async || {
        value(&client, "k").await;
        get(&direct, "l/k").await.is_some_and(|kv| kv.lease != first)
    };
    yield_until_async("the key is owned again", again).await;
    assert_eq!(value(&client, "k").await, "1");
}
