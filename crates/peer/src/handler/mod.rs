//! The handler of the peer port.
//!
//! ```text
//!   POST /raft                         204   a message                  pipeline
//!   GET  /raft/stream/msgapp/8e9e…     200   endless messages           stream
//!   GET  /raft/stream/message/8e9e…    200
//!   POST /raft/snapshot                204   a message and a database   snapshot
//!   GET  /raft/probing                 200   {"OK":true,"Now":"2026-11-16T04:44:39Z"}  rpc
//!   GET  /members                      200   [{"id":…,"peerURLs":["http://10.0.0.1:2380"]}]
//!   POST /members/promote/12           200   the members, as above
//!   GET  /members/hashkv               200   {"header":{"revision":7},"hash":…}
//!   POST /leases, /leases/internal     200   protobuf                   leases
//!   GET  /downgrade/enabled            200   false
//!   other paths                              the fallback handler
//! ```
//!
//! Status codes, texts and headers are etcd's to the byte: members compare them. The exception:
//! before a member is attached, requests are answered with 503.
//!
//! Invariants: bodies are bounded, and memory grows only as they arrive; clients that send too
//! slowly are cut off; no request makes a member panic.

mod body_reader;
mod json;
mod leases;
mod pipeline;
mod response_body;
mod responses;
mod rpc;
mod snapshot;
mod stream;

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use net::Connection;

use crate::headers::{self, CLUSTER_ID, Incompatible, PEER_URLS, SERVER_FROM};
use crate::peers::prober;
use crate::shared::{Attached, TransportShared};
use crate::stream::STREAM_PATH;
pub(crate) use response_body::ResponseBody;
use responses::HandlerResponse;

/// The most bytes of messages in reception by requests. Beyond it, the oldest requests are evicted.
pub(crate) const RECEIVING_BYTES_MAX: usize = 512 << 20;
/// The most snapshots in reception. Only a leader sends them, one per member.
pub(crate) const SNAPSHOTS_MAX: usize = 4;

/// The path prefix of learner promotions.
const PROMOTE_PATH: &str = "/members/promote/";

/// Answers requests of other members.
#[derive(Debug)]
pub(crate) struct Handler<R> {
    shared: Arc<TransportShared>,
    fallback: Arc<R>,
}

/// The path of a request, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'a> {
    Pipeline,
    /// A stream, with the rest of the path.
    Stream(&'a str),
    Snapshot,
    Probing,
    Members,
    /// A promotion, with the id as written.
    Promote(&'a str),
    Hash,
    Leases,
    LeaseInternal,
    Downgrade,
    /// A path that needs a trailing slash.
    Redirect(&'static str),
}

impl Route<'_> {
    /// Parses a path. `None` for paths outside the peer protocol, and for paths that Go's server
    /// would redirect to a cleaned form.
    fn of(path: &str) -> Option<Route<'_>> {
        if path.split('/').skip(1).any(|part| matches!(part, "." | "..")) || path.contains("//") {
            return None;
        }
        Some(match path {
            "/raft" => Route::Pipeline,
            "/raft/snapshot" => Route::Snapshot,
            prober::PATH => Route::Probing,
            "/members" => Route::Members,
            "/members/hashkv" => Route::Hash,
            "/leases" => Route::Leases,
            "/leases/internal" => Route::LeaseInternal,
            "/downgrade/enabled" => Route::Downgrade,
            "/raft/stream" => Route::Redirect(STREAM_PATH),
            "/members/promote" => Route::Redirect(PROMOTE_PATH),
            path => match path.strip_prefix(STREAM_PATH) {
                Some(rest) => Route::Stream(rest),
                None => Route::Promote(path.strip_prefix(PROMOTE_PATH)?),
            },
        })
    }
}

impl<R> Handler<R> {
    pub(crate) fn new(shared: Arc<TransportShared>, fallback: Arc<R>) -> Handler<R> {
        Handler { shared, fallback }
    }
}

