//! HTTP: metrics and health, of the proxy and of the cluster that it serves.
//!
//! ```text
//!   /metrics         those of a member
//!   /health          a linearizable read through a member
//!   /proxy/metrics   those of the proxy
//!   /proxy/health    a read and a watch through the proxy, by its advertised address
//!   /debug/pprof/…   profiles of the proxy, if enabled, on the port for clients alone
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use exposition::Exposition;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use net::{Dialer, Target};
use profile::{ProfileRequest, Profiles, SYMBOL_BYTES_MAX};
use prometheus::Registry;
use proto::etcdserverpb::{RangeRequest, WatchCreateRequest};
use tls::ClientTls;
use tokio::time::timeout;

use crate::context::own_metadata;
use crate::upstream::Upstream;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// The key that health checks read and watch. As in etcd.
const HEALTH_KEY: &str = "a";
/// The time for a read of a health check. As in etcd.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for a watch of a health check. As in etcd.
const WATCH_TIMEOUT: Duration = Duration::from_secs(3);
/// The time for the metrics of a member.
const METRICS_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of the metrics of a member.
const METRICS_BYTES_MAX: usize = 64 << 20;
/// The time for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest body that Go's server keeps until it is complete.
const ANNOUNCED_BYTES_MAX: usize = 2048;
/// The text for a member without permissions for the proxy, which serves nevertheless.
const PERMISSION_DENIED: &str = "etcdserver: permission denied";

/// The HTTP endpoints of a proxy.
#[derive(Debug)]
pub(crate) struct Http {
    /// The metrics of the proxy.
    exposition: Exposition,
    upstream: Upstream,
    /// The proxy itself, by its advertised address.
    own: Option<Upstream>,
    /// The TLS settings for the metrics of a member.
    tls: Arc<ClientTls>,
    profiles: Option<Profiles>,
}

impl Http {
    /// Creates the endpoints. `/proxy/metrics` shows the registry, to which counters of its
    /// requests are added.
    ///
    /// # Errors
    /// The registry already has one of the counters.
    pub(crate) fn new(
        registry: Registry,
        upstream: Upstream,
        own: Option<Upstream>,
        tls: Arc<ClientTls>,
        profiles: Option<Profiles>,
    ) -> prometheus::Result<Http> {
        Ok(Http { exposition: Exposition::new(registry)?, upstream, own, tls, profiles })
    }

