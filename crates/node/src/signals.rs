//! Signals that end the process.

use std::io;
use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The id of the first process of a machine or container, which the kernel protects from signals.
const FIRST_PROCESS: u32 = 1;

/// A signal, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(i32);

impl Signal {
    /// Returns Go's name of the signal, for the log.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            SIGINT => "interrupt",
            SIGTERM => "terminated",
            _ => "signal",
        }
    }

    /// Ends the process by the signal's default action, so that its parent sees the signal. As in
    /// etcd, the first process of a container, which such a signal cannot end, exits with code 0.
    pub(crate) fn end_process(self) -> ! {
        if std::process::id() != FIRST_PROCESS
            && let Err(error) = signal_hook::low_level::emulate_default_handler(self.0)
        {
            tracing::warn!(%error, "failed to end the process by its signal");
        }
        std::process::exit(0)
    }
}

/// Forwards SIGINT and SIGTERM as events. As in etcd, further signals change nothing.
pub(crate) fn watch<T: Send + 'static>(
    to: Sender<T>,
    event: impl Fn(Signal) -> T + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // A send fails only when the process is ending.
            let _ = to.send(event(Signal(signal)));
        }
    })?;
    Ok(())
}
