//! gRPC: from a request of HTTP/2 to a call of the server, and back.
//!
//! ```text
//!   request ─► headers ─► method ─► message ─► counted ─► admitted ─► handler ─► reply ─► message, trailers
//!              content-    rpc       message    metrics    gate        kv, lease,  reply    body
//!              type,       (table)   (5 bytes,             (learner,   watch, …
//!              timeout                protobuf)             leader)       │
//!                  └───────────┴─────────┴──────────────────────┴─────────┴─► status, in trailers alone
//! ```
//!
//! There is one table of methods (`rpc`) and one of errors ([`errors`]). A service is a file with a function for each of its methods, which gets a decoded request and
//! gives a reply or a [`Status`]; everything that all methods have in common happens before and after, in `call`. Framing is our own: answers about keys are
//! copied from what is stored, with no message in between, and where something is wrong with a request the words are those of
//! etcd's gRPC library.
//!
//! What is always true:
//!
//! - A message is read only when its handler asks for it, and is no longer than [`Grpc`] was told; a client that does not read holds up its own streams. What is
//!   kept of messages that are not whole is bounded over all clients (`intake`).
//! - Work on a request ends when its client gives up, or its deadline passes: what runs is dropped, and counted as such.
//! - A method is counted once when it starts and once when it ends, however that comes about.
//!
//! Connections, limits of HTTP/2 and TLS are the business of [`net`]; whether something may be done and how is the business of [`server`].

mod attributes;
mod binary;
mod call;
mod deadline;
mod decode;
mod ends;
pub mod errors;
mod gate;
mod gzip;
mod headers;
mod heavy;
mod message;
mod metrics;
mod packing;
mod reply;
mod rpc;
mod running;
mod slow;
mod spans;
mod status;
mod steps;
mod versions;
mod web;

mod auth;
mod bell;
mod cluster;
mod election;
mod health;
mod kv;
mod lease;
mod lock;
mod maintenance;
mod recipe;
mod snapshot;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response};
use net::Connection;
use server::Server;

use crate::body::Body;
use crate::intake::Intake;
use call::{Call, Context};
use ends::Ends;
use headers::{Headers, Refused};
use heavy::Heavy;
use metrics::Metrics;
use rpc::Rpc;

pub(crate) use binary::illegal_at as illegal_base64_at;
pub(crate) use deadline::Deadline;
pub(crate) use gate::GATEWAY_ACCEPT;
pub(crate) use message::{PREFIX, framed};
pub(crate) use running::{Running, Written};

pub use errors::Canonical;
pub use message::RequestBody;
pub use status::{CODES, Code, Status};

/// What a message may have on top of the request in it: etcd's allowance.
const OVERHEAD_BYTES: usize = 512 << 10;

/// How much longer a message may be as JSON.
const JSON_FACTOR: usize = 4;

/// How gRPC is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Unary calls that take longer are told of in the log. `--warning-unary-request-duration`
    pub warning_unary_request_duration: Duration,
    /// Whether to measure how long calls take. `--metrics=extensive`
    pub extensive_metrics: bool,
    /// Whether gRPC's health service says that the member does not serve while it defragments. The gate `StopGRPCServiceOnDefrag`
    pub stop_service_on_defragment: bool,
    /// Decides which calls are traced; none are without it. `--enable-distributed-tracing`
    pub tracer: Option<trace::Tracer>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            warning_unary_request_duration: Duration::from_millis(300),
            extensive_metrics: false,
            stop_service_on_defragment: false,
            tracer: None,
        }
    }
}

/// The gRPC side of a member. Clones are the same.
#[derive(Clone, Debug)]
pub struct Grpc {
    shared: Arc<Shared>,
}

/// What all calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    server: Server,
    config: Config,
    metrics: Metrics,
    ends: Arc<Ends>,
    heavy: Heavy,
    snapshots: snapshot::Threads,
    health: health::Health,
    /// The longest message that is received.
    message_bytes_max: usize,
    intake: Intake,
}

