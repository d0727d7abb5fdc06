//! What the client port and the metrics port answer over HTTP to those who do not speak gRPC.
//!
//! ```text
//!   GET /health                200  {"health":"true","reason":""}
//!   GET /readyz?verbose        200  [+]data_corruption ok … ok
//!   GET /livez                 200  ok
//!   GET /version               200  {"etcdserver":"3.7.1","etcdcluster":"3.7.0","storage":"3.7.0"}
//!   GET /metrics               200  # HELP etcd_server_has_leader …
//!   GET /debug/vars            200  {"cmdline": […], … "raft.status": {…}}
//!   anything else              404  404 page not found
//!   POST /v3/…                 for the JSON gateway, which has a module of its own
//! ```
//!
//! [`Http::call`] is a function from the head of a request to a response: no socket, no body, no runtime. Bodies of requests are not read, as none of these paths
//! has a use for one. Status, body and headers are etcd's to the byte, whatever the method, the path or the query; only the order of the checks
//! in `/readyz`, which etcd leaves to chance, is always the same here.
//!
//! What is always true: nothing here changes the member; a check that fails says so with 503 and its reason; no answer needs a user. Who may connect at all, and
//! whether a request is gRPC, is decided before.

mod access;
mod answer;
mod health;
mod member;
mod metrics;
mod path;
mod process;
#[cfg(test)]
mod tests;
mod vars;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};

pub use access::Access;
pub use member::Member;

pub(crate) use answer::error;
use answer::{json, not_found, only_get};
use health::Checks;
use metrics::Exposition;
use process::ProcessMetrics;

/// What is for the JSON gateway begins with this.
const GATEWAY: &str = "/v3/";

/// The refusal of a request to the JSON gateway whose connection says who asks: a member does not listen to that there, and whoever asks should know.
pub(crate) fn refuse_certificate() -> Response<Bytes> {
    let text = "CommonName of client sending a request against gateway will be ignored and not used as expected";
    error(StatusCode::BAD_REQUEST, text)
}

/// Which port a request came in by, and so what it may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// `--listen-client-urls`, if there are no others for HTTP: gRPC and every path.
    Client,
    /// `--listen-client-urls`, if there are others for HTTP: gRPC alone.
    ClientGrpcOnly,
    /// `--listen-client-http-urls`: every path, and no gRPC.
    ClientHttpOnly,
    /// `--listen-metrics-urls`: metrics and health, for anybody who gets there.
    Metrics,
    /// `--listen-peer-urls`: of the paths here only the version, which members ask each other for.
    Peer,
}

impl Surface {
    /// Whether gRPC is spoken there.
    pub fn serves_grpc(self) -> bool {
        matches!(self, Surface::Client | Surface::ClientGrpcOnly)
    }

    /// Whether paths are served there.
    pub fn serves_http(self) -> bool {
        self != Surface::ClientGrpcOnly
    }
}

/// How the paths are served.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Which hosts and origins may ask.
    pub access: Access,
    /// The command line, for `/debug/vars`.
    pub command_line: Vec<String>,
    /// Whether there is a JSON gateway, below `/v3/`. `--enable-grpc-gateway`
    pub gateway: bool,
}

/// The HTTP side of a member.
#[derive(Debug)]
pub struct Http<M> {
    member: M,
    config: Config,
    checks: Checks,
    exposition: Exposition,
}

impl<M: Member> Http<M> {
    /// Serves a member. What is counted here goes into the registry, and the registry is what `/metrics` shows.
    ///
    /// # Errors
    /// The registry has some of it already.
    pub fn new(
        member: M,
        config: Config,
        registry: prometheus::Registry,
    ) -> prometheus::Result<Http<M>> {
        let checks = Checks::new(&registry)?;
        registry.register(Box::new(ProcessMetrics::new()?))?;
        Ok(Http { member, config, checks, exposition: Exposition::new(registry)? })
    }

    /// Answers a request. `secure` says whether it came over TLS.
    pub async fn call(&self, surface: Surface, secure: bool, asked: &Parts) -> Response<Bytes> {
        if asked.method == Method::OPTIONS && asked.uri.path() == "*" {
            // About the server as a whole, whatever it is for.
            return Response::default();
        }
        let mut response = match surface {
            Surface::Metrics | Surface::Peer => self.route(surface, asked).await,
            _ => self.admit(secure, asked, self.route(surface, asked)).await,
        };
        if asked.method == Method::HEAD {
            // The length stays, as for a GET; what it counts is not sent.
            answer::strip(&mut response);
        }
        response
    }

    /// The path of a request to the JSON gateway, without what was escaped in it; none if it is for somebody else.
    pub(crate) fn gateway_path(&self, surface: Surface, asked: &Parts) -> Option<String> {
        let is_served = matches!(surface, Surface::Client | Surface::ClientHttpOnly);
        let path = path::named(asked);
        let path = path::decoded(&path);
        let is_for_it = path.starts_with(GATEWAY) && path::redirect(asked, false).is_none();
        (self.config.gateway && is_served && is_for_it).then(|| path.into_owned())
    }

    /// The client port looks at host and origin first.
    pub(crate) async fn admit<B: From<Bytes> + Default>(
        &self,
        secure: bool,
        asked: &Parts,
        answer: impl Future<Output = Response<B>>,
    ) -> Response<B> {
        let access = &self.config.access;
        if !secure && let Some(refused) = access.refuse_host(asked) {
            return refused.map(B::from);
        }
        let mut response = match asked.method {
            Method::OPTIONS => Response::default(),
            _ => answer.await,
        };
        access.allow_origin(asked, response.headers_mut());
        response
    }

    /// What is asked for, if it is not for the JSON gateway.
    async fn route(&self, surface: Surface, asked: &Parts) -> Response<Bytes> {
        if asked.uri.path() == "*" {
            return answer::no_path();
        }
        let has_gateway =
            self.config.gateway && surface != Surface::Metrics && surface != Surface::Peer;
        if let Some(elsewhere) = path::redirect(asked, has_gateway) {
            return elsewhere;
        }
        let path = path::named(asked);
        let path = path::decoded(&path);
        match (surface, path.as_ref()) {
            (Surface::Peer, path) if path != "/version" => not_found(),
            (_, "/metrics") => self.exposition.answer().await,
            (_, "/health") => self.checks.health(&self.member, asked).await,
            (Surface::Metrics, "/version" | "/debug/vars") => not_found(),
            (_, "/version") => only_get(asked).unwrap_or_else(|| self.version()),
            (_, "/debug/vars") => match only_get(asked) {
                Some(refused) => refused,
                None => vars::answer(&self.member, &self.config.command_line).await,
            },
            (_, path) => match self.checks.find(path) {
                Some(found) => self.checks.answer(&self.member, &found, asked).await,
                None => not_found(),
            },
        }
    }

    /// What the server, the cluster and the file are versions of.
    fn version(&self) -> Response<Bytes> {
        let cluster = self.member.cluster_version().unwrap_or_else(|| "not_decided".to_owned());
        let storage = self.member.storage_version().unwrap_or_else(|| "unknown".to_owned());
        let server = server::SERVER_VERSION;
        json(format!(
            r#"{{"etcdserver":"{server}","etcdcluster":"{cluster}","storage":"{storage}"}}"#
        ))
    }
}
