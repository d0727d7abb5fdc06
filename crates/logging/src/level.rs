//! How grave a line is: zap's seven levels over tracing's five.
//!
//! ```text
//!   tracing   TRACE   DEBUG   INFO   WARN   ERROR    ERROR to target "panic"   ERROR to target "fatal"
//!   written     -     debug   info   warn   error    panic                     fatal
//! ```
//!
//! Two targets are reserved for what tracing has no level for, so that any crate can say it without knowing this one:
//! `error!(target: "fatal", %error, "listener failed")`. zap ends the process after such a line; here the caller does.

use std::fmt;

use tracing::Metadata;

/// Target of an ERROR event that is to be written as `panic`.
pub const PANIC_TARGET: &str = "panic";
/// Target of an ERROR event that is to be written as `fatal`.
pub const FATAL_TARGET: &str = "fatal";

/// A level of `--log-level`, least grave first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Each step.
    Debug,
    /// State changed.
    #[default]
    Info,
    /// Odd, we went on.
    Warn,
    /// Someone must look.
    Error,
    /// zap's "panic while developing": a level to filter by; nothing is written at it.
    DPanic,
    /// A thread panicked.
    Panic,
    /// The process ends.
    Fatal,
}

impl Level {
    /// Every level, least grave first.
    pub const ALL: [Self; 7] =
        [Self::Debug, Self::Info, Self::Warn, Self::Error, Self::DPanic, Self::Panic, Self::Fatal];

    /// The name as it stands in a line.
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

    /// The level at which an event is written; `None` for TRACE, which never is.
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

    /// The most verbose tracing level that can pass this one.
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
    fn graver_levels_are_greater() {
        assert!(Level::ALL.is_sorted());
    }

    #[test]
    fn names_are_zaps() {
        let names = Level::ALL.map(Level::as_str);
        assert_eq!(names, ["debug", "info", "warn", "error", "dpanic", "panic", "fatal"]);
    }
}
