//! Where lines end up.
//!
//! | `--log-outputs` | sink |
//! | --- | --- |
//! | `default`, `stderr`, `stdout`, a file | [`stream`] |
//! | a file, with `--enable-log-rotation` | [`rotate`] |
//! | `systemd/journal` | [`journal`] |

pub(super) mod journal;
pub(super) mod rotate;
pub(super) mod stream;

use super::line::Line;

/// An output. Only the writer's thread touches it, so it may take its time.
pub(super) trait Sink: Send {
    /// Writes lines; how many of them could not be.
    fn write(&mut self, lines: &[Line]) -> usize;
}

#[cfg(test)]
pub(super) fn line(level: super::Level, text: &str) -> Line {
    Line { level, package: "node".into(), text: text.to_owned() }
}
