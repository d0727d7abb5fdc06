//! `Watch` through the generated client.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use api::GrpcConfig;
use proto::authpb::{Permission, permission};
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthUserAddRequest,
    AuthUserGrantRoleRequest, AuthenticateRequest, CompactionRequest, PutRequest,
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use proto::mvccpb::event::EventType;
use rpc::etcdserverpb::auth_client::AuthClient;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::watch_client::WatchClient;
use testkit::waiting::{yield_until, yield_until_async};
use tokio::sync::{Notify, mpsc};
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};

use crate::support::{Fixture, message, within};

/// A watch stream of a client.
struct Watch {
    requests: Option<mpsc::Sender<WatchRequest>>,
    responses: Streaming<WatchResponse>,
}

impl Watch {
    async fn open(member: &Fixture) -> Watch {
        Watch::open_with(member, None).await.unwrap()
    }

    async fn open_with(
        member: &Fixture,
        metadata: Option<(&'static str, &str)>,
    ) -> Result<Watch, Status> {
        let (sender, receiver) = mpsc::channel(64);
        let mut request = Request::new(ReceiverStream::new(receiver));
        if let Some((name, value)) = metadata {
            request.metadata_mut().insert(name, value.parse().unwrap());
        }
        let client = WatchClient::new(member.channel());
        let mut client = client.max_decoding_message_size(usize::MAX);
        let responses = client.watch(request).await?.into_inner();
        Ok(Watch { requests: Some(sender), responses })
    }

    async fn send(&self, request: RequestUnion) {
        let request = WatchRequest { request_union: Some(request) };
        self.requests.as_ref().unwrap().send(request).await.unwrap();
    }

    async fn create(&self, request: WatchCreateRequest) {
        self.send(RequestUnion::CreateRequest(request)).await;
    }

    async fn next(&mut self) -> WatchResponse {
        message(&mut self.responses).await.unwrap().unwrap()
    }
}

fn key(key: &str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.to_owned().into(), ..Default::default() }
}

async fn put(member: &Fixture, key: &str, value: &str) {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    let put = PutRequest { key, value, ..Default::default() };
    KvClient::new(member.channel()).put(put).await.unwrap();
}

fn values(response: &WatchResponse) -> Vec<&[u8]> {
    response.events.iter().map(|event| &event.kv.as_ref().unwrap().value[..]).collect()
}

