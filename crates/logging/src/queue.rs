//! The lines that wait for the writer.
//!
//! ```text
//!   any thread ── push ──►  [ line line line ]  ── take ──►  batch at the writer  ── done ──► forgotten
//!                           └────── counted against the bounds until done ─────┘
//!                 no room: the line is dropped, and counted in `missed` until the writer has reported it
//! ```
//!
//! Always true: a push waits for nothing but the lock, which is held for a few instructions; the lines that wait and those at
//! the writer are together within the [`Bounds`] (twice that for urgent ones); whoever flushes waits for the lines pushed
//! before, and no longer than it said.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::line::Line;

/// Most lines that wait.
pub(super) const QUEUE_LINES_MAX: usize = 16 * 1024;
/// Most bytes of lines that wait.
pub(super) const QUEUE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// By how much urgent lines may overrun the bounds.
const URGENT_FACTOR: usize = 2;

/// How much may wait.
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

/// Lines on their way to the writer.
#[derive(Debug)]
pub(super) struct Queue {
    bounds: Bounds,
    state: Mutex<State>,
    /// The writer waits here for lines.
    filled: Condvar,
    /// Whoever flushes waits here for the writer.
    written: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Line>,
    /// Lines and their bytes, those at the writer included.
    lines: usize,
    bytes: usize,
    /// How many lines ever went in, and how many of them are done.
    pushed: u64,
    done: u64,
    /// Lines lost and not yet reported.
    missed: u64,
    closed: bool,
}

/// What the writer takes at once.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) lines: Vec<Line>,
    bytes: usize,
}

impl Queue {
    /// Empty.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: Mutex::default(),
            filled: Condvar::new(),
            written: Condvar::new(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Puts a line in, or drops it when there is no room.
    pub(super) fn push(&self, line: Line) {
        self.push_within(line, self.bounds);
    }

    /// Puts a line in that matters more than the bounds; whether it went in.
    pub(super) fn push_urgent(&self, line: Line) -> bool {
        let Bounds { lines, bytes } = self.bounds;
        let wider = Bounds { lines: lines * URGENT_FACTOR, bytes: bytes * URGENT_FACTOR };
        self.push_within(line, wider)
    }

    fn push_within(&self, line: Line, bounds: Bounds) -> bool {
        let mut state = self.lock();
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

    /// Waits for lines; `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let lines = std::mem::take(&mut state.waiting);
        let bytes = lines.iter().map(|line| line.text.len()).sum();
        Some(Batch { lines, bytes })
    }

    /// How many lines were lost since this was last asked.
    pub(super) fn take_missed(&self) -> u64 {
        std::mem::take(&mut self.lock().missed)
    }

    /// Has lines reported another time: what [`Self::take_missed`] gave could not be written.
    pub(super) fn put_back_missed(&self, count: u64) {
        self.lock().missed += count;
    }

    /// A batch is dealt with; `lost` of its lines could not be written.
    pub(super) fn done(&self, batch: &Batch, lost: usize) {
        let mut state = self.lock();
        state.lines -= batch.lines.len();
        state.bytes -= batch.bytes;
        state.done += batch.lines.len() as u64;
        state.missed += lost as u64;
        drop(state);
        self.dropped.fetch_add(lost as u64, Ordering::Relaxed);
        self.written.notify_all();
    }

    /// Waits until all that was pushed before is done; whether that came to pass in time.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        let target = state.pushed;
        while state.done < target {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.written.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Lets nothing more in; the writer ends when it has written the rest.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Lines lost since the start, for want of room or because an output failed.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// A poisoned lock is taken all the same: nothing done under it can panic half way.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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
    fn lines_come_out_in_order_and_are_counted_until_done() {
        let queue = Queue::new(Bounds { lines: 2, bytes: 100 });
        queue.push(line("a"));
        queue.push(line("b"));
        let batch = queue.take().unwrap();
        assert_eq!(texts(&batch), ["a", "b"]);
        queue.push(line("c"));
        assert_eq!(queue.dropped(), 1, "the batch still takes up the room");
        queue.done(&batch, 0);
        queue.push(line("d"));
        assert_eq!(texts(&queue.take().unwrap()), ["d"]);
        assert_eq!((queue.take_missed(), queue.take_missed()), (1, 0));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let queue = Queue::new(Bounds { lines: 10, bytes: 5 });
        queue.push(line("abc"));
        queue.push(line("def"));
        queue.push(line("gh"));
        assert_eq!(texts(&queue.take().unwrap()), ["abc", "gh"]);
        assert_eq!(queue.dropped(), 1);
    }

    #[test]
    fn an_urgent_line_overruns_the_bounds_and_has_bounds_of_its_own() {
        let queue = Queue::new(Bounds { lines: 1, bytes: 100 });
        queue.push(line("a"));
        assert!(queue.push_urgent(line("panic")));
        assert!(!queue.push_urgent(line("another")));
        assert_eq!(texts(&queue.take().unwrap()), ["a", "panic"]);
    }

    #[test]
    fn a_flush_waits_for_earlier_lines_and_gives_up_in_time() {
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
    fn a_closed_queue_gives_out_the_rest_and_takes_nothing_more() {
        let queue = Queue::new(Bounds::default());
        queue.push(line("a"));
        queue.close();
        queue.push(line("b"));
        assert_eq!(texts(&queue.take().unwrap()), ["a"]);
        assert!(queue.take().is_none());
        assert_eq!(queue.dropped(), 1);
    }
}
