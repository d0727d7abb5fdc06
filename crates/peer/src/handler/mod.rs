//! The peer port.
//!
//! ```text
//!   POST /raft                         204   a message                                       pipeline
//!   GET  /raft/stream/msgapp/8e9e…     200   what there is to say, without end               stream
//!   GET  /raft/stream/message/8e9e…    200
//!   POST /raft/snapshot                204   a message, and a database                       snapshot
//!   GET  /raft/probing                 200   {"OK":true,"Now":"2026-11-16T04:44:39Z"}        questions
//!   GET  /members                      200   [{"id":…,"peerURLs":["http://10.0.0.1:2380"]}]
//!   POST /members/promote/12           200   the same
//!   GET  /members/hashkv               200   {"header":{"revision":7},"hash":…}
//!   POST /leases, /leases/internal     200   protobuf                                        leases
//!   GET  /downgrade/enabled            200   false
//!   anything else                            somebody else's
//! ```
//!
//! Status codes, texts and headers are etcd's to the byte: members compare them. What is not: whoever asks before there is a member to ask gets a 503.
//!
//! What is always true: a body is bounded, and memory for it grows only as it comes; who sends one too slowly is cut off; nothing that comes here makes a member panic.

mod answer;
mod body;
mod intake;
mod leases;
mod pipeline;
mod questions;
mod snapshot;
mod stream;

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use net::Connection;

use crate::headers::{self, CLUSTER_ID, Incompatible, PEER_URLS, SERVER_FROM};
use crate::prober;
use crate::shared::{Attached, Shared};
use crate::stream::STREAM_PATH;
pub(crate) use body::Body;

/// Bytes of all messages together that are being received by requests. For more, those that have taken the longest are cut off.
pub(crate) const RECEIVING_BYTES_MAX: usize = 512 << 20;
/// Snapshots that are received at a time. Only a leader sends them, and one member is sent one.
pub(crate) const SNAPSHOTS_MAX: usize = 4;

/// Where learners are promoted.
const PROMOTE_PATH: &str = "/members/promote/";

/// Answers other members.
#[derive(Debug)]
pub(crate) struct Handler<R> {
    shared: Arc<Shared>,
    rest: Arc<R>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'a> {
    Pipeline,
    /// And what is behind that in the path.
    Stream(&'a str),
    Snapshot,
    Probing,
    Members,
    /// And the id, as it was written.
    Promote(&'a str),
    Hash,
    Leases,
    LeaseInternal,
    Downgrade,
    /// Only with a slash behind it.
    Elsewhere(&'static str),
}

impl Route<'_> {
    /// None if it is nothing that members ask each other, or a path that Go's server would have people write in another way.
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
            "/raft/stream" => Route::Elsewhere(STREAM_PATH),
            "/members/promote" => Route::Elsewhere(PROMOTE_PATH),
            path => match path.strip_prefix(STREAM_PATH) {
                Some(rest) => Route::Stream(rest),
                None => Route::Promote(path.strip_prefix(PROMOTE_PATH)?),
            },
        })
    }
}

impl<R> Handler<R> {
    pub(crate) fn new(shared: Arc<Shared>, rest: Arc<R>) -> Handler<R> {
        Handler { shared, rest }
    }
}

impl<R: net::Handler> net::Handler for Handler<R> {
    type Body = Body<R::Body>;

    async fn call(
        &self,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
    ) -> Response<Body<R::Body>> {
        let path = request.uri().path().to_owned();
        let Some(route) = Route::of(&path) else {
            return self.rest.call(connection, request).await.map(Body::rest);
        };
        let Some(attached) = self.shared.attached() else {
            let answer =
                answer::error(StatusCode::SERVICE_UNAVAILABLE, "the member is not started");
            return answer.map(Body::whole);
        };
        let call = Call { shared: &self.shared, attached: &attached, connection };
        if let Route::Stream(rest) = route {
            return match call.stream(rest, &request) {
                Ok(stream) => stream.map(Body::stream),
                Err(refused) => (*refused).map(Body::whole),
            };
        }
        call.answer(route, request).await.map(Body::whole)
    }
}

/// A request, and all that is there to answer it.
struct Call<'a> {
    shared: &'a Arc<Shared>,
    attached: &'a Attached,
    connection: &'a Arc<Connection>,
}

impl Call<'_> {
    async fn answer(&self, route: Route<'_>, request: Request<Incoming>) -> answer::Answer {
        if let Some(refused) = refuse_method(route, request.method()) {
            return refused;
        }
        match route {
            Route::Pipeline => self.pipeline(request).await,
            Route::Snapshot => self.snapshot(request).await,
            Route::Probing => questions::probing(),
            Route::Members => self.members(),
            Route::Promote(id) => {
                let token = headers::text(request.headers(), &AUTHORIZATION).map(ToOwned::to_owned);
                self.promote(id, token).await
            }
            Route::Hash => self.hash(request).await,
            Route::Leases => self.renew(request).await,
            Route::LeaseInternal => self.lease(request).await,
            Route::Downgrade => self.downgrade().await,
            Route::Elsewhere(path) => {
                answer::redirect(request.method(), path, request.uri().query())
            }
            // It has been answered.
            Route::Stream(_) => answer::not_found(),
        }
    }

    fn cluster_id(&self) -> HeaderValue {
        headers::value(&self.attached.identity.cluster)
    }

    /// The same, with the id of the cluster.
    fn signed(&self, mut answer: answer::Answer) -> answer::Answer {
        answer.headers_mut().insert(CLUSTER_ID, self.cluster_id());
        answer
    }

    /// Refuses who is of another cluster, or of a release that cannot be spoken with.
    fn check(&self, headers: &http::HeaderMap) -> Result<(), Incompatible> {
        let identity = &self.attached.identity;
        headers::check(headers, identity.member, identity.cluster)
    }

    fn incompatible(&self, error: Incompatible) -> answer::Answer {
        self.signed(answer::error(StatusCode::PRECONDITION_FAILED, error))
    }

    /// Whoever speaks and is not known says where it can be answered.
    fn add_remote(&self, headers: &http::HeaderMap) {
        let from = headers::member(headers, &SERVER_FROM);
        if let (Some(from), Some(urls)) = (from, headers::text(headers, &PEER_URLS)) {
            self.shared.add_remote(self.attached, from, urls);
        }
    }
}

/// The refusal of a method that is not the one. etcd names the right one, except for leases.
fn refuse_method(route: Route<'_>, method: &Method) -> Option<answer::Answer> {
    let right = match route {
        Route::Probing | Route::Elsewhere(_) => return None,
        Route::Pipeline | Route::Snapshot | Route::Promote(_) => Method::POST,
        Route::Leases | Route::LeaseInternal => Method::POST,
        Route::Stream(_) | Route::Members | Route::Hash | Route::Downgrade => Method::GET,
    };
    let names_it = !matches!(route, Route::Leases | Route::LeaseInternal);
    (*method != right).then(|| answer::wrong_method(names_it.then_some(right)))
}
