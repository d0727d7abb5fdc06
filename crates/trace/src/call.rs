//! A traced call.

use std::time::SystemTime;

use opentelemetry::SpanId;
use opentelemetry::trace::{Event, SpanContext, SpanKind, Status};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::span::{Span, key_value};
use crate::tracer::{Tracer, new_span_id};

/// A traced call, and its position in the trace.
#[derive(Debug)]
pub struct Call {
    tracer: Tracer,
    context: SpanContext,
    parent: SpanId,
}

impl Call {
    pub(crate) fn new(tracer: Tracer, context: SpanContext, parent: SpanId) -> Call {
        Call { tracer, context, parent }
    }

    /// Queues a part of the call, at any time.
    pub fn child(&self, span: Span) {
        let position =
            SpanPosition { context: self.at(new_span_id()), parent: self.context.span_id() };
        self.queue_span(span, position, SpanKind::Internal, Status::Unset);
    }

    /// Queues the call itself when it has ended, with its failure if any.
    pub fn end(&self, span: Span, failure: Option<String>) {
        let status = failure.map_or(Status::Unset, Status::error);
        let position = SpanPosition { context: self.context.clone(), parent: self.parent };
        self.queue_span(span, position, SpanKind::Server, status);
    }

    fn queue_span(&self, span: Span, position: SpanPosition, kind: SpanKind, status: Status) {
        let Span { name, began, ended, attributes, events, children } = span;
        for child in children {
            let below = SpanPosition {
                context: self.at(new_span_id()),
                parent: position.context.span_id(),
            };
            self.queue_span(child, below, SpanKind::Internal, Status::Unset);
        }
        self.tracer.queue().push(SpanData {
            parent_span_id: position.parent,
            parent_span_is_remote: kind == SpanKind::Server,
            span_context: position.context,
            span_kind: kind,
            name,
            start_time: began,
            // Clocks may go back; a span must not end before it begins.
            end_time: ended.max(began),
            attributes: attributes.into_iter().map(key_value).collect(),
            dropped_attributes_count: 0,
            events: span_events(events),
            links: SpanLinks::default(),
            status,
            instrumentation_scope: self.tracer.scope(),
        });
    }

    /// Returns the context of another span of the trace.
    fn at(&self, span: SpanId) -> SpanContext {
        let context = &self.context;
        let state = context.trace_state().clone();
        SpanContext::new(context.trace_id(), span, context.trace_flags(), false, state)
    }

    #[cfg(test)]
    pub(crate) fn context(&self) -> &SpanContext {
        &self.context
    }

    #[cfg(test)]
    pub(crate) fn parent(&self) -> SpanId {
        self.parent
    }
}

/// The context of a span and its parent.
struct SpanPosition {
    context: SpanContext,
    parent: SpanId,
}

fn span_events(events: Vec<(&'static str, SystemTime)>) -> SpanEvents {
    let mut all = SpanEvents::default();
    let event = |(name, at)| Event::new(name, at, Vec::new(), 0);
    all.events.extend(events.into_iter().map(event));
    all
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::HeaderMap;

    use super::*;
    use crate::Value;
    use crate::export::tests::{queue, waiting};

    fn at(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn nested_spans_keep_their_parents() {
        let (queue, mut spans) = queue(8);
        let call = Tracer::new(1_000_000, queue).begin(&HeaderMap::new()).unwrap();
        let sync = Span::new("sync", at(2), at(6));
        let propose = Span { children: vec![sync], ..Span::new("propose", at(1), at(7)) };
        let attributes = vec![("key", Value::bytes(b"foo"))];
        let put = Span { children: vec![propose], attributes, ..Span::new("put", at(0), at(9)) };
        call.child(put);
        call.end(Span::new("KV/Put", at(0), at(9)), None);

        let queued = waiting(&mut spans);
        let names: Vec<_> = queued.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["sync", "propose", "put", "KV/Put"]);
        let parents: Vec<_> = queued[1..].iter().map(|span| span.span_context.span_id()).collect();
        assert_eq!(queued[..3].iter().map(|span| span.parent_span_id).collect::<Vec<_>>(), parents);
        assert_eq!(queued[3].span_kind, SpanKind::Server);
        assert_eq!(queued[3].parent_span_id, SpanId::INVALID);
        let traces = queued.iter().map(|span| span.span_context.trace_id());
        assert!(traces.into_iter().all(|trace| trace == call.context().trace_id()));
        assert_eq!(queued[2].attributes[0].key.as_str(), "key");
    }

    #[test]
    fn a_span_does_not_end_before_it_begins() {
        let (queue, mut spans) = queue(8);
        let call = Tracer::new(1_000_000, queue).begin(&HeaderMap::new()).unwrap();
        call.end(Span::new("KV/Put", at(5), at(4)), Some("no".to_owned()));
        let queued = waiting(&mut spans);
        assert_eq!((queued[0].end_time, &queued[0].status), (at(5), &Status::error("no")));
    }
}
