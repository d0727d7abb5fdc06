//! The `bowline` binary as a library: flags, logs, and everything wired together.
//!
//! ```text
//!   flags, environment, file ─► Config ─► settings ─► listeners ─► member ─► published? ─► serve clients ─► a signal ─► drain, stop
//! ```
//!
//! The only crate that sees all others. It decides nothing that they could: it says where to listen, what to start first, and when to end.

pub mod config;
pub mod logging;

mod listeners;
mod run;
mod settings;
mod signals;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use config::{Exit, Machine, Notice, Parsed};
use logging::Logs;

/// How long the last lines of the log are waited for.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// The whole process, from its arguments to its exit code.
pub fn main(
    args: impl Iterator<Item = String>,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> ExitCode {
    // What is no text is no flag of ours.
    let environment = environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let args: Vec<String> = args.collect();
    match config::parse(args.clone(), environment, &Machine::here()) {
        Ok(Parsed { config, notices }) => match start_logs(&config.logs) {
            Ok(logs) => {
                notices.iter().for_each(Notice::log);
                run::run(&config, args, &logs)
            }
            Err(code) => code,
        },
        Err(Exit::Printed { stdout, stderr, code }) => {
            // If nobody reads it, nobody reads it.
            let _ = std::io::stdout().write_all(stdout.as_bytes());
            let _ = std::io::stderr().write_all(stderr.as_bytes());
            ExitCode::from(code)
        }
        Err(Exit::Logged { logs, notices }) => {
            if let Ok(logs) = start_logs(&logs) {
                notices.iter().for_each(Notice::log);
                logs.flush(FLUSH_MAX);
            }
            ExitCode::FAILURE
        }
    }
}

fn start_logs(logs: &config::Logs) -> Result<Logs, ExitCode> {
    logging::start(logs).map_err(|error| {
        let _ = writeln!(std::io::stderr(), "error creating the logger: {error}");
        ExitCode::FAILURE
    })
}
