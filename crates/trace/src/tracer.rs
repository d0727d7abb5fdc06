//! Decides which calls are traced.

use std::sync::Arc;

use http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, SpanId};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};

use crate::call::Call;
use crate::export::Queue;
use crate::sampler::Sampler;

/// The instrumentation scope of all spans.
const SCOPE: &str = "bowline";
const TRACEPARENT: &str = "traceparent";

/// Decides which calls are traced. Clones share their state.
#[derive(Clone, Debug)]
pub struct Tracer {
    shared: Arc<TracerShared>,
}

#[derive(Debug)]
struct TracerShared {
    sampler: Sampler,
    queue: Queue,
    scope: InstrumentationScope,
}

impl Tracer {
    pub(crate) fn new(sampled_per_million: u32, queue: Queue) -> Tracer {
        let scope = InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION"));
        let sampler = Sampler::new(sampled_per_million);
        Tracer { shared: Arc::new(TracerShared { sampler, queue, scope: scope.build() }) }
    }

    /// Begins a call with these headers, if it is traced: as its caller decided, or else by the
    /// sampling rate.
    pub fn begin(&self, headers: &HeaderMap) -> Option<Call> {
        let (context, parent) = match parent(headers) {
            Some(parent) => (self.below(&parent)?, parent.span_id()),
            None => (self.root()?, SpanId::INVALID),
        };
        Some(Call::new(self.clone(), context, parent))
    }

    /// Continues the trace of the caller.
    fn below(&self, parent: &SpanContext) -> Option<SpanContext> {
        parent.is_sampled().then(|| {
            let (trace, state) = (parent.trace_id(), parent.trace_state().clone());
            SpanContext::new(trace, new_span_id(), TraceFlags::SAMPLED, false, state)
        })
    }

    /// Starts a new trace.
    fn root(&self) -> Option<SpanContext> {
        if self.shared.sampler.is_never() {
            return None;
        }
        let trace = RandomIdGenerator::default().new_trace_id();
        self.shared.sampler.samples(trace).then(|| {
            let state = TraceState::default();
            SpanContext::new(trace, new_span_id(), TraceFlags::SAMPLED, false, state)
        })
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.shared.queue
    }

    pub(crate) fn scope(&self) -> InstrumentationScope {
        self.shared.scope.clone()
    }
}

pub(crate) fn new_span_id() -> SpanId {
    RandomIdGenerator::default().new_span_id()
}

/// Returns the caller's span; `None` if the header is missing or invalid.
fn parent(headers: &HeaderMap) -> Option<SpanContext> {
    if !headers.contains_key(TRACEPARENT) {
        return None;
    }
    let context = TraceContextPropagator::new().extract(&Headers(headers));
    let parent = context.span().span_context().clone();
    parent.is_valid().then_some(parent)
}

/// Compat: as in etcd, the first of repeated headers counts.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::export::tests::queue;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn begin(per_million: u32, headers: &[(&'static str, &'static str)]) -> Option<Call> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Tracer::new(per_million, queue(8).0).begin(&headers.collect())
    }

    #[test]
    fn the_callers_sampling_decision_is_followed() {
        let sampled = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
        let not = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")];
        assert!(begin(1_000_000, &not).is_none());
        let call = begin(0, &sampled).unwrap();
        assert_eq!(call.context().trace_id().to_string(), TRACE);
        assert_eq!(call.parent().to_string(), "b7ad6b7169203331");
        assert_ne!(call.context().span_id(), call.parent());
    }

    #[test]
    fn the_trace_state_is_preserved() {
        let headers = [
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("tracestate", "a=b"),
        ];
        assert_eq!(begin(0, &headers).unwrap().context().trace_state().get("a"), Some("b"));
    }

    #[test]
    fn calls_without_a_decision_are_sampled_by_rate() {
        assert!(begin(0, &[]).is_none());
        let call = begin(1_000_000, &[]).unwrap();
        assert!(call.context().is_valid());
        assert_eq!(call.parent(), SpanId::INVALID);
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        for text in
            ["", "00-0-0-01", "zz", "00-00000000000000000000000000000000-b7ad6b7169203331-01"]
        {
            assert!(begin(0, &[("traceparent", text)]).is_none(), "{text}");
            let call = begin(1_000_000, &[("traceparent", text)]).unwrap();
            assert_ne!(call.context().trace_id().to_string(), TRACE);
        }
    }
}
