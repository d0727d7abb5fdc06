//! Batching of spans: the settings of OpenTelemetry's batch span processor.
//!
//! ```text
//!   OTEL_BSP_SCHEDULE_DELAY           5000   ms until an incomplete batch is sent
//!   OTEL_BSP_EXPORT_TIMEOUT          30000   ms that an export may take; 0: no timeout
//!   OTEL_BSP_MAX_QUEUE_SIZE           2048   spans; more are dropped
//!   OTEL_BSP_MAX_EXPORT_BATCH_SIZE     512   spans of a batch
//! ```
//!
//! Names, units and defaults are those of Go's SDK, which etcd uses. As there, a value that is not
//! a number is logged and ignored, and so is a batch that is larger than the queue. Where Go's SDK
//! would panic, the start is refused.

use std::time::Duration;

/// The largest queue: a span takes about a kilobyte.
pub const QUEUE_SPANS_LIMIT: usize = 1 << 20;

const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
const TIMEOUT: &str = "OTEL_BSP_EXPORT_TIMEOUT";
const QUEUE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";
const BATCH: &str = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE";

/// The most spans of a batch, unless the environment sets another.
const BATCH_SPANS_DEFAULT: usize = 512;

/// The bounds and times of the exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchSettings {
    /// The most queued spans.
    pub(crate) queue_spans_max: usize,
    /// The most spans of a batch.
    pub(crate) batch_spans_max: usize,
    /// The longest time that a span waits for a batch.
    pub(crate) delay: Duration,
    /// The longest time that an export takes; none: no timeout.
    pub(crate) export_timeout: Option<Duration>,
}

impl Default for BatchSettings {
    fn default() -> BatchSettings {
        BatchSettings {
            queue_spans_max: 2048,
            batch_spans_max: BATCH_SPANS_DEFAULT,
            delay: Duration::from_secs(5),
            export_timeout: Some(Duration::from_secs(30)),
        }
    }
}

/// A size that no queue or batch can have.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name} must be at least {min} and at most {QUEUE_SPANS_LIMIT}, not {value}")]
pub struct SizeError {
    name: &'static str,
    min: i64,
    value: i64,
}

impl BatchSettings {
    /// Reads the variables of this process.
    ///
    /// # Errors
    /// A queue or batch cannot have the given size.
    pub(crate) fn from_environment() -> Result<BatchSettings, SizeError> {
        BatchSettings::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<BatchSettings, SizeError> {
        let mut settings = BatchSettings::default();
        let given = |name| number(name, &variable(name)?);
        if let Some(spans) = given(QUEUE) {
            settings.queue_spans_max = size(QUEUE, spans, 1)?;
        }
        if let Some(spans) = given(BATCH) {
            // Compat: as in Go, zero sends each span alone.
            settings.batch_spans_max = size(BATCH, spans, 0)?.max(1);
        }
        if settings.batch_spans_max > settings.queue_spans_max {
            settings.batch_spans_max = BATCH_SPANS_DEFAULT.min(settings.queue_spans_max);
        }
        if let Some(delay) = given(DELAY) {
            settings.delay = milliseconds(delay);
        }
        if let Some(timeout) = given(TIMEOUT) {
            settings.export_timeout = (timeout > 0).then(|| milliseconds(timeout));
        }
        Ok(settings)
    }
}

/// Parses a number. Compat: as in Go, an empty value counts as none, and anything else that is not
/// a number is logged and ignored.
fn number(name: &'static str, value: &str) -> Option<i64> {
    if value.is_empty() {
        return None;
    }
    // Go's Atoi accepts a sign of either kind, as Rust does.
    let number = value.parse().ok();
    if number.is_none() {
        tracing::warn!(name, value, "Got invalid value, number value expected.");
    }
    number
}

fn size(name: &'static str, value: i64, min: i64) -> Result<usize, SizeError> {
    let size = usize::try_from(value).ok().filter(|size| *size <= QUEUE_SPANS_LIMIT);
    size.filter(|_| value >= min).ok_or(SizeError { name, min, value })
}

/// Returns a duration; a negative one is zero.
fn milliseconds(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<BatchSettings, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        BatchSettings::from_variables(variable).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_gos_sdk() {
        let defaults = settings(&[]).unwrap();
        assert_eq!((defaults.queue_spans_max, defaults.batch_spans_max), (2048, 512));
        assert_eq!(defaults.delay, Duration::from_millis(5000));
        assert_eq!(defaults.export_timeout, Some(Duration::from_millis(30_000)));
    }

    #[test]
    fn variables_override_the_defaults() {
        let given = settings(&[(DELAY, "200"), (TIMEOUT, "0"), (QUEUE, "4000"), (BATCH, "1000")]);
        let expected = BatchSettings {
            queue_spans_max: 4000,
            batch_spans_max: 1000,
            delay: Duration::from_millis(200),
            export_timeout: None,
        };
        assert_eq!(given, Ok(expected));
    }

    #[test]
    fn a_batch_fits_the_queue() {
        let batch = |variables: &[_]| settings(variables).map(|found| found.batch_spans_max);
        assert_eq!(batch(&[(QUEUE, "100")]), Ok(100));
        assert_eq!(batch(&[(QUEUE, "1000"), (BATCH, "2000")]), Ok(512));
        assert_eq!(batch(&[(BATCH, "0")]), Ok(1));
    }

    #[test]
    fn values_that_are_not_numbers_are_ignored() {
        for value in ["", "x", "1.5", "5s", "99999999999999999999"] {
            let given =
                settings(&[(DELAY, value), (TIMEOUT, value), (QUEUE, value), (BATCH, value)]);
            assert_eq!(given, Ok(BatchSettings::default()), "{value}");
        }
        assert_eq!(settings(&[(DELAY, "-5")]).unwrap().delay, Duration::ZERO);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (name, value, text) in [
            (QUEUE, "0", "OTEL_BSP_MAX_QUEUE_SIZE must be at least 1 and at most 1048576, not 0"),
            (QUEUE, "-1", "OTEL_BSP_MAX_QUEUE_SIZE must be at least 1 and at most 1048576, not -1"),
            (
                BATCH,
                "-1",
                "OTEL_BSP_MAX_EXPORT_BATCH_SIZE must be at least 0 and at most 1048576, not -1",
            ),
            (
                QUEUE,
                "1048577",
                "OTEL_BSP_MAX_QUEUE_SIZE must be at least 1 and at most 1048576, not 1048577",
            ),
        ] {
            assert_eq!(settings(&[(name, value)]), Err(text.to_owned()));
        }
    }
}
