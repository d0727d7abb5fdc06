//! etcd's gRPC services, one file each.
//!
//! ```text
//!   request ─► headers ─► method ─► Call { context, observer } ─► interceptor ─► handler ─► server
//!              grpc       methods   context, observe              interceptor    kv, watch, …
//! ```
//!
//! A handler takes a [`Context`] and a decoded request, and returns a reply or a [`grpc::Status`].
//! Everything that all methods share happens in [`grpc::Call`] and in the interceptor. Whether and
//! how a request is executed is up to [`server`].

mod auth;
mod cluster;
mod election;
mod health;
mod kv;
mod lease;
mod lock;
mod maintenance;
mod notify;
mod recipes;
mod snapshot;
mod stream_monitor;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use grpc::{Deadline, Headers, Rejection, RequestBody, Transport, TransportConfig};
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response};
use net::Connection;
use server::Server;

use crate::body::{Body, GrpcBody};
use crate::context::{Call, Context};
use crate::decode;
use crate::errors::Canonical;
use crate::methods::{self, RPCS, Rpc};
use crate::observe::{CallObserver, Metrics};

/// The bytes of a message beyond those of its request: etcd's allowance.
const OVERHEAD_BYTES: usize = 512 << 10;

/// The greatest length of JSON relative to the same message in protobuf.
const JSON_FACTOR: usize = 4;

/// Settings of the gRPC services.
#[derive(Clone, Debug)]
pub struct GrpcConfig {
    /// The threshold above which a unary call is logged. `--warning-unary-request-duration`
    pub warning_unary_request_duration: Duration,
    /// Whether to measure the durations of calls. `--metrics=extensive`
    pub extensive_metrics: bool,
    /// Whether the health service reports `NOT_SERVING` while the member defragments. The feature
    /// gate `StopGRPCServiceOnDefrag`
    pub stop_service_on_defragment: bool,
    /// Selects the calls to trace; none without it. `--enable-distributed-tracing`
    pub tracer: Option<trace::Tracer>,
}

impl Default for GrpcConfig {
    fn default() -> GrpcConfig {
        GrpcConfig {
            warning_unary_request_duration: Duration::from_millis(300),
            extensive_metrics: false,
            stop_service_on_defragment: false,
            tracer: None,
        }
    }
}

/// The gRPC services of a member. Clones share their state.
#[derive(Clone, Debug)]
pub struct Grpc {
    shared: Arc<Shared>,
}

/// The state that all calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) config: GrpcConfig,
    pub(crate) metrics: Metrics,
    pub(crate) transport: Arc<Transport>,
    snapshots: snapshot::SnapshotPermits,
    health: health::Health,
    /// The longest JSON text that is read as one message.
    json_bytes_max: usize,
}

impl Grpc {
    /// Creates the services of a member. Their metrics are added to the registry.
    ///
    /// # Errors
    /// The registry already has one of the metrics.
    pub fn new(
        server: Server,
        config: GrpcConfig,
        registry: &prometheus::Registry,
    ) -> prometheus::Result<Grpc> {
        let message_bytes_max = server.config().max_request_bytes.saturating_add(OVERHEAD_BYTES);
        // Base64 takes a third more than its bytes; names of fields and white space take some, too.
        let json_bytes_max = message_bytes_max.saturating_mul(JSON_FACTOR);
        let transport = Transport::new(TransportConfig {
            message_bytes_max,
            partial_bytes_max: json_bytes_max,
            repair: decode::repair,
            budget_exceeded: Canonical::TooManyRequests.text(),
            stopped: Canonical::Stopped.into(),
        });
        let shared = Shared {
            metrics: Metrics::new(registry, config.extensive_metrics)?,
            transport: Arc::new(transport),
            snapshots: snapshot::SnapshotPermits::default(),
            health: health::Health::new(config.stop_service_on_defragment),
            server,
            config,
            json_bytes_max,
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
        // Compat: grpc-go takes a query for a part of the path, so such a path has no method.
        let path = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
        self.respond(connection, headers, path, &parts.headers, body).await.map(Body::from)
    }

    /// Answers a request on a port that Go's web server serves in etcd: one with TLS.
    pub(crate) async fn call_by_web<B: RequestBody>(
        &self,
        connection: &Connection,
        request: Request<B>,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let headers = Headers::read_by_web(&parts);
        let path = parts.uri.path();
        self.respond(connection, headers, path, &parts.headers, body).await.map(Body::from)
    }

    /// Answers a call of the JSON gateway.
    pub(crate) async fn invoke<B: RequestBody>(
        &self,
        connection: &Connection,
        path: &str,
        metadata: &HeaderMap,
        deadline: Deadline,
        body: B,
    ) -> Response<GrpcBody> {
        self.respond(connection, Ok(Headers::in_process(deadline)), path, metadata, body).await
    }

    async fn respond<B: RequestBody>(
        &self,
        connection: &Connection,
        headers: Result<Headers, Rejection>,
        path: &str,
        metadata: &HeaderMap,
        body: B,
    ) -> Response<GrpcBody> {
        let headers = match headers {
            Ok(headers) => headers,
            Err(rejection) => return rejection.into_response(),
        };
        let (at, method) = match headers.method(methods::table(), path) {
            Ok(found) => found,
            Err(rejection) => return rejection.into_response(),
        };
        let shared = &self.shared;
        let context = Context::new(shared, connection, metadata);
        let observer = CallObserver::new(
            RPCS[at],
            method,
            Arc::clone(shared.metrics.method(at)),
            shared.config.warning_unary_request_duration,
            context.traced.clone(),
        );
        let transport = &shared.transport;
        let call = Call::new(context, observer, transport, connection, method, headers, body);
        serve(RPCS[at], call).await
    }

    /// Reports whether the certificate of a connection identifies a user. The gateway refuses such
    /// connections, because it ignores certificates.
    pub(crate) fn identifies_by_certificate(&self, connection: &Connection) -> bool {
        let server = &self.shared.server;
        let has_name = connection.common_name.as_ref().is_some_and(|name| !name.is_empty());
        has_name && server.config().client_cert_auth && server.auth_enabled()
    }

    /// The longest JSON text that is read as one message.
    pub(crate) fn json_bytes_max(&self) -> usize {
        self.shared.json_bytes_max
    }

    /// The limits and pools that gRPC and the gateway share.
    pub(crate) fn transport(&self) -> &Transport {
        &self.shared.transport
    }

    /// Ends streams that need a leader when there is none for long, and all streams when the member
    /// stops. Must be run once per member.
    pub async fn run(&self) {
        stream_monitor::run(&self.shared.server, self.shared.transport.streams()).await;
    }

    /// Ends all streams, because the member is about to stop. Clients resume them on other members.
    pub fn close(&self) {
        self.shared.transport.streams().close();
    }
}

/// Hands a call to its service.
async fn serve<B: RequestBody>(rpc: Rpc, call: Call<'_, B>) -> Response<GrpcBody> {
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
