//! What a process prints, line by line, as it comes.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::PATIENCE;

/// Lines that are kept; what follows is read and forgotten.
const LINES_MAX: usize = 100_000;
/// How much of an output is shown when a test fails.
const TAIL_LINES: usize = 40;

/// One output of a process. Clones are of the same.
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
    /// Reads `source` to its end, on a thread of its own.
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
        self.lock().ended = true;
        self.0.changed.notify_all();
    }

    fn push(&self, line: String) {
        let mut printed = self.lock();
        if printed.lines.len() < LINES_MAX {
            printed.lines.push(line);
        }
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Printed> {
        self.0.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was printed so far.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// What was printed so far, as one text.
    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// The last lines, for whoever wants to know what went wrong.
    pub fn tail(&self) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    /// The lines that are JSON.
    pub fn records(&self) -> Vec<Value> {
        self.lines().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The first record with this message, if it was printed already.
    pub fn record(&self, message: &str) -> Option<Value> {
        self.records().into_iter().find(|record| record["msg"] == message)
    }

    /// Waits for a line, among those printed already too. None if the output ends without.
    ///
    /// # Panics
    ///
    /// If neither happens in time.
    #[track_caller]
    pub fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = 0;
        let mut printed = self.lock();
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
                panic!("what is waited for was not printed in time:\n{}", self.tail());
            }
            let woken = self.0.changed.wait_timeout(printed, left);
            printed = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for a record with this message.
    ///
    /// # Panics
    ///
    /// If it does not come in time, or the output ends without.
    #[track_caller]
    pub fn wait_for_message(&self, message: &str) -> Value {
        let is_it = |line: &str| message_of(line).as_deref() == Some(message);
        match self.wait_for(is_it) {
            Some(line) => serde_json::from_str(&line).expect("it was JSON a moment ago"),
            None => panic!("the log ends without {message:?}:\n{}", self.tail()),
        }
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn wait_for_end(&self) {
        self.wait_for(|_| false);
    }
}

/// The message of a line of the log: JSON, or as the console format has it, in the last column but for its fields.
fn message_of(line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).ok()?;
    Some(record["msg"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_waited_for_in_the_past_and_at_the_end() {
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
    fn a_message_that_never_comes_fails_the_test() {
        Output::capture("{\"msg\":\"one\"}\n".as_bytes()).wait_for_message("three");
    }
}