    /// Answers a request on the port for clients. `secure`: it came over TLS.
    pub(crate) async fn call_by_client<B>(
        &self,
        secure: bool,
        request: Request<B>,
    ) -> Response<Bytes>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        match (&self.profiles, path.strip_prefix(profile::PREFIX)) {
            (Some(profiles), Some(name)) => {
                without_body_of_head(&head, respond(profiles, name, &head, body).await)
            }
            (Some(_), None) if profile::PREFIX.strip_suffix('/') == Some(path) => redirect(&head),
            _ => self.call(secure, &head).await,
        }
    }

    /// Answers a request. `secure`: it came over TLS.
    pub(crate) async fn call(&self, secure: bool, head: &Parts) -> Response<Bytes> {
        let response = match head.uri.path() {
            "/metrics" => self.member_metrics(secure).await,
            "/proxy/metrics" => self.exposition.respond(&head.headers).await,
            "/health" => self.health(head, read(&self.upstream)).await,
            "/proxy/health" => self.health(head, self.own_health()).await,
            _ => error(StatusCode::NOT_FOUND, "404 page not found"),
        };
        without_body_of_head(head, response)
    }

    /// Fetches the metrics of the first endpoint that answers.
    async fn member_metrics(&self, secure: bool) -> Response<Bytes> {
        for endpoint in self.upstream.endpoints().iter() {
            let url = endpoint.url();
            let target = match url.contains("://") {
                true => Ok(endpoint.target().clone()),
                // Compat: as in etcd, an endpoint without a scheme is queried with that of this
                // proxy.
                false if secure => Target::parse(&format!("https://{url}")),
                false => Target::parse(&format!("http://{url}")),
            };
            let Ok(target) = target else { continue };
            match timeout(METRICS_TIMEOUT, self.fetch(&target)).await {
                Ok(Ok(text)) => return body(METRICS, text),
                Ok(Err(error)) => tracing::warn!(endpoint = url, error, "failed to fetch metrics"),
                Err(_) => tracing::warn!(endpoint = url, "timed out fetching metrics"),
            }
        }
        error(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error")
    }

    async fn fetch(&self, target: &Target) -> Result<Bytes, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let dialer = Dialer::new(Arc::clone(&self.tls), self.upstream.settings().dial_timeout);
        let stream = dialer.dial(target).await.map_err(|error| text(&error))?;
        let opened = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = opened.map_err(|error| text(&error))?;
        let driver = tokio::spawn(connection);
        let request = Request::get("/metrics")
            .header(header::HOST, target.to_string())
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|error| text(&error))?;
        let response = sender.send_request(request).await.map_err(|error| text(&error))?;
        let page = Limited::new(response.into_body(), METRICS_BYTES_MAX).collect().await;
        driver.abort();
        Ok(page.map_err(|error| text(&error))?.to_bytes())
    }

    async fn health(
        &self,
        head: &Parts,
        check: impl Future<Output = Result<(), String>>,
    ) -> Response<Bytes> {
        if head.method != Method::GET {
            let mut refused = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            tracing::warn!(status_code = refused.status().as_u16(), "/health error");
            return refused;
        }
        match check.await {
            Ok(()) => body(TEXT, r#"{"health":"true","reason":""}"#),
            Err(reason) => {
                let output =
                    format!(r#"{{"health":"false","reason":{}}}"#, serde_json::json!(reason));
                let status = StatusCode::SERVICE_UNAVAILABLE;
                tracing::warn!(output, status_code = status.as_u16(), "/health error");
                error(status, &output)
            }
        }
    }

    async fn own_health(&self) -> Result<(), String> {
        let own = self.own.as_ref().ok_or("no connection to proxy")?;
        read(own).await?;
        match timeout(WATCH_TIMEOUT, watch(own)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err("WATCH TIMEOUT".to_owned()),
        }
    }
}

/// Reads a key.
async fn read(upstream: &Upstream) -> Result<(), String> {
    let request = RangeRequest { key: HEALTH_KEY.into(), ..RangeRequest::default() };
    let failed = |text: &str| Err(format!("GET ERROR:{text}"));
    let request = match upstream.request(request, &own_metadata()) {
        Ok(request) => request,
        Err(status) => return failed(status.message()),
    };
    match timeout(READ_TIMEOUT, upstream.kv().range(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(status)) if status.message() == PERMISSION_DENIED => Ok(()),
        Ok(Err(status)) => failed(status.message()),
        Err(_) => failed("context deadline exceeded"),
    }
}

/// Watches a key until the watcher exists.
async fn watch(upstream: &Upstream) -> Result<(), tonic::Status> {
    let create = WatchCreateRequest { key: HEALTH_KEY.into(), ..WatchCreateRequest::default() };
    let mut responses = upstream.open_watch(upstream.request(create, &own_metadata())?).await?;
    responses.message().await.map(|_| ())
}

/// Answers a request for a profile. Reads the body of one that may have addresses in it.
async fn respond<B>(profiles: &Profiles, name: &str, head: &Parts, body: B) -> Response<Bytes>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let content = match head.method == Method::POST {
        true => match timeout(BODY_TIMEOUT, Limited::new(body, SYMBOL_BYTES_MAX).collect()).await {
            Ok(Ok(content)) => content.to_bytes(),
            Ok(Err(failed)) => return error(StatusCode::BAD_REQUEST, &failed.to_string()),
            Err(_) => return error(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
        },
        false => Bytes::new(),
    };
    let query = head.uri.query().unwrap_or_default();
    profiles.respond(&ProfileRequest { method: &head.method, name, query, body: &content }).await
}

/// Redirects to the index of the profiles.
fn redirect(head: &Parts) -> Response<Bytes> {
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::default();
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    // A query is a valid header value.
    if let Ok(to) = HeaderValue::from_str(&format!("{}{query}", profile::PREFIX)) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// Removes the body of a response to HEAD, and keeps its length if that is announced.
fn without_body_of_head(head: &Parts, mut response: Response<Bytes>) -> Response<Bytes> {
    if head.method == Method::HEAD {
        let length = std::mem::take(response.body_mut()).len();
        if is_announced(length) {
            response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        }
    }
    response
}

/// Reports whether a response announces its length. As with Go's server, a long one does not: it is
/// sent before the server knows its length.
pub(crate) fn is_announced(body_bytes: usize) -> bool {
    body_bytes <= ANNOUNCED_BYTES_MAX
}

fn body(kind: HeaderValue, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Creates an error response. As in Go, a newline is added to the text.
fn error(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut response = body(TEXT, format!("{text}\n"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    *response.status_mut() = status;
    response
}
