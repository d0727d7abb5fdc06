//! All metrics of a process in the text format of Prometheus: `/metrics` of a member, and
//! `/proxy/metrics` of a gRPC proxy.
//!
//! ```text
//!   Accept-Encoding: gzip                  Content-Encoding: gzip
//!   Accept: text/plain;escaping=dots  ─►   Content-Type: text/plain; version=0.0.4; …escaping=dots
//!
//!                                          # TYPE etcd_server_has_leader gauge
//!                                          etcd_server_has_leader 1
//! ```
//!
//! As with promhttp, which etcd uses, any method is accepted, the text is compressed if the client
//! prefers gzip, and requests are counted. The form of Prometheus in protobuf is not offered.
//!
//! Invariants: one page at a time is built; other tasks run between two pages. This crate does not
//! know which metrics there are.

mod negotiate;

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use prometheus::{Encoder as _, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};
use tokio::sync::Semaphore;

const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Serves the registry and counts the requests.
#[derive(Debug)]
pub struct Exposition {
    registry: Registry,
    in_flight: IntGauge,
    succeeded: IntCounter,
    failed: IntCounter,
    /// Allows one page at a time: a page takes milliseconds where other requests take microseconds.
    permit: Semaphore,
}

impl Exposition {
    /// Serves a registry, to which the counters of requests are added.
    ///
    /// # Errors
    /// The registry already has one of the counters.
    pub fn new(registry: Registry) -> prometheus::Result<Exposition> {
        let in_flight = IntGauge::new(
            "promhttp_metric_handler_requests_in_flight",
            "Current number of scrapes being served.",
        )?;
        let total = IntCounterVec::new(
            Opts::new(
                "promhttp_metric_handler_requests_total",
                "Total number of scrapes by HTTP status code.",
            ),
            &["code"],
        )?;
        let [succeeded, failed, _busy] =
            ["200", "500", "503"].map(|code| total.with_label_values(&[code]));
        registry.register(Box::new(in_flight.clone()))?;
        registry.register(Box::new(total))?;
        Ok(Exposition { registry, in_flight, succeeded, failed, permit: Semaphore::new(1) })
    }

    /// Creates a page for a client with these headers. Yields before each one, so that other tasks
    /// run between the pages of a client that requests many.
    pub async fn respond(&self, headers: &HeaderMap) -> Response<Bytes> {
        let permit = self.permit.acquire().await;
        tokio::task::yield_now().await;
        let page = self.page(headers);
        drop(permit);
        page
    }

    fn page(&self, headers: &HeaderMap) -> Response<Bytes> {
        self.in_flight.inc();
        let mut text = Vec::new();
        let encoded = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        self.in_flight.dec();
        match encoded {
            Ok(()) => {
                self.succeeded.inc();
                encoded_page(text, headers)
            }
            Err(error) => {
                self.failed.inc();
                failure(&error)
            }
        }
    }
}

/// Creates the response with a page, in the encoding that the client prefers.
fn encoded_page(text: Vec<u8>, headers: &HeaderMap) -> Response<Bytes> {
    let compressed = negotiate::prefers_gzip(headers).then(|| compress(&text)).flatten();
    let is_compressed = compressed.is_some();
    let mut page = Response::new(Bytes::from(compressed.unwrap_or(text)));
    page.headers_mut().insert(CONTENT_TYPE, negotiate::content_type(headers));
    if is_compressed {
        page.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    page
}

/// Creates the response with an error. The text is promhttp's, the headers are Go's.
fn failure(error: &prometheus::Error) -> Response<Bytes> {
    let text = format!("An error has occurred while serving metrics:\n\n{error}\n");
    let mut page = Response::new(Bytes::from(text));
    *page.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    page.headers_mut().insert(CONTENT_TYPE, PLAIN_TEXT);
    page.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    page
}

/// Compresses a page, quickly rather than well, because it blocks the runtime thread.
fn compress(text: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use flate2::read::GzDecoder;
    use http::header::ACCEPT_ENCODING;

    use super::*;

    fn exposition() -> Exposition {
        let registry = Registry::new();
        let gauge = IntGauge::new("etcd_server_has_leader", "Whether there is a leader.").unwrap();
        gauge.set(1);
        registry.register(Box::new(gauge)).unwrap();
        Exposition::new(registry).unwrap()
    }

    fn respond(exposition: &Exposition, accepted: Option<&'static str>) -> Response<Bytes> {
        let accepted = accepted.map(|coding| (ACCEPT_ENCODING, HeaderValue::from_static(coding)));
        let headers = accepted.into_iter().collect();
        let (mut page, mut cx) =
            (pin!(exposition.respond(&headers)), Context::from_waker(Waker::noop()));
        assert!(page.as_mut().poll(&mut cx).is_pending(), "the first poll yields");
        match page.poll(&mut cx) {
            Poll::Ready(page) => page,
            Poll::Pending => panic!("the page was not finished by the second poll"),
        }
    }

    #[test]
    fn a_client_that_accepts_gzip_gets_the_same_page_compressed() {
        let (plain, compressed) =
            (respond(&exposition(), None), respond(&exposition(), Some("gzip")));
        assert_eq!(plain.headers().get(CONTENT_ENCODING), None);
        assert_eq!(compressed.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(compressed.headers()[CONTENT_TYPE], plain.headers()[CONTENT_TYPE]);
        let mut text = String::new();
        GzDecoder::new(&compressed.body()[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text.as_bytes(), plain.body());
        assert!(text.lines().any(|line| line == "etcd_server_has_leader 1"), "{text}");
    }

    #[test]
    fn requests_are_counted() {
        let exposition = exposition();
        respond(&exposition, None);
        let page = respond(&exposition, None);
        let text = std::str::from_utf8(page.body()).unwrap();
        for line in [
            "promhttp_metric_handler_requests_in_flight 1",
            "promhttp_metric_handler_requests_total{code=\"200\"} 1",
            "promhttp_metric_handler_requests_total{code=\"500\"} 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
        }
    }
}
