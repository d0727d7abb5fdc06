//! `/metrics`: all metrics in the text format of Prometheus.
//!
//! ```text
//!   # HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.
//!   # TYPE etcd_server_has_leader gauge
//!   etcd_server_has_leader 1
//! ```
//!
//! As in etcd, any method is accepted, and the text is compressed if the client prefers gzip. The
//! form of Prometheus in protobuf is not offered.

mod negotiate;

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, HeaderMap};
use http::{HeaderValue, Response, StatusCode};
use prometheus::{Encoder as _, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};
use tokio::sync::Semaphore;

use super::response;

/// Serves the registry and counts the requests.
#[derive(Debug)]
pub(super) struct Exposition {
    registry: Registry,
    in_flight: IntGauge,
    succeeded: IntCounter,
    failed: IntCounter,
    /// Allows one page at a time: a page takes milliseconds where other requests take microseconds.
    permit: Semaphore,
}

impl Exposition {
    pub(super) fn new(registry: Registry) -> prometheus::Result<Exposition> {
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

    /// Creates a page. Yields before each one, so that other tasks run between the pages of a
    /// client that requests many.
    pub(super) async fn respond(&self, headers: &HeaderMap) -> Response<Bytes> {
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
                let what = format!("An error has occurred while serving metrics:\n\n{error}");
                response::error(StatusCode::INTERNAL_SERVER_ERROR, what)
            }
        }
    }
}

/// Creates the response with a page, in the encoding that the client prefers.
fn encoded_page(text: Vec<u8>, headers: &HeaderMap) -> Response<Bytes> {
    let compressed = negotiate::prefers_gzip(headers).then(|| compress(&text)).flatten();
    let is_compressed = compressed.is_some();
    let mut page = response::page(negotiate::content_type(headers), compressed.unwrap_or(text));
    if is_compressed {
        page.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    page
}

/// Compresses a page, quickly rather than well, because it blocks the runtime thread.
fn compress(text: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).ok()?;
    encoder.finish().ok()
}
