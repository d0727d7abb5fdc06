//! The writer thread: takes all queued lines, writes them to every output, and reports lost lines.
//!
//! ```text
//!   {"level":"warn","ts":"…","caller":"logging/writer.rs:8","msg":"dropped log lines","count":12}
//! ```
//!
//! The report follows the first batch that every output takes completely. One thread serves all
//! outputs, so the slowest sets the pace; only the queue notices.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::Level;
use super::line::{Entry, Layout, Line};
use super::origin::Caller;
use super::queue::Queue;
use super::sink::Sink;
use super::timestamp;

/// Starts the writer thread. It ends when the queue is closed and empty.
pub(super) fn spawn(
    queue: Arc<Queue>,
    layout: Layout,
    sinks: Vec<Box<dyn Sink>>,
) -> io::Result<JoinHandle<()>> {
    let writer = Writer { queue, layout, sinks };
    thread::Builder::new().name("logs".to_owned()).spawn(move || writer.run())
}

struct Writer {
    queue: Arc<Queue>,
    layout: Layout,
    sinks: Vec<Box<dyn Sink>>,
}

impl Writer {
    fn run(mut self) {
        while let Some(batch) = self.queue.take() {
            let lost = self.write(&batch.lines);
            self.report(lost == 0);
            self.queue.done(&batch, lost);
        }
    }

    /// Writes lines to all outputs. Returns the largest number of lines that one of them lost.
    fn write(&mut self, lines: &[Line]) -> usize {
        self.sinks.iter_mut().map(|sink| sink.write(lines)).max().unwrap_or(0)
    }

    /// Reports lost lines, if there are any and the outputs work.
    fn report(&mut self, works: bool) {
        let missed = self.queue.take_missed();
        if missed == 0 {
            return;
        }
        if !works || self.write(&[self.report_line(missed)]) > 0 {
            self.queue.put_back_missed(missed);
        }
    }

    fn report_line(&self, missed: u64) -> Line {
        let mut fields = self.layout.fields();
        fields.bare("count", missed);
        let caller = Caller::new(file!(), line!());
        let text = self.layout.text(&Entry {
            level: Level::Warn,
            at: timestamp::now(),
            logger: None,
            caller,
            message: "dropped log lines",
            fields: &fields,
            stack: None,
        });
        Line { level: Level::Warn, package: caller.package().into(), text }
    }
}
