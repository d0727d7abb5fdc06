//! What answers requests.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::connection::Connection;

/// Any error, on its way into a log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Answers requests. One value serves all connections of a listener, on all runtimes.
///
/// A request is dropped when its client resets the stream or goes away: what must be finished regardless belongs to
/// [`Background::spawn`](crate::Background::spawn). On HTTP/2 each call is a task of its own, on the thread of its connection; so it should
/// not compute for long there: that is what the blocking threads of its runtime are for ([`BLOCKING_THREADS_MAX`](crate::BLOCKING_THREADS_MAX)).
///
/// Futures are `Send` although they never move: that costs nothing here, and what they are made of elsewhere mostly is.
pub trait Handler: Send + Sync + 'static {
    /// The body of a response. An error ends its stream, or its connection for HTTP/1.
    type Body: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static;

    /// Whether HTTP/1 is spoken too. If not, whoever speaks it is closed the connection on.
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
