//! Signals that ask the process to end, and ending by them.

use std::io;
use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A signal, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(i32);

impl Signal {
    /// As Go prints it, in the log.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            SIGINT => "interrupt",
            SIGTERM => "terminated",
            _ => "signal",
        }
    }

    /// Ends the process as the signal would have, had nobody caught it: whoever started it sees that. Returns only as the first process
    /// of a container, which no such signal ends.
    pub(crate) fn end_process(self) {
        if let Err(error) = signal_hook::low_level::emulate_default_handler(self.0) {
            tracing::warn!(%error, "end by signal");
        }
    }
}

/// Sends on the first signal that asks to end. A second one ends the process at once.
pub(crate) fn watch<T: Send + 'static>(
    to: Sender<T>,
    event: impl Fn(Signal) -> T + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for (number, signal) in signals.forever().enumerate() {
            let signal = Signal(signal);
            if number > 0 {
                signal.end_process();
            }
            // If nobody listens any more, the process is ending.
            let _ = to.send(event(signal));
        }
    })?;
    Ok(())
}