#[tokio::test]
async fn events_follow_the_created_response() {
    let member = Fixture::start();
    let mut watch = Watch::open(&member).await;
    watch.create(key("a")).await;
    let created = watch.next().await;
    assert!(created.created && !created.canceled && created.events.is_empty());
    assert_eq!(created.header, Some(member.server().header(1)));
    put(&member, "a", "1").await;
    put(&member, "b", "2").await;
    put(&member, "a", "3").await;
    let first = watch.next().await;
    assert_eq!((values(&first), first.header.unwrap().revision), (vec![&b"1"[..]], 2));
    let second = watch.next().await;
    assert_eq!((values(&second), second.header.unwrap().revision), (vec![&b"3"[..]], 4));
    assert_eq!(second.events[0].r#type(), EventType::Put);
}

#[tokio::test]
async fn history_is_sent_from_the_start_revision() {
    let member = Fixture::start();
    for value in ["1", "2", "3"] {
        put(&member, "a", value).await;
    }
    let mut watch = Watch::open(&member).await;
    watch.create(WatchCreateRequest { start_revision: 3, prev_kv: true, ..key("a") }).await;
    assert!(watch.next().await.created);
    let past = watch.next().await;
    assert_eq!(values(&past), [b"2", b"3"]);
    assert_eq!(past.events[0].prev_kv.as_ref().unwrap().value, "1");
    assert_eq!(past.header.unwrap().revision, 4);
}

#[tokio::test]
async fn a_watch_from_a_compacted_revision_is_canceled() {
    let member = Fixture::start();
    for value in ["1", "2", "3"] {
        put(&member, "a", value).await;
    }
    let compact = CompactionRequest { revision: 4, physical: false };
    KvClient::new(member.channel()).compact(compact).await.unwrap();
    let mut watch = Watch::open(&member).await;
    watch.create(WatchCreateRequest { start_revision: 2, ..key("a") }).await;
    assert!(watch.next().await.created);
    let ended = watch.next().await;
    assert!(ended.canceled);
    assert_eq!((ended.compact_revision, ended.header.unwrap().revision), (4, 0));
    assert_eq!(ended.cancel_reason, "");
}

#[tokio::test]
async fn a_refused_watch_is_created_and_canceled_at_once() {
    let member = Fixture::start();
    let mut watch = Watch::open(&member).await;
    let empty = WatchCreateRequest { range_end: "a".into(), ..key("b") };
    let negative = WatchCreateRequest { start_revision: -1, ..key("b") };
    let named = WatchCreateRequest { watch_id: 5, ..key("b") };
    let reasons = [
        (empty, "mvcc: watcher range is empty"),
        (negative, "etcdserver: mvcc: required revision has been compacted"),
        (named.clone(), ""),
        (named, "mvcc: duplicate watch ID provided on the WatchStream"),
    ];
    for (request, reason) in reasons {
        watch.create(request).await;
        let response = watch.next().await;
        assert!(response.created);
        assert_eq!(response.cancel_reason, reason);
        assert_eq!(response.canceled, !reason.is_empty());
        assert_eq!(response.watch_id, if reason.is_empty() { 5 } else { -1 });
    }
}

#[tokio::test]
async fn requests_are_answered_in_order() {
    let member = Fixture::start();
    let mut watch = Watch::open(&member).await;
    watch.create(key("a")).await;
    watch.send(RequestUnion::ProgressRequest(WatchProgressRequest {})).await;
    let cancel = |watch_id| RequestUnion::CancelRequest(WatchCancelRequest { watch_id });
    watch.send(cancel(7)).await;
    watch.send(cancel(0)).await;
    assert!(watch.next().await.created);
    let progress = watch.next().await;
    assert_eq!((progress.watch_id, progress.header.unwrap().revision), (-1, 1));
    let canceled = watch.next().await;
    assert!(canceled.canceled && !canceled.created, "canceling an unknown watcher has no response");
    assert_eq!(canceled.watch_id, 0);
}

#[tokio::test]
async fn a_half_closed_stream_still_receives_events() {
    let member = Fixture::start();
    let mut watch = Watch::open(&member).await;
    watch.create(key("a")).await;
    assert!(watch.next().await.created);
    watch.requests = None;
    put(&member, "a", "1").await;
    assert_eq!(values(&watch.next().await), [b"1"]);
    put(&member, "a", "2").await;
    assert_eq!(values(&watch.next().await), [b"2"]);
}

#[tokio::test]
async fn many_requests_are_answered_even_if_responses_are_read_slowly() {
    let member = Fixture::start();
    let mut watch = Watch::open(&member).await;
    // More than the queue of the stream holds: the rest stays with the client.
    for _ in 0..60 {
        watch.create(key("a")).await;
    }
    for watch_id in 0..60 {
        let created = watch.next().await;
        assert_eq!((created.watch_id, created.created), (watch_id, true));
    }
    put(&member, "a", "1").await;
    let mut ids: Vec<i64> = Vec::new();
    while ids.len() < 60 {
        ids.push(watch.next().await.watch_id);
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..60).collect::<Vec<_>>());
}

