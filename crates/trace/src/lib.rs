//! Distributed tracing: which calls are traced, and how their spans get to a collector.
//!
//! ```text
//!   traceparent: 00-0af7…319c-b7ad…3331-01 ──► Tracer::begin ──► Call ──► Span, with spans in it ──► queue ──► thread `trace` ──► OTLP over gRPC
//!                                                 │ not sampled                                      │ full
//!                                                 └─► nothing                                        └─► dropped, and counted
//! ```
//!
//! What becomes of a call is known when it ends. So whoever serves it keeps a [`Call`], notes moments, and in the end tells it all at once, as a tree:
//!
//! ```text
//!   etcdserverpb.KV/Put   12.000 … 12.009    server, below b7ad…3331, or the root of a trace
//!   └ put                 12.000 … 12.009
//!     ├ propose           12.001 … 12.007
//!     │ └ sync            12.002 … 12.006
//!     └ apply             12.007 … 12.008
//! ```
//!
//! What is always true:
//!
//! - A call that is not sampled costs a look at its headers, and none at all without a [`Tracer`].
//! - Nobody waits for a collector: spans that do not fit the queue ([`QUEUE_SPANS_MAX`]) are dropped, and so are those that could not be sent; all of them are
//!   counted, and the log says so, but not each time.
//! - What a span holds is bounded, whatever the request held ([`TEXT_BYTES_MAX`]).
//!
//! What is worth a span, and what it is called, is for others. So is everything but spans: logs and metrics go their own ways.

mod call;
mod export;
mod sampler;
mod span;
mod tracer;

pub use call::Call;
pub use export::{Export, QUEUE_SPANS_MAX};
pub use span::{Span, TEXT_BYTES_MAX, Value};
pub use tracer::Tracer;

/// Where spans go, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Host and port of a collector that speaks OTLP over gRPC.
    pub address: String,
    /// What all members are called together: `service.name`.
    pub service_name: String,
    /// What this one is called, if it has a name: `service.instance.id`.
    pub instance_id: Option<String>,
    /// Of a million calls that come without a decision, how many are traced.
    pub sampled_per_million: u32,
}

/// Why nothing can be traced.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There can be no collector at such an address, or a setting of its environment makes no sense.
    #[error("distributed tracing: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// There is no thread to send from.
    #[error("distributed tracing: {0}")]
    Thread(#[from] std::io::Error),
    /// What is counted is counted by somebody else already.
    #[error("distributed tracing: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Begins to trace: the one who decides, and the one who sends.
///
/// # Errors
/// As [`StartError`] tells. That nobody is at the address is not among them: somebody may come.
pub fn start(
    settings: &Settings,
    registry: &prometheus::Registry,
) -> Result<(Tracer, Export), StartError> {
    let (queue, export) = export::start(settings, registry)?;
    Ok((Tracer::new(settings.sampled_per_million, queue), export))
}
