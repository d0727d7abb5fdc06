//! The threads of this process: names, states and what they wait for, from `/proc/self/task`.
//!
//! ```text
//!   comm    raft
//!   stat    4711 (raft) S … utime 51 stime 12 …
//!   wchan   futex_wait_queue          the kernel function in which the thread sleeps
//! ```
//!
//! A Go program would show the stacks of its goroutines. Here tasks have no stacks of their own,
//! and those of other threads can only be read by a debugger, so the names must do: each thread is
//! named after its work.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, SystemTime};

use crate::pprof::{self, Description};

/// The unit of CPU times in `/proc`: hundredths of a second on all systems.
const TICK: Duration = Duration::from_millis(10);

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    id: u32,
    name: String,
    state: ThreadState,
    /// CPU time used so far.
    cpu: Duration,
    /// The kernel function in which the thread sleeps; empty if it is unknown or does not.
    wait: String,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    Running,
    Sleeping,
    /// In a system call that cannot be interrupted, usually on disk I/O.
    Disk,
    Stopped,
    Other,
}

impl ThreadState {
    fn parse(letter: &str) -> ThreadState {
        match letter {
            "R" => ThreadState::Running,
            "S" | "I" => ThreadState::Sleeping,
            "D" => ThreadState::Disk,
            "T" | "t" => ThreadState::Stopped,
            _ => ThreadState::Other,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            ThreadState::Running => "running",
            ThreadState::Sleeping => "sleeping",
            ThreadState::Disk => "waiting for the disk",
            ThreadState::Stopped => "stopped",
            ThreadState::Other => "ending",
        }
    }
}

impl Thread {
    /// Parses the files of a thread.
    fn parse(id: u32, stat: &str, wchan: &str) -> Option<Thread> {
        // The name may contain anything, so the fields are counted from the last parenthesis.
        let (head, rest) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
        let cpu = ticks(11)?.saturating_add(ticks(12)?);
        // "0" if the thread runs, or if the reader may not know.
        let wait = if wchan == "0" { "" } else { wchan };
        Some(Thread {
            id,
            name: name.to_owned(),
            state: ThreadState::parse(fields.first()?),
            cpu: TICK.saturating_mul(cpu),
            wait: wait.to_owned(),
        })
    }

    /// Returns the stack of names that stands for the thread, innermost first.
    fn frames(&self) -> Vec<String> {
        let state = match self.wait.as_str() {
            "" => format!("[{}]", self.state.as_str()),
            wait => format!("[{} in {wait}]", self.state.as_str()),
        };
        vec![state, self.root()]
    }

    fn root(&self) -> String {
        format!("[thread {}]", self.name)
    }
}

/// Returns all threads, by id.
pub(crate) fn threads() -> Vec<Thread> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let read = |id: u32, file| fs::read_to_string(format!("/proc/self/task/{id}/{file}"));
    let mut threads: Vec<Thread> = ids
        // A thread may have ended meanwhile.
        .filter_map(|id| {
            Thread::parse(id, &read(id, "stat").ok()?, &read(id, "wchan").unwrap_or_default())
        })
        .collect();
    threads.sort_by_key(|thread| thread.id);
    threads
}

/// Prints threads as a table.
pub(crate) fn text(threads: &[Thread]) -> String {
    let mut text = format!("threads: {}\n\n", threads.len());
    // Writing to a string never fails.
    let _ = writeln!(text, "{:>8}  {:<16} {:>10}  state", "id", "name", "cpu");
    for Thread { id, name, state, cpu, wait } in threads {
        let _ = write!(text, "{id:>8}  {name:<16} {:>9.2}s  {}", cpu.as_secs_f64(), state.as_str());
        let _ = if wait.is_empty() { writeln!(text) } else { writeln!(text, " in {wait}") };
    }
    text.push_str("\nStacks of all threads: gdb -p PID -batch -ex 'thread apply all bt'\n");
    text
}

/// The part of a thread that a profile counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadProfile {
    /// Name and state.
    States,
    /// The name alone.
    Names,
}

