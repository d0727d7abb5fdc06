//! The `bowline` binary as a library: it wires all components together.
//!
//! ```text
//!   parse flags ─► start logging ─► bind ports ─► bootstrap ─► serve ─► signal ─► drain and stop
//! ```
//!
//! The only crate that sees all others. It decides where to listen, what to start first and when to
//! end; everything else is decided below it.

mod bootstrap;
mod default_host;
mod listeners;
mod run;
mod settings;
mod signals;
mod subcommand;
mod tls_setup;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use config::{Exit, HostInfo, Invocation, Notice, Parsed};
use logging::{LogConfig, LogGuard};

/// Runs the process, from its arguments to its exit code.
pub fn main(
    args: impl Iterator<Item = OsString>,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> ExitCode {
    if let Err(error) = failpoint::start() {
        // A closed standard error is not an error.
        let _ = writeln!(std::io::stderr(), "failpoints: {error}");
        return ExitCode::FAILURE;
    }
    let args: Vec<OsString> = args.collect();
    let host_info = HostInfo::current(default_host::default_host);
    let parsed = config::parse_command(args.clone(), environment, &host_info);
    // `parse` has rejected arguments that are not UTF-8.
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    match parsed {
        Ok(Invocation::Subcommand(subcommand)) => subcommand::run(subcommand, &args),
        Ok(Invocation::Member(member)) => {
            let Parsed { config, notices } = *member;
            match start_logs(&config.logs, &notices, &args) {
                Some(logs) => run::run(&config, args, &logs),
                None => ExitCode::FAILURE,
            }
        }
        Err(Exit::Printed { stdout, stderr, code }) => {
            // Closed standard streams are not an error.
            let _ = std::io::stdout().write_all(stdout.as_bytes());
            let _ = std::io::stderr().write_all(stderr.as_bytes());
            ExitCode::from(code)
        }
        Err(Exit::Logged { logs, notices }) => {
            // Dropping the guard writes the queued lines.
            drop(start_logs(&logs, &notices, &args));
            ExitCode::FAILURE
        }
    }
}

/// Starts logging and logs the notices. If it cannot start, reports that on standard error, as etcd
/// does.
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
