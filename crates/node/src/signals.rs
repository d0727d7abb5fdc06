//! Signals that ask the process to end, and ending by them.

use std::io;
use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What the kernel protects from signals: the first process, of a machine or of a container.
const FIRST_PROCESS: u32 = 1;

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

    /// Ends the process as the signal would have, had nobody caught it: whoever started it sees
    /// that. The first process of a container is ended by no such signal, and exits as if nothing
    /// had happened, as etcd does.
    pub(crate) fn end_process(self) -> ! {
        if std::process::id() != FIRST_PROCESS
            && let Err(error) = signal_hook::low_level::emulate_default_handler(self.0)
        {
            tracing::warn!(%error, "end by signal");
        }
        std::process::exit(0)
    }
}

/// Sends on signals that ask to end. One is enough: as with etcd, more of them change nothing.
pub(crate) fn watch<T: Send + 'static>(
    to: Sender<T>,
    event: impl Fn(Signal) -> T + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // If nobody listens any more, the process is ending.
            let _ = to.send(event(Signal(signal)));
        }
    })?;
    Ok(())
}
