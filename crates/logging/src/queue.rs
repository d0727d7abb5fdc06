//! The bounded queue between the logging threads and the writer.
//!
//! ```text
//!   any thread ── push ──►  [ line line line ]  ── take ──►  batch of the writer  ── done ──► free
//!                           └────── counted against the bounds until done ─────┘
//!                 full: the line is dropped and counted in `missed` until the writer reports it
//! ```
//!
//! Invariants: a push waits only for the lock, which is held for a few instructions; queued lines
//! and the writer's batch together stay within [`Bounds`], or twice that for urgent lines; a flush
//! waits for the lines pushed before it, up to its timeout.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::line::Line;

/// The maximum number of queued lines.
pub(super) const QUEUE_LINES_MAX: usize = 16 * 1024;
/// The maximum size of the queued lines.
pub(super) const QUEUE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The factor by which urgent lines may exceed the bounds.
const URGENT_FACTOR: usize = 2;

/// The bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) lines: usize,
    pub(super) bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { lines: QUEUE_LINES_MAX, bytes: QUEUE_BYTES_MAX }
    }
}

/// A queue of lines for the writer.
#[derive(Debug)]
pub(super) struct Queue {
    bounds: Bounds,
    state: Mutex<QueueState>,
    /// Wakes the writer when there are lines.
    filled: Condvar,
    /// Wakes flushes when the writer is done with a batch.
    written: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: Vec<Line>,
    /// Lines and bytes, including the writer's batch.
    lines: usize,
    bytes: usize,
    /// Lines pushed since the start, and lines done.
    pushed: u64,
    done: u64,
    /// Lost lines that are not yet reported.
    missed: u64,
    closed: bool,
}

/// The lines that the writer takes at once.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) lines: Vec<Line>,
    bytes: usize,
}

impl Queue {
    /// Creates an empty queue.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: Mutex::default(),
            filled: Condvar::new(),
            written: Condvar::new(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Queues a line, or drops it if the queue is full.
    pub(super) fn push(&self, line: Line) {
        self.push_within(line, self.bounds);
    }

    /// Queues a line that may exceed the bounds. Returns whether it was queued.
    pub(super) fn push_urgent(&self, line: Line) -> bool {
        let Bounds { lines, bytes } = self.bounds;
        let wider = Bounds { lines: lines * URGENT_FACTOR, bytes: bytes * URGENT_FACTOR };
        self.push_within(line, wider)
    }

    fn push_within(&self, line: Line, bounds: Bounds) -> bool {
        let mut state = self.state.lock();
        if state.closed || !state.has_room(&line, bounds) {
            state.missed += 1;
            drop(state);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let was_empty = state.waiting.is_empty();
        state.push(line);
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        true
    }

    /// Waits for lines. Returns `None` when the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            self.filled.wait(&mut state);
        }
        let lines = std::mem::take(&mut state.waiting);
        let bytes = lines.iter().map(|line| line.text.len()).sum();
        Some(Batch { lines, bytes })
    }

    /// Returns the number of lines lost since the last call.
    pub(super) fn take_missed(&self) -> u64 {
        std::mem::take(&mut self.state.lock().missed)
    }

    /// Returns a count to the queue whose report could not be written.
    pub(super) fn put_back_missed(&self, count: u64) {
        self.state.lock().missed += count;
    }

    /// Frees a batch, of which `lost` lines could not be written.
    pub(super) fn done(&self, batch: &Batch, lost: usize) {
        let mut state = self.state.lock();
        state.lines -= batch.lines.len();
        state.bytes -= batch.bytes;
        state.done += batch.lines.len() as u64;
        state.missed += lost as u64;
        drop(state);
        self.dropped.fetch_add(lost as u64, Ordering::Relaxed);
        self.written.notify_all();
    }

    /// Waits until all lines pushed before are done. Returns false if `timeout` passes first.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        let target = state.pushed;
        while state.done < target {
            if self.written.wait_until(&mut state, deadline).timed_out() && state.done < target {
                return false;
            }
        }
        true
    }

    /// Refuses further lines. The writer ends when it has written the rest.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_one();
    }

    /// Returns the number of lines lost since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl QueueState {
    fn has_room(&self, line: &Line, bounds: Bounds) -> bool {
        self.lines < bounds.lines && self.bytes + line.text.len() <= bounds.bytes
    }

    fn push(&mut self, line: Line) {
        self.lines += 1;
        self.bytes += line.text.len();
        self.pushed += 1;
        self.waiting.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    fn line(text: &str) -> Line {
        Line { level: Level::Info, package: "node".into(), text: text.to_owned() }
    }

    fn texts(batch: &Batch) -> Vec<&str> {
        batch.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_keep_their_order_and_occupy_the_queue_until_done() {
        let queue = Queue::new(Bounds { lines: 2, bytes: 100 });
        queue.push(line("a"));
        queue.push(line("b"));
        let batch = queue.take().unwrap();
        assert_eq!(texts(&batch), ["a", "b"]);
        queue.push(line("c"));
        assert_eq!(queue.dropped(), 1, "the batch still occupies the queue");
        queue.done(&batch, 0);
        queue.push(line("d"));
        assert_eq!(texts(&queue.take().unwrap()), ["d"]);
        assert_eq!((queue.take_missed(), queue.take_missed()), (1, 0));
    }

    #[test]
    fn bytes_are_bounded() {
        let queue = Queue::new(Bounds { lines: 10, bytes: 5 });
        queue.push(line("abc"));
        queue.push(line("def"));
        queue.push(line("gh"));
        assert_eq!(texts(&queue.take().unwrap()), ["abc", "gh"]);
        assert_eq!(queue.dropped(), 1);
    }

    #[test]
    fn urgent_lines_have_wider_bounds() {
        let queue = Queue::new(Bounds { lines: 1, bytes: 100 });
        queue.push(line("a"));
        assert!(queue.push_urgent(line("panic")));
        assert!(!queue.push_urgent(line("another")));
        assert_eq!(texts(&queue.take().unwrap()), ["a", "panic"]);
    }

    #[test]
    fn a_flush_waits_for_earlier_lines_until_its_timeout() {
        let queue = Queue::new(Bounds::default());
        assert!(queue.flush(SOON));
        queue.push(line("a"));
        assert!(!queue.flush(SOON));
        let batch = queue.take().unwrap();
        assert!(!queue.flush(SOON), "taken is not written");
        queue.done(&batch, 1);
        assert!(queue.flush(SOON));
        assert_eq!(queue.dropped(), 1);
    }

    #[test]
    fn a_closed_queue_hands_out_the_rest_and_refuses_new_lines() {
        let queue = Queue::new(Bounds::default());
        queue.push(line("a"));
        queue.close();
        queue.push(line("b"));
        assert_eq!(texts(&queue.take().unwrap()), ["a"]);
        assert!(queue.take().is_none());
        assert_eq!(queue.dropped(), 1);
    }
}
