//! Looking for bit rot in the background: a few pages at a time, round after round.
//!
//! Reading everything at once would push what clients need out of memory and hold up the disk. So a [`Scrubber`] looks at a bounded
//! number of pages each [`turn`](Scrubber::turn), of a state that it holds for a whole round; [`ScrubThread`] takes a turn every now and then.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bolt::{Scrub, ScrubReport};

use crate::backend::Backend;
use crate::thread::caught;

/// Pages looked at in a turn.
pub const SCRUB_PAGES_DEFAULT: usize = 256;

/// Time between turns. With pages of 4 KiB this is a megabyte a second: a day for 80 GB.
pub const SCRUB_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Goes round and round through the pages of a file.
#[derive(Debug)]
pub struct Scrubber<'b> {
    backend: &'b Backend,
    pages: usize,
    round: Option<Scrub<'b>>,
}

impl<'b> Scrubber<'b> {
    /// One that looks at so many pages in a turn.
    #[must_use]
    pub fn new(backend: &'b Backend, pages: usize) -> Scrubber<'b> {
        Scrubber { backend, pages: pages.max(1), round: None }
    }

    /// Goes on for some pages. At the end of a round it tells what was found, and the next turn begins another.
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

/// Scrubs in the background until it is stopped or dropped. What it finds is logged as an error, and counted in
/// [`Stats::corrupt_pages`](crate::Stats::corrupt_pages).
#[derive(Debug)]
pub struct ScrubThread {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    asked: Mutex<bool>,
    wake: Condvar,
}

impl Stop {
    fn ask(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    /// Sleeps, or until asked to stop. True: it was.
    fn wait(&self, time: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(asked, time, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl ScrubThread {
    /// Starts one, with a turn of so many pages in each interval.
    pub fn spawn(backend: &Backend, pages: usize, interval: Duration) -> io::Result<ScrubThread> {
        let panicked = |panic: &str| tracing::error!(panic, "the thread that scrubs panicked");
        ScrubThread::spawn_telling(backend, pages, interval, panicked)
    }

    /// Likewise, and somebody is told if it panics: nobody else would notice that it has ended.
    pub fn spawn_telling(
        backend: &Backend,
        pages: usize,
        interval: Duration,
        panicked: impl FnOnce(&str) + Send + 'static,
    ) -> io::Result<ScrubThread> {
        let backend = backend.clone();
        ScrubThread::spawn_work(move |stop| run(&backend, pages, interval, stop), panicked)
    }

    fn spawn_work(
        work: impl FnOnce(&Stop) + Send + 'static,
        panicked: impl FnOnce(&str) + Send + 'static,
    ) -> io::Result<ScrubThread> {
        let stop = Arc::new(Stop::default());
        let asked = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("scrub".to_owned()).spawn(move || {
            if let Err(panic) = caught(|| work(&asked)) {
                panicked(&panic);
            }
        })?;
        Ok(ScrubThread { stop, thread: Some(thread) })
    }

    /// Ends it, in the midst of a round if need be.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for ScrubThread {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            // Whoever wanted to hear of a panic has been told.
            let _ = thread.join();
        }
    }
}

fn run(backend: &Backend, pages: usize, interval: Duration, stop: &Stop) {
    let mut scrubber = Scrubber::new(backend, pages);
    while !stop.wait(interval) {
        if let Some(report) = scrubber.turn() {
            note(backend, &report);
        }
    }
}

fn note(backend: &Backend, report: &ScrubReport) {
    for damaged in &report.corrupt {
        tracing::error!(%damaged, "a page of the database is not what was written");
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

    #[test]
    fn somebody_is_told_of_a_panic_and_nobody_of_the_end() {
        let (tell, told) = mpsc::channel();
        let panicked = move |panic: &str| tell.send(panic.to_owned()).unwrap();
        let page = 7;
        let thread = ScrubThread::spawn_work(move |_| panic!("page {page}"), panicked).unwrap();
        assert_eq!(told.recv().unwrap(), "page 7");
        thread.stop();

        let waits = |stop: &Stop| assert!(stop.wait(Duration::from_secs(1_000_000)));
        ScrubThread::spawn_work(waits, |panic| panic!("{panic}")).unwrap().stop();
    }
}
