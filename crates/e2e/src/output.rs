//! The output of a process, captured line by line.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use crate::TIMEOUT;

/// Lines that are kept; further ones are read and dropped.
const LINES_MAX: usize = 100_000;
/// Lines that are shown when a test fails.
const TAIL_LINES: usize = 40;

/// Captured output of a process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Output(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    printed: Mutex<Printed>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Printed {
    lines: Vec<String>,
    ended: bool,
}

impl Output {
    /// Reads `source` to its end on a new thread.
    pub fn capture(source: impl Read + Send + 'static) -> Output {
        let output = Output::default();
        let to = output.clone();
        thread::spawn(move || to.read(BufReader::new(source)));
        output
    }

    fn read(&self, mut source: impl BufRead) {
        let mut line = Vec::new();
        while source.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            self.push(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
            line.clear();
        }
        self.0.printed.lock().ended = true;
        self.0.changed.notify_all();
    }

    fn push(&self, line: String) {
        let mut printed = self.0.printed.lock();
        if printed.lines.len() < LINES_MAX {
            printed.lines.push(line);
        }
        self.0.changed.notify_all();
    }

    /// Returns the lines printed so far.
    pub fn lines(&self) -> Vec<String> {
        self.0.printed.lock().lines.clone()
    }

    /// Returns the output so far as one text.
    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// Returns the last lines, for failure messages.
    pub fn tail(&self) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    /// Returns the lines that are JSON, parsed.
    pub fn records(&self) -> Vec<Value> {
        self.lines().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the first record with this message, if it was printed.
    pub fn record(&self, message: &str) -> Option<Value> {
        self.records().into_iter().find(|record| record["msg"] == message)
    }

    /// Waits for a line, including those already printed. Returns none if the output ends without
    /// it.
    ///
    /// # Panics
    ///
    /// If neither happens within the timeout.
    #[track_caller]
    pub fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let deadline = Instant::now() + TIMEOUT;
        let mut seen = 0;
        let mut printed = self.0.printed.lock();
        loop {
            if let Some(line) = printed.lines[seen..].iter().find(|line| wanted(line)) {
                return Some(line.clone());
            }
            seen = printed.lines.len();
            if printed.ended {
                return None;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(printed);
                panic!("timed out after {TIMEOUT:?} waiting for a log line:\n{}", self.tail());
            }
            self.0.changed.wait_for(&mut printed, left);
        }
    }

    /// Waits for a record with this message.
    ///
    /// # Panics
    ///
    /// If it is not printed in time, or the output ends without it.
    #[track_caller]
    pub fn wait_for_message(&self, message: &str) -> Value {
        let has_message = |line: &str| message_of(line).as_deref() == Some(message);
        match self.wait_for(has_message) {
            Some(line) => serde_json::from_str(&line).expect("the matched line is JSON"),
            None => panic!("the log ends without {message:?}:\n{}", self.tail()),
        }
    }

    /// Waits for the end of the output.
    #[track_caller]
    pub(crate) fn wait_for_end(&self) {
        self.wait_for(|_| false);
    }
}

/// The message of a JSON log line.
fn message_of(line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).ok()?;
    Some(record["msg"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_and_future_lines_are_found() {
        let output =
            Output::capture("{\"msg\":\"one\"}\nplain\n{\"msg\":\"two\",\"n\":3}".as_bytes());
        assert_eq!(output.wait_for_message("two")["n"], 3);
        assert_eq!(output.wait_for(|line| line == "plain").unwrap(), "plain");
        assert_eq!(output.wait_for(|line| line == "never"), None);
        assert_eq!(output.records().len(), 2);
        assert!(output.record("one").is_some());
    }

    #[test]
    #[should_panic(expected = "the log ends without \"three\"")]
    fn a_missing_message_fails_the_test() {
        Output::capture("{\"msg\":\"one\"}\n".as_bytes()).wait_for_message("three");
    }
}
