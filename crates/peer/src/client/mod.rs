//! Requests to other members, over HTTP/1.1.
//!
//! ```text
//!   ask    a short request, a short answer; over a connection that is there, if one is       POST /raft, GET /version …
//!   open   a connection of its own, for what lasts                                           streams, snapshots
//! ```
//!
//! What is always true: a connection ends with whoever uses it, so nothing is left behind by who gives up; few are kept for the next request, and not for long;
//! an answer is bounded by whoever asks. Redirects are answers like others, and not followed.

mod body;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use net::{DialError, Dialer};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::addresses::Url;
pub(crate) use body::{Outgoing, Pieces, pieces};

/// Connections to one URL that wait for a request.
const IDLE_MAX: usize = 8;
/// How long they wait. etcd closes its end after five seconds of silence.
const IDLE_TIME_MAX: Duration = Duration::from_millis(4_500);
/// URLs that connections are kept to.
const IDLE_URLS_MAX: usize = 256;

/// Marks a request that must not be heard twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Once;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// There is no connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The connection ended, or what came over it is no HTTP.
    #[error("{}", innermost(.0))]
    Http(#[from] hyper::Error),
    /// It is longer than it should be.
    #[error("response body exceeds {0} bytes limit")]
    TooLong(usize),
    /// It did not come in time.
    #[error("i/o timeout")]
    Late,
    /// There is nowhere to ask.
    #[error("no URL is known")]
    NoUrl,
}

/// hyper says what it did; its cause says why.
fn innermost(error: &hyper::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// An answer that has come to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// What it says, for people.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks other members. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    dialer: Dialer,
    idle: Arc<Mutex<BTreeMap<String, Vec<Idle>>>>,
}

/// A connection that waits.
#[derive(Debug)]
struct Idle {
    wire: Wire,
    since: Instant,
}

impl Client {
    pub(crate) fn new(dialer: Dialer) -> Client {
        Client { dialer, idle: Arc::default() }
    }

    /// Asks, and waits for all of the answer.
    pub(crate) async fn ask(
        &self,
        url: &Url,
        request: Request<Bytes>,
        answer_bytes_max: usize,
    ) -> Result<Reply, CallError> {
        let may_repeat = request.extensions().get::<Once>().is_none();
        if may_repeat && let Some(mut wire) = self.take(url) {
            match wire.exchange(url, request.clone(), answer_bytes_max).await {
                Ok(reply) => return Ok(self.done(url, wire, reply)),
                // The other end was about to close it. What was asked may have been heard.
                Err(CallError::Http(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut wire = self.dial(url).await?;
        let reply = wire.exchange(url, request, answer_bytes_max).await?;
        Ok(self.done(url, wire, reply))
    }

    /// Asks over a connection of its own. What is returned first keeps it open.
    pub(crate) async fn open(
        &self,
        url: &Url,
        request: Request<Outgoing>,
    ) -> Result<(Wire, Response<Incoming>), CallError> {
        let mut wire = self.dial(url).await?;
        let response = wire.send(url, request).await?;
        Ok((wire, response))
    }

    async fn dial(&self, url: &Url) -> Result<Wire, CallError> {
        let link = self.dialer.dial(url.target()).await?;
        let builder = http1::Builder::new().title_case_headers(true).to_owned();
        let (sender, connection) = builder.handshake(TokioIo::new(link)).await?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%error, "connection to another member ended");
            }
        });
        Ok(Wire { sender, task: task.abort_handle() })
    }

    /// A connection that is there and has not waited for too long.
    fn take(&self, url: &Url) -> Option<Wire> {
        let mut idle = self.lock();
        let waiting = idle.get_mut(url.text())?;
        waiting.retain(Idle::is_fresh);
        waiting.pop().map(|idle| idle.wire)
    }

    /// Keeps a connection for the next request, if there may be one.
    fn done(&self, url: &Url, wire: Wire, reply: Reply) -> Reply {
        let mut idle = self.lock();
        if idle.len() >= IDLE_URLS_MAX {
            idle.retain(|_, waiting| waiting.iter().any(Idle::is_fresh));
        }
        let is_known = idle.contains_key(url.text());
        if wire.sender.is_closed() || (!is_known && idle.len() >= IDLE_URLS_MAX) {
            return reply;
        }
        let waiting = idle.entry(url.text().to_owned()).or_default();
        waiting.retain(Idle::is_fresh);
        if waiting.len() < IDLE_MAX {
            waiting.push(Idle { wire, since: Instant::now() });
        }
        reply
    }

    /// Closes what waits.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < IDLE_TIME_MAX && !self.wire.sender.is_closed()
    }
}

/// A connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Wire {
    sender: SendRequest<Outgoing>,
    task: AbortHandle,
}

impl Wire {
    async fn send(
        &mut self,
        url: &Url,
        mut request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, CallError> {
        if let Ok(host) = HeaderValue::from_str(&url.host()) {
            request.headers_mut().insert(header::HOST, host);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    async fn exchange(
        &mut self,
        url: &Url,
        request: Request<Bytes>,
        bytes_max: usize,
    ) -> Result<Reply, CallError> {
        let response = self.send(url, request.map(Outgoing::Whole)).await?;
        let (parts, body) = response.into_parts();
        let body = collect(body, bytes_max).await?;
        Ok(Reply { status: parts.status, headers: parts.headers, body })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All of an answer, if it is not too long. Memory grows as it comes.
pub(crate) async fn collect(mut body: Incoming, bytes_max: usize) -> Result<Bytes, CallError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if bytes.len() + piece.len() > bytes_max {
            return Err(CallError::TooLong(bytes_max));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}
