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

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gocompat::RequestPath;
use grpc::{Deadline, DecodeError, Headers, Rejection, RequestBody, Transport, TransportConfig};
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response};
use net::Connection;
use proto::repair::RepairError;
use server::Server;
use tokio::sync::Semaphore;

use crate::body::{Body, GrpcResponse};
use crate::context::{Call, Context};
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
    /// Permits of writes with long replies.
    long_writes: Arc<Semaphore>,
    /// Permits for keys in the replies of other writes.
    write_reply_keys: Arc<Semaphore>,
    health: health::Health,
    /// The longest JSON text that is read as one message.
    json_bytes_max: usize,
}

/// Repairs a request that prost cannot decode but etcd can.
fn repair(path: &str, message: Bytes) -> Result<Bytes, DecodeError> {
    proto::repair::repair(path, message).map_err(|error| match error {
        RepairError::Format => DecodeError::Format,
        RepairError::Utf8 => DecodeError::Utf8,
    })
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
            repair,
            budget_exceeded: Canonical::TooManyRequests.text(),
            stopped: Canonical::Stopped.into(),
        });
        let shared = Shared {
            metrics: Metrics::new(registry, config.extensive_metrics)?,
            transport: Arc::new(transport),
            snapshots: snapshot::SnapshotPermits::default(),
            long_writes: Arc::new(Semaphore::new(kv::LONG_WRITES_MAX)),
            write_reply_keys: Arc::new(Semaphore::new(kv::WRITE_REPLY_KEYS_MAX)),
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
        self.dispatch(connection, request).await.map(Body::from)
    }

    /// Hands a request to the handler of its method.
    pub(crate) fn dispatch<'a, B: RequestBody>(
        &'a self,
        connection: &'a Connection,
        request: Request<B>,
    ) -> GrpcResponse<'a> {
        let (parts, body) = request.into_parts();
        let headers = Headers::read(&parts);
        // Compat: grpc-go takes a query for a part of the path, so such a path has no method.
        let path = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
        self.respond(connection, headers, path, &parts.headers, body)
    }

    /// Hands over a request on a port that Go's web server serves in etcd: one with TLS.
    pub(crate) fn dispatch_by_web<'a, B: RequestBody>(
        &'a self,
        connection: &'a Connection,
        request: Request<B>,
    ) -> GrpcResponse<'a> {
        let (parts, body) = request.into_parts();
        let headers = Headers::read_by_web(&parts);
        // Compat: Go's server decodes the path. One that is not UTF-8 has no method.
        let path = RequestPath::parse(parts.uri.path().as_bytes());
        let path = path.and_then(|path| String::from_utf8(path.decoded).ok()).unwrap_or_default();
        self.respond(connection, headers, &path, &parts.headers, body)
    }

    /// Answers a call of the JSON gateway.
    pub(crate) fn invoke<'a, B: RequestBody>(
        &'a self,
        connection: &'a Connection,
        path: &str,
        metadata: &HeaderMap,
        deadline: Deadline,
        body: B,
    ) -> GrpcResponse<'a> {
        self.respond(connection, Ok(Headers::in_process(deadline)), path, metadata, body)
    }

    fn respond<'a, B: RequestBody>(
        &'a self,
        connection: &'a Connection,
        headers: Result<Headers, Rejection>,
        path: &str,
        metadata: &HeaderMap,
        body: B,
    ) -> GrpcResponse<'a> {
        let found = headers.and_then(|headers| {
            let found = headers.method(methods::table(), path)?;
            Ok((headers, found))
        });
        let (headers, (at, method)) = match found {
            Ok(found) => found,
            Err(rejection) => return Box::pin(ready(rejection.into_response())),
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
        serve(RPCS[at], call)
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
fn serve<B: RequestBody>(rpc: Rpc, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Rpc::Kv(rpc) => kv::serve(rpc, call),
        Rpc::Watch(rpc) => watch::serve(rpc, call),
        Rpc::Lease(rpc) => lease::serve(rpc, call),
        Rpc::Cluster(rpc) => cluster::serve(rpc, call),
        Rpc::Maintenance(rpc) => maintenance::serve(rpc, call),
        Rpc::Auth(rpc) => auth::serve(rpc, call),
        Rpc::Health(rpc) => health::serve(rpc, call),
        Rpc::Lock(rpc) => lock::serve(rpc, call),
        Rpc::Election(rpc) => election::serve(rpc, call),
    }
}
