//! The HTTP/1.1 client for requests to peers.
//!
//! ```text
//!   request       a short exchange, over an idle connection if any   POST /raft, GET /version …
//!   open_stream   a long exchange, over a new connection             streams, snapshots
//! ```
//!
//! Invariants: a connection ends when its user drops it, so a canceled request leaves none
//! open; a bounded number of idle connections is kept for a short time; the caller bounds the
//! response. Redirects are returned, not followed.

mod body;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use net::{DialError, Dialer, Forwarding};
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::peers::url_picker::PeerUrl;
pub(crate) use body::{BodyWriter, RequestBody, body_channel};

/// The most idle connections per URL.
const IDLE_MAX: usize = 8;
/// The time for which they are kept. etcd closes its end after five seconds of silence.
const IDLE_TIME_MAX: Duration = Duration::from_millis(4_500);
/// The most URLs with idle connections.
const IDLE_URLS_MAX: usize = 256;

/// Marks a request that must not be sent twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotRetryable;

/// The reason there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The connection could not be established.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The connection ended, or the response is not HTTP.
    #[error("{}", innermost(.0))]
    Http(#[from] hyper::Error),
    /// The response is too long.
    #[error("response body exceeds {0} bytes limit")]
    TooLong(usize),
    /// The response did not arrive in time.
    #[error("i/o timeout")]
    Timeout,
    /// The peer has no URL.
    #[error("no URL is known")]
    NoUrl,
}

/// Returns the root cause: hyper's own error says only which operation failed.
fn innermost(error: &hyper::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct PeerReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl PeerReply {
    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends requests to peers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    dialer: Dialer,
    idle: Arc<Mutex<BTreeMap<String, Vec<IdleConnection>>>>,
}

/// An idle connection.
#[derive(Debug)]
struct IdleConnection {
    connection: ClientConnection,
    since: Instant,
}

impl Client {
    pub(crate) fn new(dialer: Dialer) -> Client {
        Client { dialer, idle: Arc::default() }
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn request(
        &self,
        url: &PeerUrl,
        request: Request<Bytes>,
        answer_bytes_max: usize,
    ) -> Result<PeerReply, RequestError> {
        let may_repeat = request.extensions().get::<NotRetryable>().is_none();
        if may_repeat && let Some(mut connection) = self.take_idle(url) {
            match connection.exchange(url, request.clone(), answer_bytes_max).await {
                Ok(reply) => return Ok(self.recycle(url, connection, reply)),
                // The peer was closing the idle connection. It may have received the request.
                Err(RequestError::Http(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut connection = self.dial(url).await?;
        let reply = connection.exchange(url, request, answer_bytes_max).await?;
        Ok(self.recycle(url, connection, reply))
    }

    /// Sends a request over a connection of its own, which lives as long as the returned handle.
    pub(crate) async fn open_stream(
        &self,
        url: &PeerUrl,
        request: Request<RequestBody>,
    ) -> Result<(ClientConnection, Response<Incoming>), RequestError> {
        let mut connection = self.dial(url).await?;
        let response = connection.send(url, request).await?;
        Ok((connection, response))
    }

    async fn dial(&self, url: &PeerUrl) -> Result<ClientConnection, RequestError> {
        let stream = self.dialer.dial(url.target()).await?;
        let forwarding = stream.forwarding().cloned();
        let builder = http1::Builder::new().title_case_headers(true).to_owned();
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%error, "connection to another member ended");
            }
        });
        Ok(ClientConnection { sender, forwarding, task: task.abort_handle() })
    }

    /// Returns an idle connection that is not too old.
    fn take_idle(&self, url: &PeerUrl) -> Option<ClientConnection> {
        let mut idle = self.idle.lock();
        let waiting = idle.get_mut(url.text())?;
        waiting.retain(IdleConnection::is_fresh);
        waiting.pop().map(|idle| idle.connection)
    }

    /// Keeps a connection for the next request, if possible.
    fn recycle(&self, url: &PeerUrl, connection: ClientConnection, reply: PeerReply) -> PeerReply {
        let mut idle = self.idle.lock();
        if idle.len() >= IDLE_URLS_MAX {
            idle.retain(|_, waiting| waiting.iter().any(IdleConnection::is_fresh));
        }
        let is_known = idle.contains_key(url.text());
        if connection.sender.is_closed() || (!is_known && idle.len() >= IDLE_URLS_MAX) {
            return reply;
        }
        let waiting = idle.entry(url.text().to_owned()).or_default();
        waiting.retain(IdleConnection::is_fresh);
        if waiting.len() < IDLE_MAX {
            waiting.push(IdleConnection { connection, since: Instant::now() });
        }
        reply
    }

    /// Closes all idle connections.
    pub(crate) fn close(&self) {
        self.idle.lock().clear();
    }
}

impl IdleConnection {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < IDLE_TIME_MAX && !self.connection.sender.is_closed()
    }
}

/// A connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    sender: SendRequest<RequestBody>,
    /// The proxy that requests are sent to, if there is one.
    forwarding: Option<Forwarding>,
    task: AbortHandle,
}

impl ClientConnection {
    async fn send(
        &mut self,
        url: &PeerUrl,
        mut request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, RequestError> {
        if let Ok(host) = HeaderValue::from_str(&url.target().authority()) {
            request.headers_mut().insert(header::HOST, host);
        }
        if let Some(forwarding) = &self.forwarding {
            address_to_proxy(&mut request, url, forwarding);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    async fn exchange(
        &mut self,
        url: &PeerUrl,
        request: Request<Bytes>,
        bytes_max: usize,
    ) -> Result<PeerReply, RequestError> {
        let response = self.send(url, request.map(RequestBody::Whole)).await?;
        let (parts, body) = response.into_parts();
        let body = collect(body, bytes_max).await?;
        Ok(PeerReply { status: parts.status, headers: parts.headers, body })
    }
}

/// Gives a request the form that a proxy expects: the whole URL, and the login of the proxy.
fn address_to_proxy(request: &mut Request<RequestBody>, url: &PeerUrl, forwarding: &Forwarding) {
    let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    // An authority that is not one of a URI cannot have been connected to.
    if let Ok(whole) = format!("http://{}{path}", url.target().authority()).parse() {
        *request.uri_mut() = whole;
    }
    let authorization = forwarding.authorization.as_deref().map(HeaderValue::from_str);
    if let Some(Ok(mut authorization)) = authorization {
        authorization.set_sensitive(true);
        request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization);
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a body up to `bytes_max`. Memory grows as bytes arrive.
pub(crate) async fn collect(mut body: Incoming, bytes_max: usize) -> Result<Bytes, RequestError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame?.into_data() else { continue };
        if bytes.len() + chunk.len() > bytes_max {
            return Err(RequestError::TooLong(bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests;
