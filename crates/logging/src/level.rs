//! Log levels: zap's seven over tracing's five.
//!
//! ```text
//!   tracing   TRACE   DEBUG   INFO   WARN   ERROR    ERROR, target "panic"   ERROR, target "fatal"
//!   written     -     debug   info   warn   error    panic                   fatal
//! ```
//!
//! Two reserved targets stand for the levels that tracing lacks, so that any crate can use them
//! without depending on this one: `error!(target: "fatal", %error, "listener failed")`. zap ends
//! the process after such a line; here the caller does.

use std::fmt;

use tracing::Metadata;

/// The target of an ERROR event that is written as `panic`.
pub const PANIC_TARGET: &str = "panic";
/// The target of an ERROR event that is written as `fatal`.
pub const FATAL_TARGET: &str = "fatal";

/// A level of `--log-level`, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Each step.
    Debug,
    /// State changed.
    #[default]
    Info,
    /// Unexpected, but handled.
    Warn,
    /// An operator has to act.
    Error,
    /// zap's "panic in development": only for filtering, nothing is written at it.
    DPanic,
    /// A thread panicked.
    Panic,
    /// The process ends.
    Fatal,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Self; 7] =
        [Self::Debug, Self::Info, Self::Warn, Self::Error, Self::DPanic, Self::Panic, Self::Fatal];

    /// Returns the name that is written in a line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::DPanic => "dpanic",
            Self::Panic => "panic",
            Self::Fatal => "fatal",
        }
    }

    /// Returns the level at which an event is written; `None` for TRACE, which is never written.
    pub(super) fn of(metadata: &Metadata<'_>) -> Option<Self> {
        match (*metadata.level(), metadata.target()) {
            (tracing::Level::TRACE, _) => None,
            (tracing::Level::DEBUG, _) => Some(Self::Debug),
            (tracing::Level::INFO, _) => Some(Self::Info),
            (tracing::Level::WARN, _) => Some(Self::Warn),
            (tracing::Level::ERROR, PANIC_TARGET) => Some(Self::Panic),
            (tracing::Level::ERROR, FATAL_TARGET) => Some(Self::Fatal),
            (tracing::Level::ERROR, _) => Some(Self::Error),
        }
    }

    /// Returns the most verbose tracing level that passes this one.
    pub(super) fn tracing(self) -> tracing::Level {
        match self {
            Self::Debug => tracing::Level::DEBUG,
            Self::Info => tracing::Level::INFO,
            Self::Warn => tracing::Level::WARN,
            Self::Error | Self::DPanic | Self::Panic | Self::Fatal => tracing::Level::ERROR,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_levels_compare_greater() {
        assert!(Level::ALL.is_sorted());
    }

    #[test]
    fn names_are_zaps() {
        let names = Level::ALL.map(Level::as_str);
        assert_eq!(names, ["debug", "info", "warn", "error", "dpanic", "panic", "fatal"]);
    }
}
