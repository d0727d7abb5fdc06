//! The outputs.
//!
//! | `--log-outputs` | sink |
//! | --- | --- |
//! | `default`, `stderr`, `stdout`, a file | [`stream`] |
//! | a file, with `--enable-log-rotation` | [`rotate`] |
//! | `systemd/journal` | [`journal`] |

mod backups;
mod compress;
pub(super) mod journal;
pub(super) mod rotate;
pub(super) mod stream;

use super::line::Line;

/// An output. Only the writer thread uses it, so it may block.
pub(super) trait Sink: Send {
    /// Writes lines. Returns how many were lost.
    fn write(&mut self, lines: &[Line]) -> usize;
}

#[cfg(test)]
pub(super) fn line(level: super::Level, text: &str) -> Line {
    Line { level, package: "node".into(), text: text.to_owned() }
}
