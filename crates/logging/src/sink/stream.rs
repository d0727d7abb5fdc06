//! Standard error, standard output, or a file without rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use super::Sink;
use crate::line::Line;

/// Lines are merged into writes of about this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// The wait before a retry if the output is not ready: another process may have made it
/// non-blocking.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// An output that takes bytes.
pub(crate) struct Stream<W> {
    to: W,
    chunk: Vec<u8>,
}

impl<W: Write + Send> Stream<W> {
    /// Creates a sink that writes to `to`.
    pub(crate) fn new(to: W) -> Self {
        Self { to, chunk: Vec::new() }
    }

    /// Writes the buffered chunk of `lines` lines. Returns how many were lost.
    fn flush(&mut self, lines: usize) -> usize {
        let outcome = write_fully(&mut self.to, &self.chunk);
        self.chunk.clear();
        if outcome.is_ok() { 0 } else { lines }
    }
}

impl<W: Write + Send> Sink for Stream<W> {
    fn write(&mut self, lines: &[Line]) -> usize {
        let (mut lost, mut buffered) = (0, 0);
        for line in lines {
            self.chunk.extend_from_slice(line.text.as_bytes());
            buffered += 1;
            if self.chunk.len() >= CHUNK_BYTES {
                lost += self.flush(buffered);
                buffered = 0;
            }
        }
        lost + self.flush(buffered)
    }
}

/// Opens a file for appending, as zap does: created if missing, with the mode that the umask
/// leaves.
pub(crate) fn append(path: &str) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Writes all bytes, and waits while the output is not ready.
pub(super) fn write_fully(to: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY_PAUSE),
            Err(error) => return Err(error),
        }
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::sink::line;

    /// Takes three bytes per write, and is not ready every other time.
    #[derive(Default)]
    struct Slow {
        taken: Vec<u8>,
        is_ready: bool,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.is_ready = !self.is_ready;
            if !self.is_ready {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let len = bytes.len().min(3);
            self.taken.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn partial_writes_are_continued() {
        let mut stream = Stream::new(Slow::default());
        let lines = [line(Level::Info, "first\n"), line(Level::Info, "second\n")];
        assert_eq!(stream.write(&lines), 0);
        assert_eq!(stream.to.taken, b"first\nsecond\n");
    }

    #[test]
    fn a_failed_write_loses_its_lines_only() {
        let (mut little, mut enough) = ([0; 4], [0; 8]);
        let mut stream = Stream::new(&mut little[..]);
        let lines = [line(Level::Info, "first\n"), line(Level::Info, "second\n")];
        assert_eq!(stream.write(&lines), 2);
        stream.to = &mut enough[..];
        assert_eq!(stream.write(&lines[..1]), 0);
    }

    #[test]
    fn a_file_is_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd.log");
        let path = path.to_str().unwrap();
        for text in ["one\n", "two\n"] {
            let mut stream = Stream::new(append(path).unwrap());
            assert_eq!(stream.write(&[line(Level::Info, text)]), 0);
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
    }
}
