//! Registration with a discovery service over gRPC.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod fake_auth;
mod fake_service;

use std::sync::Arc;
use std::time::Duration;

use discovery::{Settings, User, join};
use prometheus::Registry;
use testkit::ports::ReservedPort;
use testkit::waiting::{TIMEOUT, yield_until};
use tonic::Status;

use fake_service::FakeService;

fn settings(endpoints: &[&str]) -> Settings {
    Settings {
        token: "t".to_owned(),
        endpoints: endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        dial_timeout: Duration::from_secs(2),
        proxies: Arc::default(),
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
async fn three_members_discover_each_other() {
    let service = FakeService::with_size("3");
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
async fn invalid_sizes_and_endpoints_are_refused() {
    let service = FakeService::with_size("many");
    let url = service.start().await;
    let bad = joined(settings(&[&url]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(bad, Err("discovery: size key is bad".to_owned()));
    let no_endpoints = joined(settings(&[]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(no_endpoints, Err("etcdclient: no available endpoints".to_owned()));
    let invalid = joined(settings(&["ftp://x:1"]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(
        invalid,
        Err("URL scheme must be http, https, unix, or unixs: ftp://x:1".to_owned())
    );
}

/// Settings with a user and password.
fn settings_of_root(endpoints: &[&str]) -> Settings {
    let user = User { name: "root".to_owned(), password: "secret".to_owned(), ..User::default() };
    Settings { user, ..settings(endpoints) }
}

/// Registers another member once the watch with this number is open.
async fn register_during_watch(service: FakeService, number: u32) {
    yield_until("the watch is open", || service.auth.calls("watch") >= number).await;
    service.store(b"/_etcd/registry/t/members/2", b"m2=http://10.0.0.2:2380");
}

#[tokio::test]
async fn a_stale_token_is_replaced_in_every_request() {
    for stale in [
        Status::unauthenticated("etcdserver: invalid auth token"),
        Status::invalid_argument("etcdserver: revision of auth store is old"),
        Status::invalid_argument("etcdserver: user name is empty"),
    ] {
        let service = FakeService::with_size("2");
        service.auth.require_token(None);
        for call in ["range", "put", "watch"] {
            service.auth.refuse(call, stale.clone());
        }
        let url = service.start().await;
        let other = tokio::spawn(register_during_watch(service.clone(), 2));
        let joined = joined(settings_of_root(&[&url]), 1, "m1=http://10.0.0.1:2380");
        let joined =
            tokio::time::timeout(TIMEOUT, joined).await.expect("timed out joining the cluster");
        assert_eq!(joined.unwrap(), "m1=http://10.0.0.1:2380,m2=http://10.0.0.2:2380");
        other.await.unwrap();
        // The first token and one per refusal; two reads of two requests, and one after the lost
        // watch.
        let calls = ["authenticate", "range", "put", "watch"].map(|call| service.auth.calls(call));
        assert_eq!(calls, [4, 1 + 2 + 2 + 1, 2, 2], "{stale}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_at_once() {
    let service = FakeService::with_size("1");
    service.auth.require_token(None);
    let url = service.start().await;
    let mut settings = settings_of_root(&[&url]);
    "guess".clone_into(&mut settings.user.password);
    let refused = joined(settings, 1, "m1=http://10.0.0.1:2380").await;
    let text = "etcdserver: authentication failed, invalid user ID or password";
    assert_eq!(refused, Err(text.to_owned()));
}

#[tokio::test]
async fn a_configured_token_is_used_without_authentication() {
    let service = FakeService::with_size("1");
    service.auth.require_token(Some("given"));
    let url = service.start().await;
    let user = User { token: "given".to_owned(), ..User::default() };
    let settings = Settings { user, ..settings(&[&url]) };
    let joined = joined(settings, 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(joined.unwrap(), "m1=http://10.0.0.1:2380");
    assert_eq!(service.auth.calls("authenticate"), 0);
}

#[tokio::test]
async fn authentication_is_tried_once_where_it_is_disabled() {
    let service = FakeService::with_size("1");
    let url = service.start().await;
    let joined = joined(settings_of_root(&[&url]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(joined.unwrap(), "m1=http://10.0.0.1:2380");
    assert_eq!(service.auth.calls("authenticate"), 1);
}

#[tokio::test]
async fn any_endpoint_may_issue_the_first_token() {
    let unused = ReservedPort::new();
    let dead = format!("http://{}", unused.address());
    let service = FakeService::with_size("1");
    service.auth.require_token(None);
    let url = service.start().await;
    let joined = joined(settings_of_root(&[&dead, &url]), 1, "m1=http://10.0.0.1:2380").await;
    assert_eq!(joined.unwrap(), "m1=http://10.0.0.1:2380");
}

#[tokio::test]
async fn message_limits_are_enforced() {
    let m1 = "m1=http://10.0.0.1:2380";
    let service = FakeService::with_size("1");
    let url = service.start().await;
    let with = |request_bytes_max, answer_bytes_max| Settings {
        request_bytes_max,
        answer_bytes_max,
        ..settings(&[&url])
    };
    let invalid = joined(with(Some(3), Some(2)), 1, m1).await;
    let text = "gRPC message recv limit (2 bytes) must be greater than send limit (3 bytes)";
    assert_eq!(invalid, Err(text.to_owned()));
    // The size key and its value exceed the limits. The request is retried forever.
    let ended = |settings| tokio::time::timeout(Duration::from_secs(1), joined(settings, 1, m1));
    assert!(ended(with(Some(16), None)).await.is_err());
    assert_eq!(service.auth.calls("range"), 0, "the request was not sent");
    assert!(ended(with(None, Some(16))).await.is_err());
    assert_eq!(service.auth.calls("put"), 0);
    let joined = joined(with(Some(1024), Some(1024)), 1, m1).await;
    assert_eq!(joined.unwrap(), m1);
}

/// The name of the service has no address, so that only the proxy could reach it.
#[tokio::test]
async fn the_service_is_reached_through_a_proxy() {
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let (proxies, _) =
        net::ProxySettings::from_variables(|name| (name == "HTTPS_PROXY").then(|| url.clone()));
    let proxies = Arc::new(proxies.for_grpc());
    let settings = Settings { proxies, ..settings(&["http://discovery.invalid:2379"]) };
    let _joining = tokio::spawn(joined(settings, 1, "m1=http://10.0.0.1:2380"));
    let connect = async {
        let (connection, _) = proxy.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            connection.readable().await.unwrap();
            match connection.try_read_buf(&mut head) {
                Ok(read) => assert!(read > 0, "the connection was closed"),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
        String::from_utf8(head).unwrap()
    };
    let head = tokio::time::timeout(TIMEOUT, connect).await;
    let head = head.expect("timed out waiting for a request at the proxy");
    assert!(head.starts_with("CONNECT discovery.invalid:2379 HTTP/1.1\r\n"), "{head}");
}
