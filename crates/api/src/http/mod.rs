//! HTTP endpoints of the client port and the metrics port: health, version, metrics.
//!
//! ```text
//!   GET /health                200  {"health":"true","reason":""}
//!   GET /readyz?verbose        200  [+]data_corruption ok … ok
//!   GET /livez                 200  ok
//!   GET /version               200  {"etcdserver":"3.7.0","etcdcluster":"3.7.0","storage":"3.7.0"}
//!   GET /metrics               200  # HELP etcd_server_has_leader …
//!   GET /debug/vars            200  {"cmdline": […], … "raft.status": {…}}
//!   GET /debug/pprof/…         200  profiles, if enabled; see the crate `profile`
//!   anything else              404  404 page not found
//!   POST /v3/…                 see the module `gateway`
//! ```
//!
//! [`Http::call`] maps the head of a request to a response, without a socket, a body or a runtime.
//! Only `/debug/pprof/symbol` reads a request body. Status, body and headers equal those of etcd,
//! whatever the method, path or query; only the order of the checks in `/readyz` is fixed here and
//! random in etcd.
//!
//! Invariants: no request changes the member; a failed check answers 503 with its reason; no
//! endpoint needs a user. The [router](crate::Api) has separated gRPC before.

mod access;
mod health;
mod member;
mod path;
mod process;
mod response;
#[cfg(test)]
mod tests;
mod vars;

use bytes::Bytes;
use exposition::Exposition;
use http::request::Parts;
use http::{Method, Response, StatusCode};

pub use access::Access;
pub use member::Member;
pub use process::ProcessMetrics;

pub(crate) use response::{Unannounced, error};

use health::Checks;
use path::RoutedPath;
use profile::{ProfileRequest, Profiles, SYMBOL_BYTES_MAX};
use response::{json, not_found, only_get};

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
    /// Profiles of the process, if they are enabled. `--enable-pprof`
    pub profiles: Option<Profiles>,
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

    /// Answers a request. `secure`: it came over TLS. `body` is empty unless
    /// `body_bytes_max` is not.
    pub async fn call(
        &self,
        surface: Surface,
        secure: bool,
        head: &Parts,
        body: &[u8],
    ) -> Response<Bytes> {
        if head.method == Method::OPTIONS && head.uri.path() == "*" {
            // A request about the server as a whole.
            return Response::default();
        }
        let mut response = match surface {
            Surface::Metrics | Surface::Peer => self.route(surface, head, body).await,
            _ => self.admit(secure, head, self.route(surface, head, body)).await,
        };
        if head.method == Method::HEAD {
            // The response keeps the length that a GET would have.
            response::strip_body(&mut response);
        }
        response
    }

    /// Returns how many bytes of its body a request needs; zero if it needs none.
    pub(crate) fn body_bytes_max(&self, surface: Surface, head: &Parts) -> usize {
        let has_list = || {
            let path = RoutedPath::parse(head)?;
            Some(self.profiles(surface, &path)?.1 == "symbol")
        };
        let is_needed = head.method == Method::POST && has_list() == Some(true);
        if is_needed { SYMBOL_BYTES_MAX } else { 0 }
    }

    /// Returns the profiles, and the name of the one that a path is for.
    fn profiles(&self, surface: Surface, path: &RoutedPath) -> Option<(&Profiles, String)> {
        let profiles = self.config.profiles.as_ref().filter(|_| is_for_clients(surface))?;
        Some((profiles, path.below(profile::PREFIX)?))
    }

    /// Returns the percent-decoded path of a request to the JSON gateway; none for other requests.
    pub(crate) fn gateway_path(&self, surface: Surface, head: &Parts) -> Option<String> {
        if !self.has_gateway(surface) {
            return None;
        }
        let path = RoutedPath::parse(head)?;
        let below = path.below_gateway()?;
        path.redirect(head, &[]).is_none().then_some(below)
    }

    fn has_gateway(&self, surface: Surface) -> bool {
        self.config.gateway && is_for_clients(surface)
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
    async fn route(&self, surface: Surface, head: &Parts, body: &[u8]) -> Response<Bytes> {
        if head.uri.path() == "*" {
            return response::no_path();
        }
        // Over HTTP/1, such a request is refused before it is routed.
        let Some(path) = RoutedPath::parse(head) else { return response::malformed() };
        if let Some(redirect) = path.redirect(head, &self.subtrees(surface)) {
            return redirect;
        }
        if let Some((profiles, name)) = self.profiles(surface, &path) {
            let query = head.uri.query().unwrap_or_default();
            let request = ProfileRequest { method: &head.method, name: &name, query, body };
            return profiles.respond(&request).await;
        }
        let Some(path) = path.endpoint() else { return not_found() };
        match (surface, path) {
            (Surface::Peer, path) if path != "/version" => not_found(),
            (_, "/metrics") => response::as_page(self.exposition.respond(&head.headers).await),
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

    /// Returns the paths that end with a slash and match all paths below them.
    fn subtrees(&self, surface: Surface) -> Vec<&'static str> {
        let gateway = self.has_gateway(surface).then_some("/v3/");
        let profiles = self.config.profiles.as_ref().filter(|_| is_for_clients(surface));
        gateway.into_iter().chain(profiles.map(|_| profile::PREFIX)).collect()
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

/// Reports whether a port serves the HTTP paths of clients.
fn is_for_clients(surface: Surface) -> bool {
    matches!(surface, Surface::Client | Surface::ClientHttpOnly)
}