/// A waker that records that the task of a response was woken.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_request_may_arrive_together_with_progress_notifications() {
    let often = |config: &mut server::ServerConfig| {
        config.watch_progress_notify_interval = Duration::from_millis(100);
    };
    let member = Fixture::with(often, GrpcConfig::default());
    let mut watch = Watch::open(&member).await;
    let watchers: u32 = 20;
    for _ in 0..watchers {
        watch.create(WatchCreateRequest { progress_notify: true, ..key("a") }).await;
        assert!(watch.next().await.created);
    }
    for _ in 0..10 {
        // The stream waits, and is woken by a progress notification for each of its watchers. By
        // the time it is polled again, there is a request, too.
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let waits = pin!(watch.next()).poll(&mut Context::from_waker(&waker)).is_pending();
        if waits {
            within("the stream to be woken", woken.0.notified()).await;
        }
        watch.send(RequestUnion::ProgressRequest(WatchProgressRequest {})).await;
        yield_until_async("the progress response arrives", async || {
            watch.next().await.watch_id == -1
        })
        .await;
    }
}

/// Receives the next response so slowly that the member always has more to send.
async fn next_slowly(watch: &mut Watch, member: &Fixture) -> WatchResponse {
    let state = member.server().state();
    let has_more = || state.store().pending_events() > 0 || state.store().slow_watchers() == 0;
    yield_until("the member has more to send", has_more).await;
    watch.next().await
}

#[tokio::test]
async fn a_request_does_not_wait_for_the_end_of_the_history() {
    const VALUE_BYTES: usize = 256 << 10;
    const VALUES: usize = 64;
    let member = Fixture::start();
    let value = "v".repeat(VALUE_BYTES);
    for _ in 0..VALUES {
        put(&member, "a", &value).await;
    }
    let mut watch = Watch::open(&member).await;
    watch.create(WatchCreateRequest { start_revision: 1, ..key("a") }).await;
    assert!(watch.next().await.created);
    assert!(!next_slowly(&mut watch, &member).await.events.is_empty());
    watch.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: 0 })).await;
    let mut received = 0;
    loop {
        let response = next_slowly(&mut watch, &member).await;
        if response.canceled {
            break;
        }
        received += values(&response).iter().map(|value| value.len()).sum::<usize>();
    }
    // The queue of a stream holds 4 MiB and one response, which is 1 MiB and one event; one more is
    // in flight.
    assert!(
        received <= 7 << 20,
        "{received} bytes of {} before the response",
        VALUES * VALUE_BYTES
    );
}

#[tokio::test]
async fn large_responses_are_fragmented_if_the_client_allows_it() {
    let member = Fixture::start();
    for number in 0..5 {
        put(&member, "a", &number.to_string().repeat(1 << 20)).await;
    }
    let mut watch = Watch::open(&member).await;
    let create = WatchCreateRequest { start_revision: 1, fragment: true, ..key("a") };
    watch.create(create).await;
    assert!(watch.next().await.created);
    let mut events = 0;
    while events < 5 {
        let piece = watch.next().await;
        assert!(piece.events.len() == 1, "two events would exceed 2 MiB");
        events += 1;
    }
}

#[tokio::test]
async fn dropping_a_stream_removes_its_watchers() {
    let member = Fixture::start();
    let mut watch = Watch::open(&member).await;
    watch.create(key("a")).await;
    assert!(watch.next().await.created);
    assert_eq!(member.server().state().store().watchers(), 1);
    drop(watch);
    assert_eq!(member.server().state().store().watch_streams(), 0);
    let handled = r#"grpc_server_handled_total{grpc_code="Canceled",grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"}"#;
    assert_eq!(member.metric(handled), Some(1.0));
}

#[tokio::test]
async fn streams_end_when_the_member_stops() {
    let member = Fixture::start();
    let mut watch = Watch::open(&member).await;
    watch.create(key("a")).await;
    assert!(watch.next().await.created);
    member.grpc.close();
    let end = message(&mut watch.responses).await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::Unavailable, "etcdserver: server stopped"));
    let later = Watch::open_with(&member, None).await.map(|_| ()).unwrap_err();
    assert_eq!(later.code(), Code::Unavailable);
}