impl<R: net::Handler> net::Handler for Handler<R> {
    type Body = ResponseBody<R::Body>;

    async fn call(
        &self,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody<R::Body>> {
        let path = request.uri().path().to_owned();
        let Some(route) = Route::of(&path) else {
            return self.fallback.call(connection, request).await.map(ResponseBody::fallback);
        };
        let Some(attached) = self.shared.attached() else {
            let answer =
                responses::error(StatusCode::SERVICE_UNAVAILABLE, "the member is not started");
            return answer.map(ResponseBody::whole);
        };
        let call = Call { shared: &self.shared, attached: &attached, connection };
        if let Route::Stream(rest) = route {
            return match call.stream(rest, &request) {
                Ok(stream) => stream.map(ResponseBody::stream),
                Err(refused) => (*refused).map(ResponseBody::whole),
            };
        }
        call.answer(route, request).await.map(ResponseBody::whole)
    }
}

/// A request with the state needed to answer it.
struct Call<'a> {
    shared: &'a Arc<TransportShared>,
    attached: &'a Attached,
    connection: &'a Arc<Connection>,
}

impl Call<'_> {
    async fn answer(&self, route: Route<'_>, request: Request<Incoming>) -> HandlerResponse {
        if let Some(refused) = refuse_method(route, request.method()) {
            return refused;
        }
        match route {
            Route::Pipeline => self.pipeline(request).await,
            Route::Snapshot => self.snapshot(request).await,
            Route::Probing => rpc::probing(),
            Route::Members => self.members(),
            Route::Promote(id) => {
                let token = headers::text(request.headers(), &AUTHORIZATION).map(ToOwned::to_owned);
                self.promote(id, token).await
            }
            Route::Hash => self.hash(request).await,
            Route::Leases => self.renew(request).await,
            Route::LeaseInternal => self.lease(request).await,
            Route::Downgrade => self.downgrade().await,
            Route::Redirect(path) => {
                responses::redirect(request.method(), path, request.uri().query())
            }
            // Answered before.
            Route::Stream(_) => responses::not_found(),
        }
    }

    fn cluster_id(&self) -> HeaderValue {
        headers::value(&self.attached.identity.cluster)
    }

    /// Adds the header with the cluster id.
    fn with_cluster_id(&self, mut answer: HandlerResponse) -> HandlerResponse {
        answer.headers_mut().insert(CLUSTER_ID, self.cluster_id());
        answer
    }

    /// Refuses senders of another cluster or of an incompatible release.
    fn check(&self, headers: &http::HeaderMap) -> Result<(), Incompatible> {
        let identity = &self.attached.identity;
        headers::check(headers, identity.member, identity.cluster)
    }

    fn incompatible(&self, error: Incompatible) -> HandlerResponse {
        self.with_cluster_id(responses::error(StatusCode::PRECONDITION_FAILED, error))
    }

    /// Adds a remote if the sender is unknown and names its URLs.
    fn add_remote(&self, headers: &http::HeaderMap) {
        let from = headers::member(headers, &SERVER_FROM);
        if let (Some(from), Some(urls)) = (from, headers::text(headers, &PEER_URLS)) {
            self.shared.add_remote(self.attached, from, urls);
        }
    }
}

/// Refuses a wrong method. Compat: as in etcd, the `Allow` header is set except for leases.
fn refuse_method(route: Route<'_>, method: &Method) -> Option<HandlerResponse> {
    let right = match route {
        Route::Probing | Route::Redirect(_) => return None,
        Route::Pipeline | Route::Snapshot | Route::Promote(_) => Method::POST,
        Route::Leases | Route::LeaseInternal => Method::POST,
        Route::Stream(_) | Route::Members | Route::Hash | Route::Downgrade => Method::GET,
    };
    let names_method = !matches!(route, Route::Leases | Route::LeaseInternal);
    (*method != right).then(|| responses::wrong_method(names_method.then_some(right)))
}
