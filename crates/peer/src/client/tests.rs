use std::time::Duration;

use net::ProxySettings;
use testkit::waiting::TIMEOUT;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn dialer(proxy: &str) -> Dialer {
    let info = tls::Info { protocol: tls::Protocol::Http1, ..tls::Info::default() };
    let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
    let side = tls::ClientTls::load("peer-client", info, &metrics).unwrap();
    let (proxies, errors) =
        ProxySettings::from_variables(|name| (name == "HTTP_PROXY").then(|| proxy.to_owned()));
    assert_eq!(errors, []);
    let dialer = Dialer::new(Arc::new(side), Duration::from_secs(30));
    Dialer { proxies: Arc::new(proxies), ..dialer }
}

/// Answers one request as a proxy would, and returns its head.
async fn answer(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    String::from_utf8(head).unwrap()
}

/// Sends a request, and answers it. Returns the reply and the head of the request.
async fn exchange(
    client: &Client,
    url: &PeerUrl,
    request: Request<Bytes>,
    listener: &TcpListener,
) -> (PeerReply, String) {
    // A request that fails would leave the listener waiting for a connection.
    let request = async { client.request(url, request, 16).await.unwrap() };
    let both = async { tokio::join!(request, answer(listener)) };
    let exchanged = tokio::time::timeout(TIMEOUT, both).await;
    exchanged.unwrap_or_else(|_| panic!("timed out after {TIMEOUT:?} waiting for a reply"))
}

/// Go sends the same line and headers for this URL and proxy.
#[tokio::test]
async fn a_proxy_gets_the_whole_url_and_its_login() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://u:p%40ss@{}", listener.local_addr().unwrap());
    let client = Client::new(dialer(&proxy));
    let url = PeerUrl::parse("http://m1.test:2380").unwrap();
    let request = Request::get("/raft/probing?x=1").body(Bytes::new()).unwrap();
    let (reply, head) = exchange(&client, &url, request, &listener).await;
    assert_eq!(reply.text(), "ok");
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("GET http://m1.test:2380/raft/probing?x=1 HTTP/1.1"));
    let headers: Vec<&str> = lines.collect();
    assert!(headers.contains(&"Host: m1.test:2380"), "{head}");
    assert!(headers.contains(&"Proxy-Authorization: Basic dTpwQHNz"), "{head}");
}

#[tokio::test]
async fn a_peer_that_is_reached_directly_gets_the_path() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // Loopback addresses are never reached through a proxy.
    let client = Client::new(dialer("http://u:secret@192.0.2.1:3128"));
    let url = PeerUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let request = Request::get("/version").body(Bytes::new()).unwrap();
    let (reply, head) = exchange(&client, &url, request, &listener).await;
    assert_eq!(reply.text(), "ok");
    assert_eq!(head.lines().next(), Some("GET /version HTTP/1.1"));
    assert!(!head.contains("Proxy-Authorization"), "{head}");
}
