//! `/metrics`: all that is counted, as Prometheus reads it.
//!
//! ```text
//!   # HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.
//!   # TYPE etcd_server_has_leader gauge
//!   etcd_server_has_leader 1
//! ```
//!
//! Any method will do, as in etcd. The text is sent as it is: whoever asks for it packed gets it unpacked, as HTTP allows.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use prometheus::{Encoder as _, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};
use tokio::sync::Semaphore;

use super::answer;

/// The text format, with the rule by which names are made to fit it.
const TEXT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");

/// What is shown, and how often it was.
#[derive(Debug)]
pub(super) struct Exposition {
    registry: Registry,
    in_flight: IntGauge,
    shown: IntCounter,
    failed: IntCounter,
    /// A page takes milliseconds where a request takes microseconds, so they are made one at a time.
    turn: Semaphore,
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
        let [shown, failed, _busy] =
            ["200", "500", "503"].map(|code| total.with_label_values(&[code]));
        registry.register(Box::new(in_flight.clone()))?;
        registry.register(Box::new(total))?;
        Ok(Exposition { registry, in_flight, shown, failed, turn: Semaphore::new(1) })
    }

    /// A page. Whoever asks for many, on many connections, waits for its own: between two of them everybody else has a turn.
    pub(super) async fn answer(&self) -> Response<Bytes> {
        let turn = self.turn.acquire().await;
        tokio::task::yield_now().await;
        let page = self.page();
        drop(turn);
        page
    }

    fn page(&self) -> Response<Bytes> {
        self.in_flight.inc();
        let mut text = Vec::new();
        let encoded = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        self.in_flight.dec();
        match encoded {
            Ok(()) => {
                self.shown.inc();
                answer::body(TEXT, text)
            }
            Err(error) => {
                self.failed.inc();
                let what = format!("An error has occurred while serving metrics:\n\n{error}");
                answer::error(StatusCode::INTERNAL_SERVER_ERROR, what)
            }
        }
    }
}
