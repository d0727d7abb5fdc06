//! LogGuard of the process, line for line as etcd writes them through zap.
//!
//! ```text
//!   info!(local_member_id = %id, "became leader")
//!     └► layer: level, sampling, layout             on the thread that logs, no I/O
//!         └► queue: 16,384 lines, 8 MiB             no room: dropped and counted
//!             └► writer: one thread                 stderr, stdout, file, rotated file, journal
//!
//!   {"level":"info","ts":"2026-11-15T17:59:00.198683Z","caller":"server/raft.rs:80","msg":"became leader","local-member-id":"8e9e05c52164694d"}
//! ```
//!
//! Always true: logging never waits for an output; memory is bounded; lines that are missing are reported by number when the
//! output works again, and one that a full disk took half of counts as missing; what was logged before [`LogGuard::flush`] is written
//! when that says so.
//!
//! Unlike etcd, an error has no stack trace beside it: the caller is there, and taking a trace costs milliseconds. A panic has.
//!
//! Left to others: how the flags are spelled and which go together (`config`), and ending the process.

mod escape;
mod fields;
mod layer;
mod level;
mod line;
mod notify;
mod open;
mod options;
mod origin;
mod panic;
mod queue;
mod sample;
mod sink;
mod stamp;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

pub use level::{FATAL_TARGET, Level, PANIC_TARGET};
pub use notify::notify_ready;
pub use open::OpenError;
pub use options::{Format, LogConfig, Output, Rotation};

use layer::LineLayer;
use line::Layout;
use panic::PanicLog;
use queue::{Bounds, Queue};
use sample::Sampler;
use sink::Sink;
use stamp::Zone;

/// How long dropping [`LogGuard`] waits for the last lines.
pub const SHUTDOWN_FLUSH_MAX: Duration = Duration::from_secs(2);

/// The logs cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Backups cannot be compressed. Said rather than ignored.
    #[error(
        "log rotation with \"compress\": true is not yet supported by Bowline; set it to false"
    )]
    Compress,
    /// An output cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The writer's thread does not start.
    #[error("start the log writer: {0}")]
    Thread(#[source] io::Error),
    /// This process logs already.
    #[error("logging was started before")]
    AlreadyStarted,
}

/// Sends all that this process logs, panics included, to the outputs of `config`.
///
/// Keep the result until the end of `main`: dropping it writes the last lines. `std::process::exit` drops nothing; call
/// [`LogGuard::flush`] before.
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

/// The same, for whoever logs through the dispatcher that it returns: nothing of the process is changed.
pub fn build(config: &LogConfig) -> Result<(Dispatch, LogGuard), StartError> {
    if config.wants_compression() {
        return Err(StartError::Compress);
    }
    let sinks = open::open_all(config, Path::new(sink::journal::SOCKET))?;
    // Compat: as in etcd, the journal gets every line; it has a rate limit of its own.
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

/// The running logs. Dropped, they write what is left, for [`SHUTDOWN_FLUSH_MAX`] at most.
#[derive(Debug)]
pub struct LogGuard {
    queue: Arc<Queue>,
    layout: Layout,
    writer_id: ThreadId,
    writer: Option<JoinHandle<()>>,
}

impl LogGuard {
    /// Waits until all that was logged before is written; whether it was, in time.
    pub fn flush(&self, timeout: Duration) -> bool {
        self.queue.flush(timeout)
    }

    /// Lines lost since the start, for want of room or because an output failed.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.queue.close();
        // A writer that is stuck in an output is left behind: it ends with the process.
        if self.flush(SHUTDOWN_FLUSH_MAX)
            && let Some(writer) = self.writer.take()
        {
            // That the writer panicked was logged by the hook.
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests;
