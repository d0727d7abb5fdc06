//! Log lines in the shape that etcd writes through zap.
//!
//! ```text
//!   info!(local_member_id = %id, "became leader")
//!     └► layer: level, sampling, layout             on the thread that logs, no I/O
//!         └► queue: 16,384 lines, 8 MiB             no room: dropped and counted
//!             └► writer: one thread                 stderr, stdout, file, rotated file, journal
//!
//!   {"level":"info","ts":"2026-11-15T17:59:00.198683Z","caller":"server/raft.rs:80",
//!    "msg":"became leader","local-member-id":"8e9e05c52164694d"}
//! ```
//!
//! Invariants: logging never waits for an output; memory is bounded; lost lines, including
//! partially written ones, are counted and reported when the output works again; when
//! [`LogGuard::flush`] returns true, every line logged before it is written.
//!
//! Unlike etcd, an error line has no stack trace: it names the caller, and capturing a trace takes
//! milliseconds. A panic has one.
//!
//! The crate does not parse flags (`config` does) and does not end the process.

mod config;
mod escape;
mod fields;
mod layer;
mod level;
mod line;
mod notify;
mod open;
mod origin;
mod panic;
mod queue;
mod sample;
mod sink;
mod timestamp;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

pub use config::{Format, LogConfig, Output, Rotation};
pub use level::{FATAL_TARGET, Level, PANIC_TARGET};
pub use notify::notify_ready;
pub use open::OpenError;

use layer::LineLayer;
use line::Layout;
use panic::PanicLog;
use queue::{Bounds, Queue};
use sample::Sampler;
use sink::Sink;
use timestamp::Zone;

/// The time that dropping a [`LogGuard`] waits for the last lines.
pub const SHUTDOWN_FLUSH_MAX: Duration = Duration::from_secs(2);

/// Logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An output cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The writer thread does not start.
    #[error("start the log writer: {0}")]
    Thread(#[source] io::Error),
    /// Logging was started before in this process.
    #[error("logging was started before")]
    AlreadyStarted,
}

/// Sends all events and panics of this process to the outputs of `config`.
///
/// Keep the result until the end of `main`: dropping it writes the last lines. `std::process::exit`
/// drops nothing; call [`LogGuard::flush`] before it.
pub fn start(config: &LogConfig) -> Result<LogGuard, StartError> {
    let (dispatch, logs) = build(config)?;
    tracing::dispatcher::set_global_default(dispatch).map_err(|_| StartError::AlreadyStarted)?;
    panic::install(PanicLog {
        layout: logs.layout.clone(),
        queue: Arc::clone(&logs.queue),
        writer: logs.writer_id,
        is_on_stderr: config.merged_outputs().contains(&Output::Stderr),
    });
    Ok(logs)
}

/// Opens the outputs and returns a dispatcher for them, without changing the global state of the
/// process.
pub fn build(config: &LogConfig) -> Result<(Dispatch, LogGuard), StartError> {
    let sinks = open::open_all(config, Path::new(sink::journal::SOCKET))?;
    // Compat: as in etcd, lines to the journal are not sampled; it has a rate limit of its own.
    let sampler = (!config.outputs.contains(&Output::Journal)).then(Sampler::new);
    let layout = Layout { format: config.format, zone: Zone::system() };
    assemble(config.level, layout, sampler, sinks, Bounds::default())
}

fn assemble(
    level: Level,
    layout: Layout,
    sampler: Option<Sampler>,
    sinks: Vec<Box<dyn Sink>>,
    bounds: Bounds,
) -> Result<(Dispatch, LogGuard), StartError> {
    let queue = Arc::new(Queue::new(bounds));
    let writer = writer::spawn(Arc::clone(&queue), layout.clone(), sinks);
    let writer = writer.map_err(StartError::Thread)?;
    let writer_id = writer.thread().id();
    let layer = LineLayer::new(level, layout.clone(), sampler, Arc::clone(&queue));
    let dispatch = Dispatch::new(Registry::default().with(layer));
    Ok((dispatch, LogGuard { queue, layout, writer_id, writer: Some(writer) }))
}

/// Keeps logging running. Dropping it writes the queued lines, within [`SHUTDOWN_FLUSH_MAX`].
#[derive(Debug)]
pub struct LogGuard {
    queue: Arc<Queue>,
    layout: Layout,
    writer_id: ThreadId,
    writer: Option<JoinHandle<()>>,
}

impl LogGuard {
    /// Waits until all lines logged before are written. Returns false if `timeout` passes first.
    pub fn flush(&self, timeout: Duration) -> bool {
        self.queue.flush(timeout)
    }

    /// Returns the number of lines lost since the start: the queue was full or an output failed.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.queue.close();
        // A writer that is stuck in an output is not joined; it ends with the process.
        if self.flush(SHUTDOWN_FLUSH_MAX)
            && let Some(writer) = self.writer.take()
        {
            // The panic hook has logged a panic of the writer.
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests;
