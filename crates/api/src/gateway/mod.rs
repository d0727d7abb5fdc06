//! The JSON gateway: every method of gRPC also as a POST of JSON, below `/v3/`.
//!
//! ```text
//!   POST /v3/kv/range  {"key":"Zm9v"}   ─► route ─► metadata ─► json::read  ─► grpc   0a 03 66 6f 6f
//!   200  {"header":{…},"kvs":[…]}       ◄─ answer ◄───────────  json::write ◄─        0a 1c 08 …
//! ```
//!
//! A request becomes a call of gRPC within the process, with a message, metadata and a deadline, and is counted, admitted and answered as any other; an answer becomes
//! JSON when it goes out, piece by piece, where it lies. Of streams, each message is a line: `{"result":{…}}`, or `{"error":{…}}` at the end of one that fails.
//!
//! What is always true:
//!
//! - Paths, names, bodies, headers and codes are those of etcd's gateway, and what is wrong with a request is told in its words.
//! - A request is no longer than [`Grpc::json_bytes_max`], whatever it says of itself, and what is kept of all that are not whole is bounded; of an answer one piece of JSON is in memory beside the message.
//! - Nobody is known by the name in a certificate: who asks is told by a token.

mod answer;
mod json;
mod metadata;
mod replies;
mod requests;
pub(crate) mod websocket;

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Response};
use net::Connection;
use proto::shape::{Route, Streams};

use crate::body::Body;
use crate::grpc::{Code, Deadline, Grpc, RequestBody, Status};
use crate::unread::discard;
use metadata::Metadata;
use replies::Replies;
use requests::{One, Requests};

pub(crate) use answer::Json;

/// What says that a request is about another method than POST, for those who can only send that.
const METHOD_OVERRIDE: &str = "x-http-method-override";

/// The JSON gateway. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    grpc: Grpc,
}

impl Gateway {
    /// Before a member.
    pub(crate) fn new(grpc: Grpc) -> Gateway {
        Gateway { grpc }
    }

    /// Answers a request to a path below `/v3/`, which is given without what was escaped in it.
    pub(crate) async fn call<B: RequestBody>(
        &self,
        connection: &Connection,
        path: &str,
        asked: &Parts,
        body: B,
        rest: Rest,
    ) -> Response<Body> {
        let metadata =
            route(path, asked).and_then(|route| Ok((route, Metadata::read(&asked.headers)?)));
        match metadata {
            Ok((route, metadata)) => {
                let call = Call { grpc: &self.grpc, connection, route, metadata, asked, rest };
                match route.streams {
                    Streams::Unary => call.unary(body).await,
                    Streams::Server => call.server_stream(body).await,
                    Streams::Both => call.bidi_stream(body).await,
                }
            }
            Err(refused) => {
                discard(body).await;
                answer::refused(&refused)
            }
        }
    }
}

/// The method that is asked for.
fn route(path: &str, asked: &Parts) -> Result<&'static Route, Status> {
    let Some(route) = Route::find(path) else {
        return Err(Status::new(Code::NotFound, "Not Found"));
    };
    if asked.method != Method::POST || is_overridden(&asked.headers) {
        return Err(Status::new(Code::Unimplemented, "Method Not Allowed"));
    }
    Ok(route)
}

/// Whether what came as a form is not meant as a POST.
fn is_overridden(headers: &HeaderMap) -> bool {
    let form = |value: &http::HeaderValue| value == "application/x-www-form-urlencoded";
    let other = |value: &http::HeaderValue| {
        !value.is_empty() && !value.as_bytes().eq_ignore_ascii_case(b"POST")
    };
    headers.get(http::header::CONTENT_TYPE).is_some_and(form)
        && headers.get(METHOD_OVERRIDE).is_some_and(other)
}

/// What to do with what follows the one message of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It is read, so that the connection can go on.
    Read,
    /// Nothing: it ends when the answer does.
    Open,
}

/// A request whose method is known.
struct Call<'a> {
    grpc: &'a Grpc,
    connection: &'a Connection,
    route: &'static Route,
    metadata: Metadata,
    asked: &'a Parts,
    rest: Rest,
}

impl Call<'_> {
    async fn unary<B: RequestBody>(self, body: B) -> Response<Body> {
        let message = match self.message(body).await {
            Ok(message) => message,
            Err(refused) => return answer::refused(&refused),
        };
        let mut replies = self.replies(One::new(message)).await;
        let with_trailers = accepts_trailers(&self.asked.headers);
        match replies.next().await {
            Ok(Some(message)) => answer::unary(self.route.response, message, with_trailers),
            Ok(None) => answer::refused(&Status::new(Code::Internal, "no reply")),
            Err(status) => answer::refused(&status),
        }
    }

    async fn server_stream<B: RequestBody>(self, body: B) -> Response<Body> {
        match self.message(body).await {
            Ok(message) => self.stream(One::new(message)).await,
            Err(refused) => answer::refused(&refused),
        }
    }

    /// The one message of a body.
    async fn message<B: RequestBody>(&self, mut body: B) -> Result<Bytes, Status> {
        let shape = self.route.request;
        let message = requests::one(&mut body, shape, self.grpc, self.rest).await;
        if message.is_err() && self.rest == Rest::Read {
            discard(body).await;
        }
        message
    }

    async fn bidi_stream<B: RequestBody>(self, body: B) -> Response<Body> {
        let requests = Requests::new(body, self.route.request, self.grpc);
        self.stream(requests).await
    }

    /// As with etcd, nothing is said before the first reply.
    async fn stream<B: RequestBody>(self, requests: B) -> Response<Body> {
        let mut replies = self.replies(requests).await;
        let is_begun = replies.is_begun();
        let first: Result<Option<Bytes>, Status> = replies.next().await;
        answer::stream(self.route.response, first, replies, is_begun)
    }

    async fn replies<B: RequestBody>(&self, requests: B) -> Replies {
        let Metadata { headers, timeout } = &self.metadata;
        if *timeout == Some(Duration::ZERO) {
            return Replies::none(Status::DEADLINE_EXCEEDED);
        }
        let deadline = timeout.map_or_else(Deadline::default, Deadline::after);
        let method = self.route.method;
        let call = self.grpc.invoke(self.connection, method, headers, deadline, requests);
        Replies::new(call.await)
    }
}

/// Whether a client would look at headers behind the body.
fn accepts_trailers(headers: &HeaderMap) -> bool {
    let te = headers.get(http::header::TE).and_then(|value| value.to_str().ok());
    te.is_some_and(|te| te.to_ascii_lowercase().contains("trailers"))
}
