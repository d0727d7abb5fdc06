//! The gateway over a websocket: browsers can read an HTTP stream, but cannot write one.
//!
//! ```text
//!   GET /v3/watch                                101 Switching Protocols
//!   Upgrade: websocket                     ─►
//!   Sec-WebSocket-Protocol: Bearer, a.1          Sec-WebSocket-Protocol: Bearer
//!
//!   {"create_request":{"key":"Zm9v"}}      ─►    each websocket message is a line of the body:
//!                                          ◄─    {"result":{…,"created":true}}
//! ```
//!
//! Browsers cannot set headers here, so a token comes as a subprotocol or as a cookie. Unary
//! methods are served, too.
//!
//! Invariants: a message is at most as long as a body; one line of a response is in memory at a
//! time; the call ends when either side does.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERER,
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use net::Connection;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::{AfterMessage, Gateway};
use crate::body::Body;

/// The constant that the client's key is hashed with (RFC 6455).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const VERSION: HeaderValue = HeaderValue::from_static("13");
const BEARER: &str = "Bearer";

/// The most messages that are received ahead of the handler.
const MESSAGES_MAX: usize = 4;

/// The size of the read and write buffers.
const BUFFER_BYTES: usize = 4 << 10;

/// Returns the upgrade of a connection, if the request is for a websocket and the connection
/// supports it.
pub(crate) fn upgrade_of(head: &Parts) -> Option<OnUpgrade> {
    let is_requested = has_token(&head.headers, &CONNECTION, "upgrade")
        && has_token(&head.headers, &UPGRADE, "websocket");
    head.extensions.get::<OnUpgrade>().filter(|_| is_requested).cloned()
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
}

/// Accepts a websocket, or refuses it. Its messages become the body of a request to the path.
pub(crate) fn accept(
    gateway: &Gateway,
    connection: &Connection,
    path: &str,
    head: &Parts,
    upgrade: OnUpgrade,
) -> Response<Body> {
    let key = match key_of(head) {
        Ok(key) => key,
        Err(status) => return refused(status),
    };
    let call = Call {
        gateway: gateway.clone(),
        connection: connection.for_upgraded(),
        path: path.to_owned(),
        head: inner_request(&head.headers),
    };
    connection.on_upgrade(async move {
        if let Ok(upgraded) = upgrade.await {
            call.run(upgraded).await;
        }
    });
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept_value(key));
    if protocol(&head.headers).is_some_and(|protocol| protocol.starts_with(BEARER)) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(BEARER));
    }
    response
}

/// Returns the key of the client, or the status of the refusal.
fn key_of(head: &Parts) -> Result<&HeaderValue, StatusCode> {
    if head.method != Method::GET {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let key = head.headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
    let is_supported = has_token(&head.headers, &SEC_WEBSOCKET_VERSION, "13");
    key.filter(|_| is_supported).ok_or(StatusCode::BAD_REQUEST)
}

/// Returns the value of `Sec-WebSocket-Accept` for a key.
fn accept_value(key: &HeaderValue) -> HeaderValue {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), GUID].concat());
    HeaderValue::from_str(&STANDARD.encode(hash)).expect("base64 is a valid header value")
}

fn refused(status: StatusCode) -> Response<Body> {
    let text = status.canonical_reason().unwrap_or_default();
    let mut response = crate::http::error(status, text).map(Body::from);
    response.headers_mut().insert(SEC_WEBSOCKET_VERSION, VERSION);
    response
}

/// A call over a websocket.
struct Call {
    gateway: Gateway,
    connection: Connection,
    path: String,
    head: Parts,
}

impl Call {
    async fn run(self, upgraded: Upgraded) {
        let bytes_max = self.gateway.grpc.json_bytes_max();
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(BUFFER_BYTES)
            .max_message_size(Some(bytes_max))
            .max_frame_size(Some(bytes_max));
        let io = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let (mut to, mut from) = socket.split();
        let (sender, body) = Messages::channel();
        let reading = async {
            while let Some(Ok(message)) = from.next().await {
                let text = match message {
                    Message::Text(text) => text.into(),
                    Message::Binary(bytes) => bytes,
                    Message::Close(_) => return,
                    _ => continue,
                };
                // An error means that the call ends soon; until then pings must be answered.
                let _ = sender.send(text).await;
            }
        };
        let writing = async {
            let after = AfterMessage::KeepOpen;
            let call = self.gateway.call(&self.connection, &self.path, &self.head, body, after);
            let mut lines = Lines::new(call.await.into_body());
            while let Some(line) = lines.next().await {
                if to.send(line).await.is_err() {
                    return;
                }
            }
            // The client may have disconnected already.
            let _ = to.close().await;
        };
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
    }
}

