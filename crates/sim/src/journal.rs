//! What happened, in words, for whoever has to find out why a seed failed. Kept only if somebody wants it: the same seed tells it again.

use std::time::Duration;

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    lines: Option<Vec<String>>,
}

impl Journal {
    /// One that is kept.
    #[must_use]
    pub fn kept() -> Journal {
        Journal { lines: Some(Vec::new()) }
    }

    /// Something happened.
    pub fn note(&mut self, now: Duration, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>9.3} s  {}", now.as_secs_f64(), what()));
        }
    }

    /// All of it.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
