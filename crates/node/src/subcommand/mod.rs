//! The subcommands: processes that are no members.

mod gateway;
mod grpc_proxy;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use config::Subcommand;
use logging::{LogConfig, LogGuard};

/// Runs a subcommand until the process ends.
pub(crate) fn run(subcommand: Subcommand, args: &[String]) -> ExitCode {
    match subcommand {
        Subcommand::Gateway(flags) => gateway::run(&flags, args),
        Subcommand::GrpcProxy(flags) => grpc_proxy::run(&flags, args),
    }
}

/// Starts logging. If it cannot start, reports that on standard error.
fn start_logs(config: &LogConfig) -> Result<LogGuard, ExitCode> {
    logging::start(config).map_err(|error| {
        // A closed standard error is not an error.
        let _ = writeln!(std::io::stderr(), "{error}");
        ExitCode::FAILURE
    })
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}
