//! The context of a call, given to its handler beside the request.

use std::sync::Arc;

use grpc::{Reply, Status};
use http::HeaderMap;
use net::{Connection, SendBudget};
use proto::etcdserverpb::ResponseHeader;
use server::{Credentials, Server};

use crate::interceptor::{Metadata, credentials};
use crate::observe::{Attributes, MethodMetrics, Operation, SpanGuard, TracedCall};
use crate::services::Shared;

/// A call of the `grpc` crate with our context and observer.
pub(crate) type Call<'a, B> = grpc::Call<'a, Context, crate::observe::CallObserver, B>;
/// The requests of a stream.
pub(crate) type Requests<B, Q> = grpc::Requests<B, Q, MethodMetrics>;
/// The replies of a stream.
pub(crate) type Replies = grpc::Replies<MethodMetrics>;

/// The context of a call.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    shared: Arc<Shared>,
    /// The credentials of the caller.
    pub(crate) credentials: Credentials,
    /// Replies of the connection that its client has not read.
    pub(crate) send_budget: Arc<SendBudget>,
    /// The trace of the call, if it is traced.
    pub(crate) traced: Option<Arc<TracedCall>>,
    pub(crate) metadata: Metadata,
}

impl Context {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        connection: &Connection,
        headers: &HeaderMap,
    ) -> Context {
        let (shared, send_budget) = (Arc::clone(shared), Arc::clone(&connection.send_budget));
        let tracer = shared.config.tracer.as_ref();
        let traced = TracedCall::start(tracer, &shared.server, connection, headers);
        let mut credentials = credentials(connection, headers);
        credentials.timings = traced.as_ref().map(|traced| traced.timings());
        Context { shared, credentials, send_budget, traced, metadata: Metadata::read(headers) }
    }

    /// The local member.
    pub(crate) fn server(&self) -> &Server {
        &self.shared.server
    }

    /// The state that all calls share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns a reply that may be sent now. While too many bytes of all connections are unread, a
    /// long one is dropped: returns none when there is room to build it again. `request_bytes` are
    /// kept until then.
    ///
    /// # Errors
    /// Too many requests wait.
    pub(crate) async fn keep_if_room<R: Reply>(
        &self,
        request_bytes: usize,
        reply: R,
    ) -> Result<Option<R>, Status> {
        if !self.send_budget.must_wait_with(reply.size_hint()) {
            return Ok(Some(reply));
        }
        drop(reply);
        let (budget, room) = (self.shared.transport.receive_budget(), &self.send_budget);
        budget.count_while(request_bytes, room.wait_for_room()).await?;
        Ok(None)
    }

    /// Creates the header of a response at a revision.
    pub(crate) fn header(&self, revision: i64) -> ResponseHeader {
        self.server().header(revision)
    }

    /// Opens a child span until the guard is dropped, if the call is traced. The stage timings of
    /// the server from now on belong to it.
    pub(crate) fn span(
        &mut self,
        name: &'static str,
        attributes: impl FnOnce() -> Attributes,
    ) -> Option<SpanGuard> {
        let traced = Arc::clone(self.traced.as_ref()?);
        let span = SpanGuard::new(traced, name, attributes());
        self.credentials.timings = Some(span.timings());
        Some(span)
    }

    /// Opens an operation: a child span, and the steps for etcd's trace log line.
    pub(crate) fn operation(
        &mut self,
        name: &'static str,
        attributes: impl FnOnce() -> Attributes,
    ) -> Operation {
        Operation::new(self.span(name, attributes))
    }
}
