//! The `bowline` binary as a library: flags, logs, and everything wired together.
//!
//! ```text
//!   flags, environment, file ─► Config ─► settings ─► listeners ─► member ─► published? ─► serve clients ─► a signal ─► drain, stop
//! ```
//!
//! The only crate that sees all others. It decides nothing that they could: it says where to
//! listen, what to start first, and when to end.

mod bootstrap;
mod default_host;
mod listeners;
mod run;
mod security;
mod settings;
mod signals;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use config::{Exit, Machine, Notice, Parsed};
use logging::{LogConfig, LogGuard};

/// The whole process, from its arguments to its exit code.
pub fn main(
    args: impl Iterator<Item = OsString>,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> ExitCode {
    if let Err(error) = failpoint::start() {
        // If nobody reads it, nobody reads it.
        let _ = writeln!(std::io::stderr(), "failpoints: {error}");
        return ExitCode::FAILURE;
    }
    let args: Vec<OsString> = args.collect();
    let parsed =
        config::parse(args.clone(), environment, &Machine::current(default_host::default_host));
    // Arguments that are no texts were refused.
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    match parsed {
        Ok(Parsed { config, notices }) => match start_logs(&config.logs, &notices, &args) {
            Some(logs) => run::run(&config, args, &logs),
            None => ExitCode::FAILURE,
        },
        Err(Exit::Printed { stdout, stderr, code }) => {
            // If nobody reads it, nobody reads it.
            let _ = std::io::stdout().write_all(stdout.as_bytes());
            let _ = std::io::stderr().write_all(stderr.as_bytes());
            ExitCode::from(code)
        }
        Err(Exit::Logged { logs, notices }) => {
            // Dropped, they write all that they were told.
            drop(start_logs(&logs, &notices, &args));
            ExitCode::FAILURE
        }
    }
}

/// Starts the logs, and tells them what is to be told. If they do not start, that is told to the
/// standard error, as etcd does.
fn start_logs(config: &LogConfig, notices: &[Notice], args: &[String]) -> Option<LogGuard> {
    let error = match logging::start(config) {
        Ok(logs) => {
            notices.iter().for_each(Notice::log);
            return Some(logs);
        }
        Err(error) => error.to_string(),
    };
    match logging::start(&LogConfig::default()) {
        Ok(_logs) => {
            let notices = config::notices_without_logs(notices, args, error);
            notices.iter().for_each(Notice::log);
        }
        Err(_) => {
            let _ = writeln!(std::io::stderr(), "error creating the logger: {error}");
        }
    }
    None
}
