//! HTTP endpoints of the client port and the metrics port: health, version, metrics.
//!
//! ```text
//!   GET /health                200  {"health":"true","reason":""}
//!   GET /readyz?verbose        200  [+]data_corruption ok … ok
//!   GET /livez                 200  ok
//!   GET /version               200  {"etcdserver":"3.7.1","etcdcluster":"3.7.0","storage":"3.7.0"}
//!   GET /metrics               200  # HELP etcd_server_has_leader …
//!   GET /debug/vars            200  {"cmdline": […], … "raft.status": {…}}
//!   anything else              404  404 page not found
//!   POST /v3/…                 see the module `gateway`
//! ```
//!
//! [`Http::call`] maps the head of a request to a response, without a socket, a body or a runtime.
//! No endpoint reads a request body. Status, body and headers equal those of etcd, whatever the
//! method, path or query; only the order of the checks in `/readyz` is fixed here and random in
//! etcd.
//!
//! Invariants: no request changes the member; a failed check answers 503 with its reason; no
//! endpoint needs a user. The [router](crate::Api) has separated gRPC before.

mod access;
mod health;
mod member;
mod metrics;
mod path;
mod process;
mod response;
#[cfg(test)]
mod tests;
mod vars;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};

pub use access::Access;
pub use member::Member;

pub(crate) use response::error;

use health::Checks;
use metrics::Exposition;
use process::ProcessMetrics;
use response::{json, not_found, only_get};

/// The prefix of the paths of the JSON gateway.
const GATEWAY: &str = "/v3/";

/// Refuses a request to the JSON gateway on a connection whose certificate identifies a user: the
/// gateway would ignore the certificate.
pub(crate) fn refuse_certificate() -> Response<Bytes> {
    let text = "CommonName of client sending a request against gateway will be ignored and not used as expected";
    error(StatusCode::BAD_REQUEST, text)
}

/// The kind of port that a request came in by, which decides what it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// `--listen-client-urls` without separate URLs for HTTP: gRPC and all paths.
    Client,
    /// `--listen-client-urls` with separate URLs for HTTP: gRPC only.
    ClientGrpcOnly,
    /// `--listen-client-http-urls`: all paths, no gRPC.
    ClientHttpOnly,
    /// `--listen-metrics-urls`: metrics and health, without checks of host or origin.
    Metrics,
    /// `--listen-peer-urls`: only `/version`, which peers request.
    Peer,
}

impl Surface {
    /// Reports whether the port serves gRPC.
    pub fn serves_grpc(self) -> bool {
        matches!(self, Surface::Client | Surface::ClientGrpcOnly)
    }

    /// Reports whether the port serves HTTP paths.
    pub fn serves_http(self) -> bool {
        self != Surface::ClientGrpcOnly
    }
}

/// Settings of the HTTP endpoints.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The allowed hosts and origins.
    pub access: Access,
    /// The command line, shown in `/debug/vars`.
    pub command_line: Vec<String>,
    /// Whether the JSON gateway is enabled, below `/v3/`. `--enable-grpc-gateway`
    pub gateway: bool,
}

/// The HTTP endpoints of a member.
#[derive(Debug)]
pub struct Http<M> {
    member: M,
    config: Config,
    checks: Checks,
    exposition: Exposition,
}

impl<M: Member> Http<M> {
    /// Creates the endpoints of a member. `/metrics` shows the registry, to which the metrics of
    /// the endpoints are added.
    ///
    /// # Errors
    /// The registry already has one of the metrics.
    pub fn new(
        member: M,
        config: Config,
        registry: prometheus::Registry,
    ) -> prometheus::Result<Http<M>> {
        let checks = Checks::new(&registry)?;
        registry.register(Box::new(ProcessMetrics::new()?))?;
        Ok(Http { member, config, checks, exposition: Exposition::new(registry)? })
    }

    /// Answers a request. `secure`: it came over TLS.
    pub async fn call(&self, surface: Surface, secure: bool, head: &Parts) -> Response<Bytes> {
        if head.method == Method::OPTIONS && head.uri.path() == "*" {
            // A request about the server as a whole.
            return Response::default();
        }
        let mut response = match surface {
            Surface::Metrics | Surface::Peer => self.route(surface, head).await,
            _ => self.admit(secure, head, self.route(surface, head)).await,
        };
        if head.method == Method::HEAD {
            // The response keeps the length that a GET would have.
            response::strip_body(&mut response);
        }
        response
    }

    /// Returns the percent-decoded path of a request to the JSON gateway; none for other requests.
    pub(crate) fn gateway_path(&self, surface: Surface, head: &Parts) -> Option<String> {
        let is_served = matches!(surface, Surface::Client | Surface::ClientHttpOnly);
        let path = path::canonical(head);
        let path = path::decoded(&path);
        let is_gateway = path.starts_with(GATEWAY) && path::redirect(head, false).is_none();
        (self.config.gateway && is_served && is_gateway).then(|| path.into_owned())
    }

    /// Checks host and origin on a client port, then runs `respond`.
    pub(crate) async fn admit<B: From<Bytes> + Default>(
        &self,
        secure: bool,
        head: &Parts,
        respond: impl Future<Output = Response<B>>,
    ) -> Response<B> {
        let access = &self.config.access;
        if !secure && let Some(refused) = access.refuse_host(head) {
            return refused.map(B::from);
        }
        let mut response = match head.method {
            Method::OPTIONS => Response::default(),
            _ => respond.await,
        };
        access.allow_origin(head, response.headers_mut());
        response
    }

    /// Answers a request that is not for the JSON gateway.
    async fn route(&self, surface: Surface, head: &Parts) -> Response<Bytes> {
        if head.uri.path() == "*" {
            return response::no_path();
        }
        let has_gateway =
            self.config.gateway && surface != Surface::Metrics && surface != Surface::Peer;
        if let Some(redirect) = path::redirect(head, has_gateway) {
            return redirect;
        }
        let path = path::canonical(head);
        let path = path::decoded(&path);
        match (surface, path.as_ref()) {
            (Surface::Peer, path) if path != "/version" => not_found(),
            (_, "/metrics") => self.exposition.respond().await,
            (_, "/health") => self.checks.health(&self.member, head).await,
            (Surface::Metrics, "/version" | "/debug/vars") => not_found(),
            (_, "/version") => only_get(head).unwrap_or_else(|| self.version()),
            (_, "/debug/vars") => match only_get(head) {
                Some(refused) => refused,
                None => vars::respond(&self.member, &self.config.command_line).await,
            },
            (_, path) => match self.checks.find(path) {
                Some(found) => self.checks.respond(&self.member, &found, head).await,
                None => not_found(),
            },
        }
    }

    /// Answers with the versions of server, cluster and storage.
    fn version(&self) -> Response<Bytes> {
        let cluster = self.member.cluster_version().unwrap_or_else(|| "not_decided".to_owned());
        let storage = self.member.storage_version().unwrap_or_else(|| "unknown".to_owned());
        let server = server::SERVER_VERSION;
        json(format!(
            r#"{{"etcdserver":"{server}","etcdcluster":"{cluster}","storage":"{storage}"}}"#
        ))
    }
}
