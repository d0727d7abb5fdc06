//! The journal of a run, for finding out why a seed failed. It is kept only on request, since a
//! seed can be repeated.

use std::time::Duration;

/// Timed log lines.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    lines: Option<Vec<String>>,
}

impl Journal {
    /// A journal that keeps its lines.
    #[must_use]
    pub fn enabled() -> Journal {
        Journal { lines: Some(Vec::new()) }
    }

    /// Adds a line.
    pub fn note(&mut self, now: Duration, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>9.3} s  {}", now.as_secs_f64(), what()));
        }
    }

    /// Returns all lines.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
