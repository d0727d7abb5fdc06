//! HTTP/1 requests are read by Go's rules. The expected bytes were sent by etcd 3.7.3.

use std::time::Duration;

use net::Config;

use crate::client::{Http1, Raw};
use crate::handler::Server;

/// Sends bytes and returns all that the server sends before it closes.
async fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(bytes).await;
    raw.read_to_end().await
}

/// Go's response to a head that it refuses.
fn refusal(status: &str, body: &str) -> String {
    let fields = "Content-Type: text/plain; charset=utf-8\r\nConnection: close";
    format!("HTTP/1.1 {status}\r\n{fields}\r\n\r\n{body}")
}

#[tokio::test]
async fn refused_heads_get_gos_bytes_and_the_connection_ends() {
    let server = Server::start(Config::default());
    let missing = "400 Bad Request: missing required Host header";
    let malformed = "400 Bad Request: malformed Host header";
    let version = "505 HTTP Version Not Supported: unsupported protocol version";
    for (head, status, body) in [
        ("what is this?\r\n", "400 Bad Request", "400 Bad Request"),
        ("GET /whoami HTTP/1.1\r\n\r\n", missing, missing),
        (
            "GET /whoami HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "400 Bad Request",
            "400 Bad Request",
        ),
        ("GET /whoami HTTP/1.1\r\nHost: a/b\r\n\r\n", malformed, malformed),
        ("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        ("GET /whoami HTTP/3.0\r\nHost: a\r\n\r\n", version, version),
        (
            "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
            "501 Not Implemented",
            "Unsupported transfer encoding",
        ),
    ] {
        assert_eq!(exchange(&server, head.as_bytes()).await, refusal(status, body), "{head:?}");
    }
}

#[tokio::test]
async fn a_refusal_waits_for_the_responses_before_it() {
    let mut server = Server::start(Config::default());
    let requests = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n\
                    POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
                    GET /whoami HTTP/1.1\r\n\r\n\
                    GET /whoami HTTP/1.1\r\nHost: a\r\n\r\n";
    let address = server.address();
    let releasing = async {
        server.next_started().await;
        server.release();
    };
    let answers = async {
        let mut raw = Raw::connect(&address).await;
        raw.send(requests.as_bytes()).await;
        raw.read_to_end().await
    };
    let (answers, ()) = tokio::join!(answers, releasing);
    let [held, echoed, refused] = ["held", "hello", "400 Bad Request: missing"]
        .map(|text| answers.find(text).unwrap_or_else(|| panic!("no {text} in {answers}")));
    assert!(held < echoed && echoed < refused, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    assert!(
        answers.ends_with("\r\n\r\n400 Bad Request: missing required Host header"),
        "{answers}"
    );
}

#[tokio::test]
async fn an_unknown_expectation_is_answered_with_417() {
    let server = Server::start(Config::default());
    for (version, fields) in [("1.1", "Host: a\r\n"), ("1.0", "")] {
        let head = format!("GET /whoami HTTP/{version}\r\n{fields}Expect: x\r\n\r\n");
        let answer = exchange(&server, head.as_bytes()).await;
        let (before, date) = answer.split_once("Date: ").unwrap_or_else(|| panic!("{answer}"));
        let status = format!("HTTP/{version} 417 Expectation Failed\r\n");
        assert_eq!(before, format!("{status}Connection: close\r\nContent-Length: 0\r\n"));
        assert!(date.ends_with(" GMT\r\n\r\n"), "{date}");
    }
}

#[tokio::test]
async fn a_chunked_body_ends_where_its_last_chunk_does() {
    let server = Server::start(Config::default());
    // The length is ignored, and so are extensions and trailers.
    let requests = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
                    5;x=y\r\nhello\r\n0\r\nX: y\r\n\r\n\
                    POST /echo HTTP/1.0\r\nTransfer-Encoding: gzip\r\nContent-Length: 3\r\n\r\nbye";
    let answers = exchange(&server, requests.as_bytes()).await;
    let statuses = answers.matches(" 200 OK").count();
    assert_eq!(statuses, 2, "{answers}");
    assert!(answers.contains("hello") && answers.ends_with("bye"), "{answers}");
}

#[tokio::test]
async fn other_protocols_are_closed_without_an_answer_if_so_configured() {
    let config = Config { closes_unknown_protocols: true, ..Config::default() };
    let server = Server::start(config);
    for line in ["SSH-2.0-x\r\n", "GET /whoami HTTP/2.0\r\n", "\r\n"] {
        assert_eq!(exchange(&server, line.as_bytes()).await, "", "{line:?}");
    }
    let answer = exchange(&server, b"GET /whoami HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request: missing"), "{answer}");
    let mut client = Http1::connect(&server.address()).await;
    assert!(client.get("/whoami").await.unwrap().starts_with("HTTP/1.1"));
}

#[tokio::test]
async fn an_upgraded_connection_carries_any_bytes() {
    let mut server = Server::start(Config::default());
    let mut raw = Raw::connect(&server.address()).await;
    // The first bytes of the other protocol arrive with the request.
    raw.send(
        b"GET /switch HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n\r\n\0zz",
    )
    .await;
    server.next_started().await;
    let answer = raw.read_until(b"\r\n\0zz").await;
    assert!(answer.starts_with(b"HTTP/1.1 101 Switching Protocols\r\n"));
}

#[tokio::test]
async fn a_client_that_closes_its_side_is_answered() {
    let mut server = Server::start(Config::default());
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\nGET /whoami HTTP/1.1\r\nHost: a\r\n\r\n").await;
    raw.close_write().await;
    server.next_started().await;
    server.release();
    let answers = raw.read_to_end().await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answers}");
}

#[tokio::test]
async fn without_grace_a_client_that_closes_its_side_ends_its_request() {
    let config = Config { half_closed_grace: Duration::ZERO, ..Config::default() };
    let mut server = Server::start(config);
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut ending = server.next_started().await;
    raw.close_write().await;
    ending.wait().await;
    assert_eq!(raw.read_to_end().await, "");
}

#[tokio::test]
async fn a_client_that_disconnects_ends_its_request() {
    let mut server = Server::start(Config::default());
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\nGET").await;
    let mut ending = server.next_started().await;
    drop(raw);
    ending.wait().await;
}
