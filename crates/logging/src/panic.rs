//! The panic hook, which logs a panic with its stack trace.
//!
//! ```text
//!   {"level":"panic","ts":"…","caller":"mvcc/store.rs:88","msg":"index out of bounds: …",
//!    "thread":"apply","stacktrace":"…"}
//! ```
//!
//! The line is written at any `--log-level`. The hook waits for it, at most [`FLUSH_MAX`], because
//! the process may end right after. If no output is standard error, the previous hook runs too and
//! prints the panic there.

use std::backtrace::Backtrace;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::Level;
use super::line::{Entry, Layout, Line};
use super::origin::Caller;
use super::queue::Queue;
use super::timestamp;

/// The time that a panicking thread waits for its line.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The state of the panic hook.
pub(super) struct PanicLog {
    pub(super) layout: Layout,
    pub(super) queue: Arc<Queue>,
    /// The writer thread, which cannot wait for itself.
    pub(super) writer: ThreadId,
    /// Whether standard error is an output.
    pub(super) is_on_stderr: bool,
}

/// Installs the panic hook.
pub(super) fn install(log: PanicLog) {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        log.write(info);
        if !log.is_on_stderr {
            previous(info);
        }
    }));
}

impl PanicLog {
    fn write(&self, info: &PanicHookInfo<'_>) {
        let line = self.line(info);
        let text = line.text.clone();
        let is_writer = thread::current().id() == self.writer;
        let is_written = !is_writer && self.queue.push_urgent(line) && self.queue.flush(FLUSH_MAX);
        if !is_written && self.is_on_stderr {
            // If this fails too, there is no output left.
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    fn line(&self, info: &PanicHookInfo<'_>) -> Line {
        let (file, line) = info.location().map_or(("undefined", 0), |at| (at.file(), at.line()));
        let caller = Caller::new(file, line);
        let mut fields = self.layout.fields();
        let thread = thread::current();
        fields.quoted("thread", format_args!("{}", thread.name().unwrap_or("unnamed")));
        let stack = Backtrace::force_capture().to_string();
        let text = self.layout.text(&Entry {
            level: Level::Panic,
            at: timestamp::now(),
            logger: None,
            caller,
            message: info.payload_as_str().unwrap_or("panic with a payload that is no text"),
            fields: &fields,
            stack: Some(stack.trim_end()),
        });
        Line { level: Level::Panic, package: caller.package().to_owned().into(), text }
    }
}
