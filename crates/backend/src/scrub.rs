//! Background scrub: verifies a few pages at a time, in endless passes.
//!
//! Reading everything at once would evict the page cache and delay other disk accesses. So a
//! [`Scrubber`] verifies a bounded number of pages per [`turn`](Scrubber::turn), and
//! [`ScrubThread`] takes a turn at intervals.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bolt::{Scrub, ScrubReport};
use parking_lot::{Condvar, Mutex};

use crate::backend::Backend;
use crate::thread::catch_panic;

/// Pages verified per turn.
pub const SCRUB_PAGES_DEFAULT: usize = 256;

/// Time between turns. With pages of 4 KiB this reads 1 MiB/s: about a day for 80 GB.
pub const SCRUB_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Verifies the pages of a file in endless passes.
#[derive(Debug)]
pub struct Scrubber<'b> {
    backend: &'b Backend,
    pages: usize,
    round: Option<Scrub<'b>>,
}

impl<'b> Scrubber<'b> {
    /// Creates a scrubber that verifies this many pages per turn.
    #[must_use]
    pub fn new(backend: &'b Backend, pages: usize) -> Scrubber<'b> {
        Scrubber { backend, pages: pages.max(1), round: None }
    }

    /// Verifies the next pages. Returns the report at the end of a pass; the next turn starts
    /// another.
    pub fn turn(&mut self) -> Option<ScrubReport> {
        let mut round = match self.round.take() {
            Some(round) => round,
            None => self.backend.scrub()?,
        };
        if round.step(self.pages) {
            self.round = Some(round);
            return None;
        }
        Some(round.finish())
    }
}

/// A thread that scrubs until it is stopped or dropped. It logs each corrupt page as an error, and
/// counts them in [`Stats::corrupt_pages`](crate::Stats::corrupt_pages).
#[derive(Debug)]
pub struct ScrubThread {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct StopSignal {
    requested: Mutex<bool>,
    wake: Condvar,
}

impl StopSignal {
    fn request(&self) {
        *self.requested.lock() = true;
        self.wake.notify_all();
    }

    /// Sleeps for `time`, or until a stop is requested. Returns true if it was.
    fn wait(&self, time: Duration) -> bool {
        let mut requested = self.requested.lock();
        self.wake.wait_while_for(&mut requested, |requested| !*requested, time);
        *requested
    }
}

impl ScrubThread {
    /// Starts the thread, with a turn of `pages` pages per interval.
    pub fn spawn(backend: &Backend, pages: usize, interval: Duration) -> io::Result<ScrubThread> {
        let panicked = |panic: &str| tracing::error!(panic, "the scrub thread panicked");
        ScrubThread::spawn_with_callback(backend, pages, interval, panicked)
    }

    /// Starts the thread with a callback that runs if it panics.
    pub fn spawn_with_callback(
        backend: &Backend,
        pages: usize,
        interval: Duration,
        panicked: impl FnOnce(&str) + Send + 'static,
    ) -> io::Result<ScrubThread> {
        let backend = backend.clone();
        ScrubThread::spawn_work(move |stop| run(&backend, pages, interval, stop), panicked)
    }

    fn spawn_work(
        work: impl FnOnce(&StopSignal) + Send + 'static,
        panicked: impl FnOnce(&str) + Send + 'static,
    ) -> io::Result<ScrubThread> {
        let stop = Arc::new(StopSignal::default());
        let requested = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("scrub".to_owned()).spawn(move || {
            if let Err(panic) = catch_panic(|| work(&requested)) {
                panicked(&panic);
            }
        })?;
        Ok(ScrubThread { stop, thread: Some(thread) })
    }

    /// Stops the thread, even in the middle of a pass.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for ScrubThread {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            // A panic was reported to the callback.
            let _ = thread.join();
        }
    }
}

fn run(backend: &Backend, pages: usize, interval: Duration, stop: &StopSignal) {
    let mut scrubber = Scrubber::new(backend, pages);
    while !stop.wait(interval) {
        if let Some(report) = scrubber.turn() {
            note(backend, &report);
        }
    }
}

fn note(backend: &Backend, report: &ScrubReport) {
    for error in &report.corrupt {
        tracing::error!(%error, "page checksum mismatch; replace this member");
    }
    tracing::debug!(verified = report.verified, learned = report.learned, "scrubbed the database");
    let mut progress = backend.shared.progress();
    progress.scrubs += 1;
    progress.corrupt_pages = report.corrupt.len();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use testkit::waiting::TIMEOUT;

    #[test]
    fn the_callback_runs_after_a_panic_and_not_after_a_stop() {
        let (sender, receiver) = mpsc::channel();
        let panicked = move |panic: &str| sender.send(panic.to_owned()).unwrap();
        let page = 7;
        let thread = ScrubThread::spawn_work(move |_| panic!("page {page}"), panicked).unwrap();
        let panic = receiver.recv_timeout(TIMEOUT).expect("timed out waiting for the callback");
        assert_eq!(panic, "page 7");
        thread.stop();

        let waits = |stop: &StopSignal| assert!(stop.wait(Duration::from_secs(1_000_000)));
        ScrubThread::spawn_work(waits, |panic| panic!("{panic}")).unwrap().stop();
    }
}
