//! The journal of a run, which shows how a failing seed came about. It is disabled by default,
//! since a seed can be repeated with it.

use std::fmt;
use std::time::Duration;

use simkit::Trace;

/// The maximum number of lines, more than a scenario writes; older ones are dropped.
const LINES_MAX: usize = 1 << 20;

/// Timed log lines.
#[derive(Clone, Debug)]
pub struct Journal(Trace<String>);

impl Journal {
    /// Returns a journal that keeps its lines.
    #[must_use]
    pub fn enabled() -> Journal {
        Journal(Trace::new(LINES_MAX))
    }

    /// Returns a journal that drops its lines.
    #[must_use]
    pub fn disabled() -> Journal {
        Journal(Trace::disabled())
    }

    /// Adds a line, which is formatted only if the journal is enabled.
    pub fn note(&mut self, now: Duration, line: impl FnOnce() -> String) {
        self.0.record(|| format!("{:>9.3} s  {}", now.as_secs_f64(), line()));
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
