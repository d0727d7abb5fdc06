//! The systemd journal, by its native protocol.
//!
//! Each datagram is an entry:
//!
//! ```text
//!   PRIORITY=6⏎
//!   MESSAGE={"level":"info","ts":"…","caller":"mvcc/store.rs:9","msg":"…"}⏎
//!   PACKAGE=mvcc⏎
//!   SYSLOG_IDENTIFIER=bowline⏎
//!
//!   MESSAGE⏎ <length, 8 bytes, little-endian> <text> ⏎        for a text with newlines
//! ```
//!
//! A line always fits into a datagram. The socket is not connected, so that a restarted journal is
//! found again. As in etcd, a line that the journal does not take goes to standard error, and the
//! process does not start without a journal.

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::Sink;
use super::stream::write_fully;
use crate::Level;
use crate::line::Line;

/// The socket of the journal.
pub(crate) const SOCKET: &str = "/run/systemd/journal/socket";

/// A sink that sends each line as a journal entry.
pub(crate) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
    identifier: String,
    fallback: Box<dyn Write + Send>,
    datagram: Vec<u8>,
}

impl Journal {
    /// Checks that the journal listens on `path`.
    pub(crate) fn open(
        path: &Path,
        identifier: String,
        fallback: Box<dyn Write + Send>,
    ) -> io::Result<Self> {
        UnixDatagram::unbound()?.connect(path)?;
        let socket = UnixDatagram::unbound()?;
        Ok(Self { socket, path: path.to_owned(), identifier, fallback, datagram: Vec::new() })
    }

    fn send(&mut self, line: &Line) -> io::Result<()> {
        self.datagram.clear();
        push(&mut self.datagram, "PRIORITY", priority(line.level));
        push(&mut self.datagram, "MESSAGE", line.text.trim_end_matches('\n'));
        push(&mut self.datagram, "PACKAGE", &line.package);
        push(&mut self.datagram, "SYSLOG_IDENTIFIER", &self.identifier);
        self.socket.send_to(&self.datagram, &self.path)?;
        Ok(())
    }
}

impl Sink for Journal {
    fn write(&mut self, lines: &[Line]) -> usize {
        let mut lost = 0;
        for line in lines {
            if self.send(line).is_err()
                && write_fully(&mut self.fallback, line.text.as_bytes()).is_err()
            {
                lost += 1;
            }
        }
        lost
    }
}

/// Returns the name of this process in the journal: the name of its executable.
pub(crate) fn identifier() -> String {
    let started = std::env::args_os().next().map(PathBuf::from);
    let name = started.as_deref().and_then(Path::file_name);
    name.map_or_else(|| "bowline".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns the syslog priority.
fn priority(level: Level) -> &'static str {
    match level {
        Level::Debug => "7",
        Level::Info => "6",
        Level::Warn => "4",
        Level::Error => "3",
        Level::DPanic | Level::Panic | Level::Fatal => "2",
    }
}

fn push(datagram: &mut Vec<u8>, name: &str, value: &str) {
    datagram.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        datagram.push(b'\n');
        datagram.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        datagram.push(b'=');
    }
    datagram.extend_from_slice(value.as_bytes());
    datagram.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sink::line;
    use crate::sink::stream::append;

    struct Fake {
        dir: tempfile::TempDir,
        socket: UnixDatagram,
    }

    impl Fake {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let socket = UnixDatagram::bind(dir.path().join("socket")).unwrap();
            Self { dir, socket }
        }

        fn open(&self) -> Journal {
            let fallback = append(self.dir.path().join("stderr").to_str().unwrap()).unwrap();
            let path = self.dir.path().join("socket");
            Journal::open(&path, "bowline".to_owned(), Box::new(fallback)).unwrap()
        }

        fn receive(&self) -> Vec<u8> {
            let mut bytes = vec![0; 1024];
            let len = self.socket.recv(&mut bytes).unwrap();
            bytes.truncate(len);
            bytes
        }
    }

    #[test]
    fn an_entry_has_priority_and_package() {
        let fake = Fake::new();
        assert_eq!(fake.open().write(&[line(Level::Warn, "{\"msg\":\"x\"}\n")]), 0);
        let expected =
            "PRIORITY=4\nMESSAGE={\"msg\":\"x\"}\nPACKAGE=node\nSYSLOG_IDENTIFIER=bowline\n";
        assert_eq!(fake.receive(), expected.as_bytes());
    }

    #[test]
    fn a_text_with_newlines_carries_its_length() {
        let fake = Fake::new();
        assert_eq!(fake.open().write(&[line(Level::Panic, "boom\nat x\n")]), 0);
        let expected = b"PRIORITY=2\nMESSAGE\n\x09\0\0\0\0\0\0\0boom\nat x\nPACKAGE=node\n";
        assert!(fake.receive().starts_with(expected));
    }

    #[test]
    fn a_line_that_the_journal_refuses_goes_to_the_fallback() {
        let fake = Fake::new();
        let mut journal = fake.open();
        fs::remove_file(fake.dir.path().join("socket")).unwrap();
        assert_eq!(journal.write(&[line(Level::Info, "kept\n")]), 0);
        assert_eq!(fs::read_to_string(fake.dir.path().join("stderr")).unwrap(), "kept\n");
    }

    #[test]
    fn opening_fails_without_a_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let refused = Journal::open(&path, String::new(), Box::new(io::sink()));
        assert_eq!(refused.err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    }
}