impl Grpc {
    /// Serves a member. What is counted goes into the registry.
    ///
    /// # Errors
    /// The registry has some of it already.
    pub fn new(
        server: Server,
        config: Config,
        registry: &prometheus::Registry,
    ) -> prometheus::Result<Grpc> {
        let message_bytes_max = server.config().max_request_bytes.saturating_add(OVERHEAD_BYTES);
        let shared = Shared {
            metrics: Metrics::new(registry, config.extensive_metrics)?,
            ends: Arc::default(),
            heavy: Heavy::default(),
            snapshots: snapshot::Threads::default(),
            health: health::Health::new(config.stop_service_on_defragment),
            server,
            config,
            message_bytes_max,
            intake: Intake::new(message_bytes_max.saturating_mul(JSON_FACTOR)),
        };
        Ok(Grpc { shared: Arc::new(shared) })
    }

    /// Answers a request.
    pub async fn call<B: RequestBody>(
        &self,
        connection: &Connection,
        request: Request<B>,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let headers = Headers::read(&parts);
        // Compat: to etcd's gRPC library a query is part of the path, which then names nothing.
        let path = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
        self.answer(connection, headers, path, &parts.headers, body).await
    }

    /// The same, where the port is one of a web server, as etcd has it with TLS.
    pub(crate) async fn call_by_web<B: RequestBody>(
        &self,
        connection: &Connection,
        request: Request<B>,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let headers = Headers::read_by_web(&parts);
        self.answer(connection, headers, parts.uri.path(), &parts.headers, body).await
    }

    async fn answer<B: RequestBody>(
        &self,
        connection: &Connection,
        headers: Result<Headers, Refused>,
        path: &str,
        metadata: &HeaderMap,
        body: B,
    ) -> Response<Body> {
        let headers = match headers {
            Ok(headers) => headers,
            Err(refused) => return refused.into_response(),
        };
        let (at, method) = match headers.method(path) {
            Ok(found) => found,
            Err(refused) => return refused.into_response(),
        };
        let context = Context::new(&self.shared, connection, metadata);
        serve(method.rpc, Call::new(context, connection, at, method, headers, body)).await
    }

    /// Answers a call that came by another way than gRPC: as JSON.
    pub(crate) async fn invoke<B: RequestBody>(
        &self,
        connection: &Connection,
        path: &str,
        metadata: &HeaderMap,
        deadline: Deadline,
        body: B,
    ) -> Response<Body> {
        self.answer(connection, Ok(Headers::within(deadline)), path, metadata, body).await
    }

    /// Whether a user is known by the certificate of a connection, as far as there are users.
    pub(crate) fn knows_by_certificate(&self, connection: &Connection) -> bool {
        let server = &self.shared.server;
        let has_name = connection.common_name.as_ref().is_some_and(|name| !name.is_empty());
        has_name && server.config().client_cert_auth && server.state().auth.enabled()
    }

    /// The longest JSON that is read as one message. Base64 takes a third more than what it stands for, and names of fields and blanks take something too.
    pub(crate) fn json_bytes_max(&self) -> usize {
        self.shared.message_bytes_max.saturating_mul(JSON_FACTOR)
    }

    /// Where messages are counted that are not whole yet.
    pub(crate) fn intake(&self) -> &Intake {
        &self.shared.intake
    }

    /// Watches over the leader for those streams that want one, until the member stops. Somebody has to run this, once.
    pub async fn run(&self) {
        self.shared.ends.run(&self.shared.server).await;
    }

    /// Ends all streams, since the member is about to stop. Clients take them up elsewhere.
    pub fn close(&self) {
        self.shared.ends.close();
    }
}

/// Hands a call to its service.
async fn serve<B: RequestBody>(rpc: Rpc, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Rpc::Kv(rpc) => kv::serve(rpc, call).await,
        Rpc::Watch(rpc) => watch::serve(rpc, call).await,
        Rpc::Lease(rpc) => lease::serve(rpc, call).await,
        Rpc::Cluster(rpc) => cluster::serve(rpc, call).await,
        Rpc::Maintenance(rpc) => maintenance::serve(rpc, call).await,
        Rpc::Auth(rpc) => auth::serve(rpc, call).await,
        Rpc::Health(rpc) => health::serve(rpc, call).await,
        Rpc::Lock(rpc) => lock::serve(rpc, call).await,
        Rpc::Election(rpc) => election::serve(rpc, call).await,
    }
}
