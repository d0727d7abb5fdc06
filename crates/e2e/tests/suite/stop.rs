//! An orderly end: nobody is left waiting, and nothing that was promised is lost.

use e2e::process::Signal;
use e2e::{Client, Member, Options, Sandbox};
use proto::etcdserverpb::LeaseGrantRequest;
use proto::v3lockpb::LockRequest;
use tokio::sync::oneshot;
use tonic::{Code, Status};

const READY: &str = "ready to serve client requests";

#[tokio::test(flavor = "multi_thread")]
async fn open_watches_end_as_unavailable() {
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
async fn whoever_waits_for_a_lock_is_told_that_it_will_not_come() {
    let member = Member::start(Options::new());
    let client = member.client();
    lock(&client).await.unwrap();
    let waiting = tokio::spawn({
        let client = member.client();
        async move { lock(&client).await }
    });
    // The second key under the lock is that of whoever waits.
    let mut keys = client.watch_prefix("lock/", 1).await.unwrap();
    keys.events(2).await.unwrap();
    member.process().signal(Signal::TERM);
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(member.wait().end.signal(), Some(Signal::TERM));
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_under_way_are_done_or_refused_and_never_half() {
    let member = Member::start(Options::new());
    let (first, began) = oneshot::channel();
    let writer = tokio::spawn(write_until_refused(member.client(), first));
    began.await.unwrap();
    let stopped = member.terminate();
    assert_eq!(stopped.end.signal(), Some(Signal::TERM));
    let (written, status) = writer.await.unwrap();
    assert!(is_refusal(&status), "{status:?}");

    let member = stopped.start();
    let kept = member.client().get_prefix("k/").await.unwrap().count;
    assert!(kept == written || kept == written + 1, "{kept} keys, {written} acknowledged");
}

/// Either the member says so, or the library: if the connection was gone before it could send, or told it that what it has just sent is not looked at.
fn is_refusal(status: &Status) -> bool {
    let unseen = status.code() == Code::Internal
        && format!("{status:?}").contains(r#"GoAway(b"", NO_ERROR, Remote)"#);
    unseen || [Code::Unavailable, Code::Cancelled].contains(&status.code())
}

/// It may wait, or be refused with a word about the lock; it may not serve.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_never_serve_from_one_directory() {
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

/// Puts keys one after the other. How many were acknowledged, and why there were not more.
async fn write_until_refused(client: Client, first: oneshot::Sender<()>) -> (i64, tonic::Status) {
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
