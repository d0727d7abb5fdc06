//! The gRPC proxy: its ports, its shared state and its background tasks.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use grpc::{Code, DecodeError, Headers, RequestBody, Status, Transport, TransportConfig};
use http::uri::PathAndQuery;
use http::{Request, Response, Version};
use http_body::{Frame, SizeHint};
use net::{Connection, Runtimes};
use profile::Profiles;
use prometheus::Registry;
use proto::repair::RepairError;
use tls::ClientTls;

use crate::cluster::{ClusterProxy, Proxies};
use crate::context::{Call, Context, own_metadata};
use crate::http::{Http, is_announced};
use crate::keep_alive::KeepAlives;
use crate::kv::KvProxy;
use crate::leader::Leader;
use crate::leasing::Leasing;
use crate::methods::{self, RPCS};
use crate::metrics::Metrics;
use crate::namespace::Namespace;
use crate::observe::CallObserver;
use crate::registry::{self, RegistrySettings};
use crate::services::{self, GrpcBody};
use crate::upstream::{Upstream, UpstreamSettings, keep_synced};
use crate::watch::Watches;

/// The longest request of a client: the default of grpc-go, which etcd's proxy keeps.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// The pause between two attempts to read the newest revision.
const ORDERING_PAUSE: Duration = Duration::from_secs(1);

/// The settings of a gRPC proxy.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// The connections to members.
    pub upstream: UpstreamSettings,
    /// The connection to the proxy itself, for its health; none without an advertised address.
    pub own: Option<UpstreamSettings>,
    /// The TLS settings for the metrics of a member, over HTTP/1.
    pub metrics_tls: Arc<ClientTls>,
    /// The advertised address; empty to pass requests about members on.
    pub advertised: String,
    /// The name of the machine.
    pub host_name: String,
    /// The registration, if the proxy registers itself.
    pub registry: Option<RegistrySettings>,
    /// The prefix of all keys; may be empty.
    pub namespace: String,
    /// The prefix of leasing keys; empty to own no keys.
    pub leasing_prefix: String,
    /// Whether answers are never older than one before.
    pub ordered: bool,
    /// Whether every call is logged.
    pub log_calls: bool,
    /// The interval of updates of the endpoints, if any.
    pub auto_sync: Option<Duration>,
    /// Profiles of the process, if they are enabled.
    pub profiles: Option<Profiles>,
}

/// The reason a proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// An endpoint is invalid.
    #[error(transparent)]
    Endpoint(#[from] net::TargetError),
    /// The registry already has one of the metrics.
    #[error("failed to register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// There are no endpoints.
    #[error("etcdclient: no available endpoints")]
    NoEndpoints,
}

/// The state that all calls share.
#[derive(Debug)]
pub(crate) struct ProxyState {
    pub(crate) upstream: Upstream,
    pub(crate) namespace: Namespace,
    pub(crate) kv: KvProxy,
    pub(crate) watches: Watches,
    pub(crate) keep_alives: KeepAlives,
    pub(crate) cluster: ClusterProxy,
    pub(crate) leader: Leader,
    metrics: Arc<Metrics>,
    transport: Arc<Transport>,
    log_calls: bool,
}

/// A gRPC proxy. Clones share their state.
#[derive(Clone, Debug)]
pub struct GrpcProxy {
    shared: Arc<ProxyState>,
    http: Arc<Http>,
}

impl GrpcProxy {
    /// Creates a proxy, and starts its background tasks on the runtimes. Nothing is connected yet.
    ///
    /// # Errors
    /// An endpoint is invalid.
    pub fn start(
        settings: ProxySettings,
        registry: Registry,
        runtimes: &Runtimes,
    ) -> Result<GrpcProxy, ProxyError> {
        if settings.upstream.endpoints.is_empty() {
            return Err(ProxyError::NoEndpoints);
        }
        runtimes.block_on(async { GrpcProxy::new(settings, registry) })
    }

    fn new(settings: ProxySettings, registry: Registry) -> Result<GrpcProxy, ProxyError> {
        let runtime = tokio::runtime::Handle::current();
        let upstream = Upstream::new(settings.upstream, runtime.clone())?;
        let own = settings.own.map(|own| Upstream::new(own, runtime)).transpose()?;
        let metrics = Arc::new(Metrics::new(&registry)?);
        let namespace = Namespace::new(&settings.namespace);
        let proxies = Proxies::default();
        let watches = Watches::new(upstream.clone(), namespace.clone(), Arc::clone(&metrics));
        let leasing = Some(&settings.leasing_prefix).filter(|prefix| !prefix.is_empty());
        let shared = Arc::new(ProxyState {
            kv: KvProxy::new(
                upstream.clone(),
                namespace.clone(),
                settings.ordered,
                Arc::clone(&metrics),
                leasing.map(|prefix| {
                    Leasing::start(prefix, upstream.clone(), namespace.clone(), watches.clone())
                }),
            ),
            watches,
            keep_alives: KeepAlives::start(upstream.clone()),
            cluster: ClusterProxy::new(&settings.advertised, &settings.host_name, proxies.clone()),
            leader: Leader::default(),
            namespace,
            metrics,
            transport: Arc::new(transport()),
            log_calls: settings.log_calls,
            upstream: upstream.clone(),
        });
        if let Some(every) = settings.auto_sync {
            tokio::spawn(keep_synced(upstream.clone(), every));
        }
        if let Some(registered) = settings.registry {
            let (address, host_name) = (settings.advertised, settings.host_name);
            let prefix = registered.prefix.clone();
            tokio::spawn(registry::follow(Arc::clone(&shared), prefix, proxies));
            tokio::spawn(registry::keep_registered(
                Arc::clone(&shared),
                registered,
                address,
                host_name,
            ));
        }
        let watched = Arc::clone(&shared);
        tokio::spawn(async move {
            watched.leader.watch(&watched.upstream, watched.transport.streams()).await;
        });
        let http = Http::new(registry, upstream, own, settings.metrics_tls, settings.profiles)?;
        Ok(GrpcProxy { shared, http: Arc::new(http) })
    }

