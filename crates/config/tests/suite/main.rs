//! Parsing of command line, environment and file, by the public API.
//!
//! The expected texts and exit codes of errors are those of etcd 3.7.

mod accepted;
mod environment;
mod file;
mod help;
mod rejected;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};

use config::{Config, ConfigError, Exit, HostInfo, NoDefaultHost, Notice, Parsed, parse};

/// A machine without a default route.
const HOST_INFO: HostInfo = HostInfo { arch: "amd64", default_host: || Err(NoDefaultHost) };

/// A machine whose default route has the local address 10.0.0.7.
const ROUTED: HostInfo =
    HostInfo { arch: "amd64", default_host: || Ok(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7))) };

/// Parses arguments and environment variables (`NAME=value`).
fn run_on(host_info: &HostInfo, args: &[&str], variables: &[&str]) -> Result<Parsed, Exit> {
    let args = std::iter::once("bowline").chain(args.iter().copied()).map(OsString::from);
    let variables = variables.iter().map(|variable| {
        let (name, value) = variable.split_once('=').expect("NAME=value");
        (name.into(), value.into())
    });
    parse(args, variables, host_info)
}

fn run(args: &[&str], variables: &[&str]) -> Result<Parsed, Exit> {
    run_on(&HOST_INFO, args, variables)
}

/// Returns the configuration for arguments.
fn config(args: &[&str]) -> Config {
    run(args, &[]).unwrap_or_else(|exit| panic!("{args:?}: {exit:?}")).config
}

/// Returns the exit code with the first printed line or the configuration error.
fn outcome(args: &[&str], variables: &[&str]) -> (u8, String) {
    outcome_of(&run(args, variables).expect_err("rejected"))
}

fn outcome_of(exit: &Exit) -> (u8, String) {
    let text = match exit {
        Exit::Printed { stderr, .. } => stderr.lines().next().unwrap_or_default().to_owned(),
        Exit::Logged { notices, .. } => notices.iter().find_map(reason).expect("a reason"),
    };
    (exit.code(), text)
}

fn reason(notice: &Notice) -> Option<String> {
    match notice {
        Notice::Rejected(ConfigError::Shadowed(variable)) => Some(format!("shadowed: {variable}")),
        Notice::Rejected(rejection) | Notice::NotStarted(rejection) => Some(rejection.to_string()),
        _ => None,
    }
}
