//! The trait that answers requests.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::connection::Connection;

/// Any error, to be logged.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Answers requests. One value serves all connections of a listener, on all runtimes.
///
/// The future of a request is dropped when its client resets the stream or disconnects. Work that
/// must finish regardless belongs to [`Background::spawn`](crate::Background::spawn). On HTTP/2
/// each call is a task of its own on the thread of its connection, so it must not compute for long
/// there: use the blocking threads of the runtime
/// ([`BLOCKING_THREADS_MAX`](crate::BLOCKING_THREADS_MAX)).
///
/// Futures must be `Send`, although they never move between threads: nearly all futures that
/// handlers await are `Send` already.
pub trait Handler: Send + Sync + 'static {
    /// The body of a response. An error resets the stream, or closes the connection for HTTP/1.
    type Body: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;

    /// Returns whether HTTP/1 is served too. If not, a connection that speaks it is closed.
    fn speaks_http1(&self) -> bool {
        true
    }

    /// Answers one request.
    fn call(
        &self,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}