    /// Waits for a read from the cluster, whose revision is then the oldest of all answers.
    ///
    /// Compat: as in etcd, a proxy with ordered answers serves nothing before.
    pub async fn recover_ordering(&self) {
        tracing::info!("waiting for linearized read from cluster to recover ordering");
        loop {
            let request = proto::etcdserverpb::RangeRequest {
                key: "_".into(),
                keys_only: true,
                ..Default::default()
            };
            match self.shared.kv.read(&own_metadata(), request).await {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, "ordering recovery failed, retrying in 1s"),
            }
            tokio::time::sleep(ORDERING_PAUSE).await;
        }
    }

    /// Returns the handler of the port for clients.
    pub fn clients(&self) -> ProxyPort {
        ProxyPort { proxy: self.clone(), serves_grpc: true }
    }

    /// Returns the handler of the port for metrics and health.
    pub fn metrics(&self) -> ProxyPort {
        ProxyPort { proxy: self.clone(), serves_grpc: false }
    }

    async fn grpc<B: RequestBody>(
        &self,
        connection: &Connection,
        request: Request<B>,
    ) -> Response<GrpcBody> {
        let (parts, body) = request.into_parts();
        let headers = match Headers::read(&parts) {
            Ok(headers) => headers,
            Err(rejection) => return rejection.into_response(),
        };
        let path = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
        let (at, method) = match headers.method(methods::table(), path) {
            Ok(found) => found,
            Err(rejection) => return rejection.into_response(),
        };
        let shared = &self.shared;
        let logged = shared.log_calls.then_some(connection.remote);
        let observer = CallObserver::new(method, Arc::clone(shared.metrics.method(at)), logged);
        let context = Context::new(shared, connection, &parts.headers);
        let transport = &shared.transport;
        let call = Call::new(context, observer, transport, connection, method, headers, body);
        services::serve(RPCS[at], call).await
    }
}

fn transport() -> Transport {
    Transport::new(TransportConfig {
        message_bytes_max: REQUEST_BYTES_MAX,
        partial_bytes_max: REQUEST_BYTES_MAX,
        repair,
        budget_exceeded: "etcdserver: too many requests",
        stopped: Status::new(Code::Unavailable, "the proxy is stopping"),
    })
}

/// Repairs a request that prost cannot decode but etcd can.
fn repair(path: &str, message: Bytes) -> Result<Bytes, DecodeError> {
    proto::repair::repair(path, message).map_err(|error| match error {
        RepairError::Format => DecodeError::Format,
        RepairError::Utf8 => DecodeError::Utf8,
    })
}

/// The handler of one kind of port.
#[derive(Clone, Debug)]
pub struct ProxyPort {
    proxy: GrpcProxy,
    serves_grpc: bool,
}

impl net::Handler for ProxyPort {
    type Body = Body;

    /// Compat: as in etcd, HTTP/2 is always gRPC on the port for clients.
    async fn call(
        &self,
        connection: &Arc<Connection>,
        request: Request<hyper::body::Incoming>,
    ) -> Response<Body> {
        if self.serves_grpc && request.version() == Version::HTTP_2 {
            return self.proxy.grpc(connection, request).await.map(|body| Body(Inner::Grpc(body)));
        }
        let (http, budget) = (&self.proxy.http, &connection.send_budget);
        let page = if self.serves_grpc {
            // HTTP/1: a connection has one response at a time.
            http.call_by_client(connection.tls, request).await.map(|page| budget.charge(page))
        } else {
            let head = request.into_parts().0;
            budget.build_charged(|| http.call(connection.tls, &head)).await
        };
        page.map(|page| Body(Inner::Page(page)))
    }
}

/// The body of a response.
#[derive(Debug)]
pub struct Body(Inner);

#[derive(Debug)]
enum Inner {
    Page(Bytes),
    Grpc(GrpcBody),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().0 {
            Inner::Page(page) if page.is_empty() => Poll::Ready(None),
            Inner::Page(page) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(page))))),
            Inner::Grpc(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Page(page) => page.is_empty(),
            Inner::Grpc(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Page(page) if is_announced(page.len()) => {
                SizeHint::with_exact(page.len() as u64)
            }
            Inner::Page(_) => SizeHint::default(),
            Inner::Grpc(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