#[tokio::test]
async fn an_unread_stream_loses_its_watchers_at_its_end() {
    let member = Fixture::start();
    put(&member, "a", &"v".repeat(1 << 20)).await;
    let state = member.server().state();
    let is_closed = || state.store().watch_streams() == 0;
    let mut unread = None;
    // On a busy machine the first deadlines may pass before the watcher is created.
    for deadline in ["1S", "4S", "16S", "64S"] {
        unread = unread_watch(&member, deadline).await.ok();
        if unread.is_some() {
            break;
        }
    }
    assert!(unread.is_some(), "no watcher was created before its deadline");
    yield_until("the stream is closed at its deadline", is_closed).await;
    let _unread = unread_watch(&member, "1H").await.expect("the watcher is created in an hour");
    assert_eq!(state.store().watch_streams(), 1);
    member.grpc.close();
    yield_until("the stream is closed with the server", is_closed).await;
}

/// Creates a watcher of the key `a` on a stream with a deadline. The stream is not polled any more,
/// as if its client did not read.
async fn unread_watch(member: &Fixture, deadline: &str) -> Result<Watch, Status> {
    let mut watch = Watch::open_with(member, Some(("grpc-timeout", deadline))).await?;
    watch.create(WatchCreateRequest { start_revision: 1, ..key("a") }).await;
    let created = message(&mut watch.responses).await?.expect("a response");
    assert!(created.created);
    Ok(watch)
}

#[tokio::test]
async fn a_stream_that_needs_a_leader_is_refused_without_one() {
    let member = Fixture::without_leader();
    let refused = Watch::open_with(&member, Some(("hasleader", "true"))).await;
    let refused = refused.map(|_| ()).unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "etcdserver: no leader"));
    assert!(Watch::open_with(&member, None).await.is_ok());
}

/// Adds the users root and alice with the password `p`; alice may read the key `a`. Returns her
/// token.
async fn enable_users(member: &Fixture) -> String {
    let mut client = AuthClient::new(member.channel());
    for name in ["root", "alice"] {
        let (name, password) = (name.to_owned(), "p".to_owned());
        let user = AuthUserAddRequest { name, password, ..Default::default() };
        client.user_add(user).await.unwrap();
    }
    client.role_add(AuthRoleAddRequest { name: "reader".to_owned() }).await.unwrap();
    let perm = Permission {
        perm_type: permission::Type::Read.into(),
        key: "a".into(),
        ..Default::default()
    };
    let grant = AuthRoleGrantPermissionRequest { name: "reader".to_owned(), perm: Some(perm) };
    client.role_grant_permission(grant).await.unwrap();
    for (user, role) in [("root", "root"), ("alice", "reader")] {
        let (user, role) = (user.to_owned(), role.to_owned());
        client.user_grant_role(AuthUserGrantRoleRequest { user, role }).await.unwrap();
    }
    client.auth_enable(AuthEnableRequest {}).await.unwrap();
    let (name, password) = ("alice".to_owned(), "p".to_owned());
    let alice = client.authenticate(AuthenticateRequest { name, password }).await.unwrap();
    alice.into_inner().token
}

#[tokio::test]
async fn a_watch_needs_permission_to_read_the_range() {
    let member = Fixture::start();
    let token = enable_users(&member).await;
    let refused =
        |code: &str, text: &str| format!("rpc error: code = {code} desc = etcdserver: {text}");
    let denied = refused("PermissionDenied", "permission denied");
    let cases = [
        (Some(("token", &token[..])), key("a"), String::new()),
        (Some(("authorization", &format!("Bearer {token}"))), key("a"), String::new()),
        (Some(("token", &token)), key("b"), denied.clone()),
        (Some(("token", &token)), WatchCreateRequest { range_end: "b".into(), ..key("a") }, denied),
        (Some(("token", "unknown.1")), key("a"), refused("Unauthenticated", "invalid auth token")),
        (None, key("a"), refused("InvalidArgument", "user name is empty")),
    ];
    for (metadata, create, reason) in cases {
        let mut watch = Watch::open_with(&member, metadata).await.unwrap();
        watch.create(create).await;
        let response = watch.next().await;
        assert_eq!(response.cancel_reason, reason);
        assert_eq!((response.created, response.canceled), (true, !reason.is_empty()));
    }
}
