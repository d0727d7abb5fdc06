//! Distributed tracing: which calls are traced, and how their spans reach a collector.
//!
//! ```text
//!   traceparent: 00-0af7… ─► Tracer::begin ─► Call ─► Span tree ─► queue ─► thread `trace` ─► OTLP
//!                              │ not sampled                         │ full
//!                              └─► None                              └─► dropped and counted
//! ```
//!
//! The spans of a call are known when it ends. So the server keeps a [`Call`], records times, and
//! finally queues all spans as a tree:
//!
//! ```text
//!   etcdserverpb.KV/Put   12.000 … 12.009    server, below b7ad…3331, or the root of a trace
//!   └ put                 12.000 … 12.009
//!     ├ propose           12.001 … 12.007
//!     │ └ sync            12.002 … 12.006
//!     └ apply             12.007 … 12.008
//! ```
//!
//! Invariants:
//!
//! - A call that is not sampled costs a lookup in its headers, and nothing without a [`Tracer`].
//! - No request waits for a collector: spans beyond the queue (at most [`QUEUE_SPANS_LIMIT`]) are
//!   dropped, as are spans that cannot be sent. All of them are counted, and logged at intervals.
//! - The size of a span is bounded, whatever the request ([`TEXT_BYTES_MAX`]).
//!
//! Callers decide what is worth a span and name it. Logs and metrics are not part of this crate.

mod batch;
mod call;
mod export;
mod sampler;
mod span;
mod tracer;

pub use batch::{QUEUE_SPANS_LIMIT, SizeError};
pub use call::Call;
pub use export::Export;
pub use span::{Span, TEXT_BYTES_MAX, Value};
pub use tracer::Tracer;

/// The collector, and the sampling rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The host and port of a collector that speaks OTLP over gRPC.
    pub address: String,
    /// The common name of all members: `service.name`.
    pub service_name: String,
    /// The name of this member, if any: `service.instance.id`.
    pub instance_id: Option<String>,
    /// The number of calls traced per million, of those without a sampling decision.
    pub sampled_per_million: u32,
}

/// The reason tracing could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address, or a variable of the environment, is invalid.
    #[error("distributed tracing: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// A queue or batch has an impossible size.
    #[error("distributed tracing: {0}")]
    Size(#[from] SizeError),
    /// The exporter thread could not be started.
    #[error("distributed tracing: {0}")]
    Thread(#[from] std::io::Error),
    /// The metrics are already registered.
    #[error("distributed tracing: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Starts tracing: returns the tracer, and the handle of the exporter thread.
///
/// # Errors
/// See [`StartError`]. An unreachable collector is not an error: it may appear later.
pub fn start(
    settings: &Settings,
    registry: &prometheus::Registry,
) -> Result<(Tracer, Export), StartError> {
    let (queue, export) = export::start(settings, registry)?;
    Ok((Tracer::new(settings.sampled_per_million, queue), export))
}
