//! Orderly shutdown: every waiter gets a response, and no acknowledged write is lost.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

use e2e::process::Signal;
use e2e::{Client, Member, Options, Sandbox};
use proto::etcdserverpb::LeaseGrantRequest;
use proto::v3lockpb::LockRequest;
use tokio::sync::oneshot;
use tonic::{Code, Status};

const READY: &str = "ready to serve client requests";

#[tokio::test(flavor = "multi_thread")]
async fn open_watches_end_with_unavailable() {
    let member = Member::start(Options::new());
    let client = member.client();
    let mut watching = client.watch_prefix("k", 0).await.unwrap();
    client.put("k", "v").await.unwrap();
    assert_eq!(watching.events(1).await.unwrap().len(), 1);
    member.process().signal(Signal::TERM);
    let ended = watching.next().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
    assert_eq!(member.wait().end.signal(), Some(Signal::TERM));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_waiter_gets_an_error_when_the_server_stops() {
    let member = Member::start(Options::new());
    let client = member.client();
    lock(&client).await.unwrap();
    let waiting = tokio::spawn({
        let client = member.client();
        async move { lock(&client).await }
    });
    // The second key under the lock belongs to the waiter.
    let mut keys = client.watch_prefix("lock/", 1).await.unwrap();
    keys.events(2).await.unwrap();
    member.process().signal(Signal::TERM);
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(member.wait().end.signal(), Some(Signal::TERM));
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_in_flight_are_applied_or_rejected() {
    let member = Member::start(Options::new());
    let (first, began) = oneshot::channel();
    let writer = tokio::spawn(write_until_rejected(member.client(), first));
    began.await.unwrap();
    let stopped = member.terminate();
    assert_eq!(stopped.end.signal(), Some(Signal::TERM));
    let (written, status) = writer.await.unwrap();
    assert!(is_refusal(&status), "{status:?}");

    let member = stopped.start();
    let kept = member.client().get_prefix("k/").await.unwrap().count;
    assert!(kept == written || kept == written + 1, "{kept} keys, {written} acknowledged");
}

/// Whether the member, or the client library after a lost connection or GOAWAY, rejected the call.
fn is_refusal(status: &Status) -> bool {
    let unseen = status.code() == Code::Internal
        && format!("{status:?}").contains(r#"GoAway(b"", NO_ERROR, Remote)"#);
    let lost = status.code() == Code::Unknown && is_lost_connection(status);
    unseen || lost || [Code::Unavailable, Code::Cancelled].contains(&status.code())
}

/// Whether an error of the socket is the cause: the member has exited.
fn is_lost_connection(status: &Status) -> bool {
    let is_lost = |cause: &(dyn Error + 'static)| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe))
    };
    iter::successors(status.source(), |&cause| cause.source()).any(is_lost)
}

/// The second server may wait, or be rejected with an error about the lock; it must not serve.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_never_serve_one_data_directory() {
    let member = Member::start(Options::new());
    let client = member.client();
    let second = Sandbox::new();
    let data = member.data_dir().display().to_string();
    let options = Options::new().flag("data-dir", data);
    let other = second.spawn(&options);
    other.stderr().wait_for_message("starting an etcd server");
    for number in 0..20 {
        client.put(&format!("k/{number}"), "v").await.unwrap();
    }
    assert!(other.stderr().record(READY).is_none(), "{}", other.stderr().tail());
    let first = member.terminate();
    other.stderr().wait_for_message(READY);
    let client = Client::new(&format!("http://{}", second.client_address()));
    assert_eq!(client.get_prefix("k/").await.unwrap().count, 20);
    drop((other, first));
}

/// Puts keys one after the other. Returns the number of acknowledged ones and the error.
async fn write_until_rejected(client: Client, first: oneshot::Sender<()>) -> (i64, tonic::Status) {
    let mut first = Some(first);
    for number in 0.. {
        if let Err(status) = client.put(&format!("k/{number}"), "v").await {
            return (number, status);
        }
        if let Some(first) = first.take() {
            first.send(()).unwrap();
        }
    }
    unreachable!("the numbers do not end")
}

async fn lock(client: &Client) -> Result<(), tonic::Status> {
    let grant = LeaseGrantRequest { ttl: 600, id: 0 };
    let lease = client.lease().lease_grant(grant).await?.into_inner().id;
    client.lock().lock(LockRequest { name: "lock".into(), lease }).await?;
    Ok(())
}