/// The number of threads with equal names and states.
#[derive(Clone, Debug)]
pub(crate) struct ThreadCounts {
    what: ThreadProfile,
    counts: BTreeMap<Vec<String>, i64>,
    at: SystemTime,
}

impl ThreadCounts {
    /// Counts threads.
    pub(crate) fn of(threads: &[Thread], what: ThreadProfile) -> ThreadCounts {
        let mut counts: BTreeMap<Vec<String>, i64> = BTreeMap::new();
        for thread in threads {
            let frames = match what {
                ThreadProfile::States => thread.frames(),
                ThreadProfile::Names => vec![thread.root()],
            };
            *counts.entry(frames).or_default() += 1;
        }
        ThreadCounts { what, counts, at: SystemTime::now() }
    }

    /// Returns the changes since an earlier count.
    pub(crate) fn since(mut self, earlier: ThreadCounts) -> (ThreadCounts, Duration) {
        let duration = self.at.duration_since(earlier.at).unwrap_or_default();
        for (frames, count) in earlier.counts {
            *self.counts.entry(frames).or_default() -= count;
        }
        self.counts.retain(|_, count| *count != 0);
        (self, duration)
    }

    /// Encodes the counts in pprof's format.
    pub(crate) fn encode(&self, duration: Duration) -> Vec<u8> {
        let kind = match self.what {
            ThreadProfile::States => ("goroutine", "count"),
            ThreadProfile::Names => ("threadcreate", "count"),
        };
        let description = Description {
            kinds: [kind],
            default_kind: "",
            period: (kind, 1),
            at: self.at,
            duration,
            comments: vec!["operating system threads: each is its state and its name".to_owned()],
        };
        let counts: Vec<_> =
            self.counts.iter().map(|(frames, count)| (frames.clone(), *count)).collect();
        pprof::encode_named(&description, &counts)
    }
}

#[cfg(test)]
mod tests {
    use testkit::waiting::TIMEOUT;

    use super::*;

    const STAT: &str = "4711 (net) (0) S 1 30411 30411 0 -1 4194560 3 0 0 0 51 12 0 0 20 0 11";

    #[test]
    fn a_thread_is_parsed_whatever_its_name() {
        let thread = Thread::parse(4711, STAT, "futex_wait_queue").unwrap();
        assert_eq!(thread.name, "net) (0");
        assert_eq!(thread.frames(), ["[sleeping in futex_wait_queue]", "[thread net) (0]"]);
        assert_eq!(
            text(&[thread]),
            "threads: 1\n\n      id  name                    cpu  state\n    4711  net) (0               0.63s  sleeping in futex_wait_queue\n\nStacks of all threads: gdb -p PID -batch -ex 'thread apply all bt'\n"
        );
    }

    #[test]
    fn a_later_count_has_the_changes_since_an_earlier_one() {
        let thread = |name: &str| Thread::parse(1, &STAT.replace("net) (0", name), "0").unwrap();
        let count = |names: &[&str]| {
            let threads: Vec<_> = names.iter().map(|name| thread(name)).collect();
            ThreadCounts::of(&threads, ThreadProfile::Names)
        };
        let (changes, _) = count(&["a", "b", "b"]).since(count(&["a", "c"]));
        let named = |name: &str| vec![format!("[thread {name}]")];
        assert_eq!(changes.counts, BTreeMap::from([(named("b"), 2), (named("c"), -1)]));
    }

    #[test]
    fn a_wait_that_is_unknown_is_left_out() {
        let thread = Thread::parse(1, STAT, "0").unwrap();
        assert_eq!(thread.frames()[0], "[sleeping]");
        assert_eq!(Thread::parse(1, "4711 (x) S 1", ""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_threads_of_this_process_are_listed_by_name() {
        let (started, ready) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("a-named-thread".to_owned());
        let thread = thread.spawn(move || {
            started.send(()).unwrap();
            // Ends with an error when the sender is dropped.
            ended.recv().unwrap_err();
        });
        ready.recv_timeout(TIMEOUT).expect("timed out waiting for the start of the thread");
        let found = threads().iter().filter(|thread| thread.name == "a-named-thread").count();
        drop(end);
        thread.unwrap().join().unwrap();
        assert_eq!(found, 1);
    }
}
