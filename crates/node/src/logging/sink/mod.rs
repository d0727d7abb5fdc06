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

use std::io;

use super::line::Line;

/// An output. Only the writer's thread touches it, so it may take its time.
pub(super) trait Sink: Send {
    /// Writes lines; how many of them could not be.
    fn write(&mut self, lines: &[Line]) -> usize;
}

/// The cause of an error as Go words it: `no such file or directory`.
pub(super) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" (os error ").map_or(text.as_str(), |(cause, _)| cause);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
pub(super) fn line(level: super::Level, text: &str) -> Line {
    Line { level, package: "node".into(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_read_as_in_go() {
        let gone = io::Error::from_raw_os_error(2);
        assert_eq!(cause(&gone), "no such file or directory");
        assert_eq!(cause(&io::Error::other("Odd")), "odd");
    }
}
