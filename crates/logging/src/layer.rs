//! The tracing layer: turns an event into a line in the queue, on the logging thread.
//!
//! ```text
//!   enabled (level, crate; evaluated once per call site)
//!      └► message ─► sampled? ─► fields: spans, outermost first, then event ─► format ─► queue
//! ```
//!
//! The fields of a span are formatted when it is created and appear in every line logged inside it.
//! The layer does no I/O and never waits.

use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::Level;
use super::fields::{Fields, Message};
use super::line::{Entry, Layout, Line};
use super::origin::{Caller, is_ours, logger_of};
use super::queue::Queue;
use super::sample::Sampler;
use super::timestamp;

/// A tracing layer that formats events as zap does.
pub(super) struct LineLayer {
    level: Level,
    layout: Layout,
    sampler: Option<Sampler>,
    queue: Arc<Queue>,
}

impl LineLayer {
    /// Creates a layer that sends lines of `level` and above to `queue`.
    pub(super) fn new(
        level: Level,
        layout: Layout,
        sampler: Option<Sampler>,
        queue: Arc<Queue>,
    ) -> Self {
        Self { level, layout, sampler, queue }
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let Some(level) = Level::of(metadata) else { return false };
        level >= self.level && (level >= Level::Warn || is_ours(metadata.target()))
    }

    fn passes(&self, entry: &Entry<'_>) -> bool {
        // Past the year 2262 nanoseconds do not fit; all lines then share one sampling interval.
        let nanos = i64::try_from(entry.at.as_nanosecond()).unwrap_or(i64::MAX);
        self.sampler
            .as_ref()
            .is_none_or(|sampler| sampler.passes(entry.level, entry.message, nanos))
    }

    fn fields_of<S>(&self, event: &Event<'_>, context: &Context<'_, S>) -> Fields
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let mut fields = self.layout.fields();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.append(of_span);
            }
        }
        event.record(&mut fields);
        fields
    }
}

impl<S> Layer<S> for LineLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.level.tracing()))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = self.layout.fields();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let Some(level) = Level::of(metadata) else { return };
        let mut message = Message::default();
        event.record(&mut message);
        let caller =
            Caller::new(metadata.file().unwrap_or("undefined"), metadata.line().unwrap_or(0));
        let none = self.layout.fields();
        let entry = Entry {
            level,
            at: timestamp::now(),
            logger: logger_of(metadata.target()),
            caller,
            message: message.as_str(),
            fields: &none,
            stack: None,
        };
        if !self.passes(&entry) {
            return;
        }
        let fields = self.fields_of(event, &context);
        let text = self.layout.text(&Entry { fields: &fields, ..entry });
        self.queue.push(Line { level, package: caller.package().into(), text });
    }
}
