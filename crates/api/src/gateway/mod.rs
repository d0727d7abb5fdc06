//! The JSON gateway: every gRPC method also as a POST of JSON, below `/v3/`.
//!
//! ```text
//!   POST /v3/kv/range  {"key":"Zm9v"}  ─► route ─► metadata ─► json::read  ─►  0a 03 66 6f 6f
//!                                                                              services
//!   200  {"header":{…},"kvs":[…]}      ◄─ response ◄────────── json::write ◄─  0a 1c 08 …
//! ```
//!
//! A request becomes a gRPC call within the process, with a message, metadata and a deadline, and
//! is counted, intercepted and answered like any other. A response is translated to JSON as it is
//! sent, chunk by chunk. Each message of a stream is a line: `{"result":{…}}`, or `{"error":{…}}`
//! at the end of a stream that fails.
//!
//! Invariants:
//!
//! - Paths, names, bodies, headers, codes and error texts are those of etcd's gateway.
//! - A request is at most [`Grpc::json_bytes_max`] long, whatever its headers claim, and the memory
//!   of partially received requests is bounded. Of a response, one chunk of JSON is in memory
//!   beside the message.
//! - Certificates identify no user here: the caller is identified by a token.

mod json;
mod metadata;
mod replies;
mod requests;
mod response;
pub(crate) mod websocket;

use bytes::Bytes;
use grpc::{Code, RequestBody, Status};
use http::request::Parts;
use http::{HeaderMap, Method, Response};
use net::Connection;
use proto::shape::{Route, Streams};

use crate::body::Body;
use crate::drain::{drain, drain_before};
use crate::services::Grpc;
use metadata::Metadata;
use replies::Replies;
use requests::{SingleMessage, TranslatedRequests};

pub(crate) use response::JsonBody;

/// Names another method than POST, for clients that can send only POST.
const METHOD_OVERRIDE: &str = "x-http-method-override";

/// The JSON gateway. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    grpc: Grpc,
}

impl Gateway {
    /// Creates a gateway to the gRPC services.
    pub(crate) fn new(grpc: Grpc) -> Gateway {
        Gateway { grpc }
    }

    /// Answers a request to a path below `/v3/`. The path is already percent-decoded.
    pub(crate) async fn call<B: RequestBody>(
        &self,
        connection: &Connection,
        path: &str,
        head: &Parts,
        body: B,
        after: AfterMessage,
    ) -> Response<Body> {
        let metadata =
            route(path, head).and_then(|route| Ok((route, Metadata::read(&head.headers)?)));
        match metadata {
            Ok((route, metadata)) => {
                let call = Call { grpc: &self.grpc, connection, route, metadata, head, after };
                match route.streams {
                    Streams::Unary => call.unary(body).await,
                    Streams::Server => call.server_stream(body).await,
                    Streams::Both => call.bidi_stream(body).await,
                }
            }
            Err(refused) => {
                let mut response = response::refused(&refused);
                drain_before(head, body, &mut response).await;
                response
            }
        }
    }
}

/// Finds the method of a request.
fn route(path: &str, head: &Parts) -> Result<&'static Route, Status> {
    let Some(route) = Route::find(path) else {
        return Err(Status::new(Code::NotFound, "Not Found"));
    };
    if head.method != Method::POST || is_overridden(&head.headers) {
        return Err(Status::new(Code::Unimplemented, "Method Not Allowed"));
    }
    Ok(route)
}

/// Reports whether a form overrides the method POST.
fn is_overridden(headers: &HeaderMap) -> bool {
    let form = |value: &http::HeaderValue| value == "application/x-www-form-urlencoded";
    let other = |value: &http::HeaderValue| {
        !value.is_empty() && !value.as_bytes().eq_ignore_ascii_case(b"POST")
    };
    headers.get(http::header::CONTENT_TYPE).is_some_and(form)
        && headers.get(METHOD_OVERRIDE).is_some_and(other)
}

/// The treatment of a body after its single message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterMessage {
    /// Read the rest, so that the connection can be reused.
    Read,
    /// Leave the body open: it ends with the response.
    KeepOpen,
}

/// A request whose method is known.
struct Call<'a> {
    grpc: &'a Grpc,
    connection: &'a Connection,
    route: &'static Route,
    metadata: Metadata,
    head: &'a Parts,
    after: AfterMessage,
}

impl Call<'_> {
    async fn unary<B: RequestBody>(self, body: B) -> Response<Body> {
        let message = match self.message(body).await {
            Ok(message) => message,
            Err(refused) => return response::refused(&refused),
        };
        if let Some(late) = self.refuse_late() {
            return late;
        }
        let mut replies = self.replies(SingleMessage::new(message)).await;
        let with_trailers = accepts_trailers(&self.head.headers);
        match replies.next().await {
            Ok(Some(message)) => response::unary(self.route.response, message, with_trailers),
            Ok(None) => response::refused(&Status::new(Code::Internal, "no reply")),
            Err(status) => response::refused(&status),
        }
    }

    async fn server_stream<B: RequestBody>(self, body: B) -> Response<Body> {
        match self.message(body).await {
            Ok(message) => self.stream(SingleMessage::new(message)).await,
            Err(refused) => response::refused(&refused),
        }
    }

    /// Reads the single message of a body.
    async fn message<B: RequestBody>(&self, mut body: B) -> Result<Bytes, Status> {
        let shape = self.route.request;
        let message = requests::single(&mut body, shape, self.grpc, self.after).await;
        if message.is_err() && self.after == AfterMessage::Read {
            let _ = drain(body).await;
        }
        message
    }

    async fn bidi_stream<B: RequestBody>(self, body: B) -> Response<Body> {
        let requests = TranslatedRequests::new(body, self.route.request, self.grpc);
        self.stream(requests).await
    }

    /// Answers a stream. As with etcd, the headers wait for the first reply.
    async fn stream<B: RequestBody>(self, requests: B) -> Response<Body> {
        if let Some(late) = self.refuse_late() {
            return late;
        }
        let mut replies = self.replies(requests).await;
        let has_started = replies.has_started();
        let first: Result<Option<Bytes>, Status> = replies.next().await;
        response::stream(self.route.response, first, replies, has_started)
    }

    async fn replies<B: RequestBody>(&self, requests: B) -> Replies {
        let Metadata { headers, deadline } = &self.metadata;
        let method = self.route.method;
        let call = self.grpc.invoke(self.connection, method, headers, *deadline, requests);
        Replies::new(call.await)
    }

    /// Refuses a call whose deadline has passed before it begins.
    fn refuse_late(&self) -> Option<Response<Body>> {
        let has_passed = self.metadata.deadline.has_passed();
        has_passed.then(|| response::refused(&Status::DEADLINE_EXCEEDED))
    }
}

/// Reports whether a client accepts trailers.
fn accepts_trailers(headers: &HeaderMap) -> bool {
    let te = headers.get(http::header::TE).and_then(|value| value.to_str().ok());
    te.is_some_and(|te| te.to_ascii_lowercase().contains("trailers"))
}
