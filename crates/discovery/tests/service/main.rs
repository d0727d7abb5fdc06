//! A list that a service keeps: what goes over the wire.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod door;
mod fake;

use std::time::Duration;

use discovery::{Settings, User, join};
use prometheus::Registry;
use tokio::net::TcpListener;
use tonic::Status;

use fake::Service;

/// How long something may take that must not take for ever.
const PATIENCE: Duration = Duration::from_secs(60);

fn settings(endpoints: &[&str]) -> Settings {
    Settings {
        token: "t".to_owned(),
        endpoints: endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        dial_timeout: Duration::from_secs(2),
        request_timeout: Duration::from_secs(5),
        keepalive_time: Duration::from_secs(2),
        keepalive_timeout: Duration::from_secs(6),
        tls: None,
        request_bytes_max: None,
        answer_bytes_max: None,
        user: User::default(),
    }
}

async fn joined(settings: Settings, id: u64, info: &'static str) -> Result<String, String> {
    let metrics = tls::Metrics::new(&Registry::new()).unwrap();
    join(&settings, &metrics, id, info, |_| true).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn three_members_find_each_other() {
    let service = Service::with_size("3");
    let url = service.start().await;
    let first = tokio::spawn(joined(settings(&[&url]), 1, "m1=http://10.0.0.1:2380"));
    let second = tokio::spawn(joined(settings(&[&url]), 2, "m2=http://10.0.0.2:2380"));
    let third = tokio::spawn(joined(settings(&[&url]), 3, "m3=http://10.0.0.3:2380"));
    let first = first.await.unwrap().unwrap();
    assert_eq!(first, second.await.unwrap().unwrap());
    assert_eq!(first, third.await.unwrap().unwrap());
    for member in ["m1=http://10.0.0.1:2380", "m2=http://10.0.0.2:2380", "m3=http://10.0.0.3:2380"]
    {
        assert!(first.contains(member), "{first}");
    }
    let late = joined(settings(&[&url]), 4, "m4=http://10.0.0.4:2380").await;
    assert_eq!(late, Err("discovery: cluster is full".to_owned()));
}

#[tokio::test]
async fn without_a_size_there_is_no_cluster() {
    let service = Service::with_size("many");
    let url = service.start().await;
    let bad = joined(settings(&[&url]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(bad, Err("discovery: size key is bad".to_owned()));
    let nobody = joined(settings(&[]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(nobody, Err("etcdclient: no available endpoints".to_owned()));
    let odd = joined(settings(&["ftp://x:1"]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(odd, Err("URL scheme must be http, https, unix, or unixs: ftp://x:1".to_owned()));
}

/// The settings of a user with a password.
fn settings_of_root(endpoints: &[&str]) -> Settings {
    let user = User { name: "root".to_owned(), password: "secret".to_owned(), ..User::default() };
    Settings { user, ..settings(endpoints) }
}

/// Lets somebody else come once there is a watch that was let in: the one with this number.
async fn comes_to_watch(service: Service, number: u32) {
    while service.door.calls("watch") < number {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    service.store(b"/_etcd/registry/t/members/2", b"m2=http://10.0.0.2:2380");
}

#[tokio::test]
async fn a_token_that_counts_no_more_is_replaced_whatever_was_asked() {
    for stale in [
        Status::unauthenticated("etcdserver: invalid auth token"),
        Status::invalid_argument("etcdserver: revision of auth store is old"),
        Status::invalid_argument("etcdserver: user name is empty"),
    ] {
        let service = Service::with_size("2");
        service.door.lock(None);
        for call in ["range", "put", "watch"] {
            service.door.refuse(call, stale.clone());
        }
        let url = service.start().await;
        let other = tokio::spawn(comes_to_watch(service.clone(), 2));
        let joined = joined(settings_of_root(&[&url]), 1, "m1=http://10.0.0.1:2380");
        let joined = tokio::time::timeout(PATIENCE, joined).await.expect("no endless retries");
        assert_eq!(joined.unwrap(), "m1=http://10.0.0.1:2380,m2=http://10.0.0.2:2380");
        other.await.unwrap();
        // The first token, and one more each time; two lists of two requests, and one after the watch was lost.
        let calls = ["authenticate", "range", "put", "watch"].map(|call| service.door.calls(call));
        assert_eq!(calls, [4, 1 + 2 + 2 + 1, 2, 2], "{stale}");
    }
}

#[tokio::test]
async fn who_is_not_known_is_told_at_once() {
    let service = Service::with_size("1");
    service.door.lock(None);
    let url = service.start().await;
    let mut settings = settings_of_root(&[&url]);
    "guess".clone_into(&mut settings.user.password);
    let refused = joined(settings, 1, "m1=http://10.0.0.1:2380").await;
    let text = "etcdserver: authentication failed, invalid user ID or password";
    assert_eq!(refused, Err(text.to_owned()));
}

#[tokio::test]
async fn a_token_that_was_given_is_shown_and_no_other_asked_for() {
    let service = Service::with_size("1");
    service.door.lock(Some("given"));
    let url = service.start().await;
    let user = User { token: "given".to_owned(), ..User::default() };
    let settings = Settings { user, ..settings(&[&url]) };
    let joined = joined(settings, 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(joined.unwrap(), "m1=http://10.0.0.1:2380");
    assert_eq!(service.door.calls("authenticate"), 0);
}

#[tokio::test]
async fn where_nobody_is_asked_for_a_token_it_is_asked_for_once() {
    let service = Service::with_size("1");
    let url = service.start().await;
    let joined = joined(settings_of_root(&[&url]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(joined.unwrap(), "m1=http://10.0.0.1:2380");
    assert_eq!(service.door.calls("authenticate"), 1);
}

#[tokio::test]
async fn the_first_token_may_come_from_any_endpoint() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let service = Service::with_size("1");
    service.door.lock(None);
    let url = service.start().await;
    let joined = joined(settings_of_root(&[&dead, &url]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(joined.unwrap(), "m1=http://10.0.0.1:2380");
}

#[tokio::test]
async fn messages_are_no_longer_than_they_may_be() {
    let m1 = "m1=http://10.0.0.1:2380";
    let service = Service::with_size("1");
    let url = service.start().await;
    let with = |request_bytes_max, answer_bytes_max| Settings {
        request_bytes_max,
        answer_bytes_max,
        ..settings(&[&url])
    };
    let odd = joined(with(Some(3), Some(2)), 1, m1).await;
    let text = "gRPC message recv limit (2 bytes) must be greater than send limit (3 bytes)";
    assert_eq!(odd, Err(text.to_owned()));
    // The key of the size is longer than that, and so is what is found there. Nobody ends what goes wrong again and again.
    let ended = |settings| tokio::time::timeout(Duration::from_secs(1), joined(settings, 1, m1));
    assert!(ended(with(Some(16), None)).await.is_err());
    assert_eq!(service.door.calls("range"), 0, "it never left");
    assert!(ended(with(None, Some(16))).await.is_err());
    assert_eq!(service.door.calls("put"), 0);
    let joined = joined(with(Some(1024), Some(1024)), 1, m1).await;
    assert_eq!(joined.unwrap(), m1);
}
