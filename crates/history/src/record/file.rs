//! The file format of histories: one JSON record per line.

use std::io::{self, BufRead, Read as _, Write};

use thiserror::Error;

use super::{History, Record};

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: u64 = 256 << 20;

/// An error while reading a history.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("read history: {0}")]
    Io(#[from] io::Error),
    /// A line is not a record.
    #[error("line {line} of the history: {source}")]
    Malformed {
        /// The line number, from 1.
        line: usize,
        /// The parse error.
        source: serde_json::Error,
    },
    /// A line is longer than [`LINE_BYTES_MAX`].
    #[error("line {line} of the history is longer than {LINE_BYTES_MAX} bytes")]
    TooLong {
        /// The line number, from 1.
        line: usize,
    },
}

impl History {
    /// Reads a history that [`write`](History::write) wrote. Skips empty lines.
    pub fn read(mut file: impl BufRead) -> Result<History, ReadError> {
        let mut history = History::default();
        let mut text = String::new();
        for line in 1.. {
            text.clear();
            let read = file.by_ref().take(LINE_BYTES_MAX + 1).read_line(&mut text)?;
            if read == 0 {
                break;
            }
            if text.len() as u64 > LINE_BYTES_MAX {
                return Err(ReadError::TooLong { line });
            }
            if !text.trim().is_empty() {
                let record = serde_json::from_str(&text)
                    .map_err(|source| ReadError::Malformed { line, source })?;
                history.push(record);
            }
        }
        Ok(history)
    }

    /// Writes the history, one record per line.
    pub fn write(&self, mut file: impl Write) -> io::Result<()> {
        for record in self.records() {
            serde_json::to_writer(&mut file, &record)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Returns every record of the history.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let operations = self.operations.iter().cloned().map(Record::Operation);
        let watches = self.watches.iter().cloned().map(Record::Watch);
        let finals = self.finals.iter().cloned().map(Record::Final);
        let hashes = self.hashes.iter().copied().map(Record::Hash);
        let defragments = self.defragments.iter().cloned().map(Record::Defragment);
        operations.chain(watches).chain(finals).chain(hashes).chain(defragments)
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;

    const FILE: &str = r#"{"operation":{"client":1,"invoked_ns":10,"request":{"put":{"key":"a","value":"1"}},"outcome":{"answered":{"at_ns":20,"response":{"revision":2,"body":{"put":{}}}}}}}
{"operation":{"client":2,"invoked_ns":15,"request":{"range":{"key":"a","end":"c","revision":2}},"outcome":{"unknown":{"error":"timeout"}}}}
{"operation":{"client":2,"invoked_ns":16,"request":{"txn":{"compares":[{"key":"a","is":"equal","to":{"mod":2}}],"then":[{"delete":{"key":"a"}}],"else":[]}},"outcome":{"refused":{"at_ns":17,"refusal":"compacted"}}}}
{"watch":{"client":3,"member":0,"request":{"key":"a"},"responses":[{"at_ns":16,"revision":1,"news":"created"},{"at_ns":20,"revision":2,"news":{"events":[{"kv":{"key":"a","value":"1","create":2,"mod":2,"version":1}}]}}]}}
{"final":{"member":1,"at_ns":30,"revision":2,"kvs":[]}}
{"hash":{"member":1,"revision":2,"compact_revision":-1,"hash":77}}
{"defragment":{"member":1,"invoked_ns":5,"at_ns":null}}
"#;

    #[test]
    fn reading_and_writing_a_file_preserves_every_byte() {
        let history = History::read(FILE.as_bytes()).unwrap();
        assert_eq!(history.operations.len(), 3);
        assert_eq!(history.watches[0].responses.len(), 2);
        let mut written = Vec::new();
        history.write(&mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), FILE);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let error = History::read("\n{\"operation\":5}\n".as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("line 2 of the history: "), "{error}");
    }

    #[test]
    fn operations_print_request_times_and_outcome() {
        let history = History::read(FILE.as_bytes()).unwrap();
        let lines: Vec<_> = history.operations.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "client 1 (0.00001..0.00002 ms): put a=\"1\" -> revision 2: put",
                "client 2 (0.000015.. ms): read [a, c) at 2 -> outcome unknown, timeout",
                "client 2 (0.000016..0.000017 ms): txn if mod(a) = 2 then delete a -> required revision has been compacted",
            ]
        );
    }
}