/// Creates the request that the gateway would receive without a websocket.
fn inner_request(headers: &HeaderMap) -> Parts {
    let (mut parts, ()) = Request::post("/").body(()).expect("a valid request").into_parts();
    for name in [ORIGIN, REFERER] {
        if let Some(value) = headers.get(&name) {
            parts.headers.insert(name, value.clone());
        }
    }
    let token = cookie(headers, "token").or_else(|| {
        let (_, token) = protocol(headers)?.split_once("Bearer,")?;
        Some(token.trim())
    });
    let token = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    if let Some(token) = token {
        parts.headers.insert(AUTHORIZATION, token);
    }
    parts
}

fn protocol(headers: &HeaderMap) -> Option<&str> {
    headers.get(SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = values.flat_map(|value| value.split(';'));
    cookies.find_map(|cookie| {
        let (cookie_name, value) = cookie.trim().split_once('=')?;
        (cookie_name == name).then(|| value.trim_matches('"'))
    })
}

/// A body of websocket messages as they arrive.
struct Messages(mpsc::Receiver<Bytes>);

impl Messages {
    fn channel() -> (mpsc::Sender<Bytes>, Messages) {
        let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
        (sender, Messages(receiver))
    }
}

impl http_body::Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The newline ends a number that is a whole message.
        let line = |bytes: Bytes| Bytes::from([&bytes, &b"\n"[..]].concat());
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(line(bytes)))))
    }
}

/// Splits a body into lines, each a websocket message.
struct Lines {
    body: Body,
    text: BytesMut,
}

impl Lines {
    fn new(body: Body) -> Lines {
        Lines { body, text: BytesMut::new() }
    }

    async fn next(&mut self) -> Option<Message> {
        let mut searched = 0;
        loop {
            let at = self.text[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(at) = at {
                let line = self.text.split_to(searched + at);
                self.text.advance(1);
                searched = 0;
                if !line.is_empty() {
                    return Some(message(line.freeze()));
                }
                continue;
            }
            searched = self.text.len();
            let frame = std::future::poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
            match frame {
                Some(Ok(frame)) => {
                    frame
                        .into_data()
                        .into_iter()
                        .for_each(|data| self.text.extend_from_slice(&data));
                }
                Some(Err(never)) => match never {},
                None if self.text.is_empty() => return None,
                None => return Some(message(self.text.split().freeze())),
            }
        }
    }
}

/// Creates a text message. JSON is always UTF-8.
fn message(line: Bytes) -> Message {
    match line.try_into() {
        Ok(text) => Message::Text(text),
        Err(_) => Message::text(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(headers: &[(HeaderName, &'static str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    /// The example of RFC 6455.
    #[test]
    fn the_accept_value_is_the_hash_of_the_key() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept_value(&key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_token_comes_from_a_cookie_or_the_subprotocol() {
        let token =
            |given: &[_]| inner_request(&headers(given)).headers.get(AUTHORIZATION).cloned();
        assert_eq!(token(&[]), None);
        assert_eq!(token(&[(SEC_WEBSOCKET_PROTOCOL, "Bearer, a.1")]).unwrap(), "Bearer a.1");
        assert_eq!(token(&[(SEC_WEBSOCKET_PROTOCOL, "Bearer,a.1")]).unwrap(), "Bearer a.1");
        assert_eq!(token(&[(SEC_WEBSOCKET_PROTOCOL, "chat")]), None);
        let both = [(SEC_WEBSOCKET_PROTOCOL, "Bearer, a.1"), (COOKIE, "x=1; token=b.2")];
        assert_eq!(token(&both).unwrap(), "Bearer b.2");
    }

    #[tokio::test]
    async fn each_line_is_a_message() {
        let mut lines = Lines::new(Body::from(Bytes::from_static(b"{}\n\n[1]\n2")));
        let mut all = Vec::new();
        while let Some(Message::Text(line)) = lines.next().await {
            all.push(line.to_string());
        }
        assert_eq!(all, ["{}", "[1]", "2"]);
    }
}
