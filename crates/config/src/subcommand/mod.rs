//! The subcommands `gateway` and `grpc-proxy`: their command lines, as cobra parses them in etcd.
//!
//! ```text
//!     bowline gateway start --endpoints=10.0.0.1:2379,10.0.0.2:2379
//!             |       |     |
//!             group   verb  flags of the verb, before or after it
//! ```
//!
//! These command lines follow other rules than that of a member (`flags`): two dashes, no
//! environment, no file, arguments that are not flags are ignored, and a bad flag exits with
//! code 1. The help has cobra's layout.
//!
//! `table` declares the flags of a verb, `pflag` parses values, `usage` prints the help, and
//! `gateway` and `grpc_proxy` are the two tables with their checks.

mod gateway;
mod grpc_proxy;
mod pflag;
mod table;
mod usage;

use crate::parse::Exit;

pub use gateway::GatewayFlags;
pub use grpc_proxy::{ProxyFlags, ProxyTls};

use table::Verb;

/// A subcommand to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subcommand {
    /// `gateway start`: the TCP proxy.
    Gateway(GatewayFlags),
    /// `grpc-proxy start`: the gRPC proxy.
    GrpcProxy(Box<ProxyFlags>),
}

/// Parses a subcommand, if the first of the arguments, which follow the name of the program, names
/// one.
pub(crate) fn parse(args: &[String]) -> Option<Result<Subcommand, Exit>> {
    let (group, rest) = args.split_first()?;
    match group.as_str() {
        "gateway" => Some(start::<GatewayFlags>(rest).map(Subcommand::Gateway)),
        "grpc-proxy" => Some(start::<ProxyFlags>(rest).and_then(grpc_proxy::check)),
        _ => None,
    }
}

/// Parses the arguments of a group with the single verb `start`.
fn start<F: Verb>(args: &[String]) -> Result<F, Exit> {
    match pflag::take_verb(args) {
        Some(args) => match pflag::read::<F>(&args) {
            Ok(pflag::Read::Flags(flags)) => Ok(flags),
            Ok(pflag::Read::Help) => Err(printed(usage::verb_help::<F>())),
            Err(text) => Err(rejected(&text, &usage::verb::<F>())),
        },
        None => match pflag::read_help(args) {
            Ok(()) => Err(printed(usage::group_help::<F>())),
            Err(text) => Err(rejected(&text, &usage::group::<F>())),
        },
    }
}

fn printed(stdout: String) -> Exit {
    Exit::Printed { stdout, stderr: String::new(), code: 0 }
}

/// Compat: as in etcd, cobra prints the error before the usage, and the program after it.
fn rejected(text: &str, usage: &str) -> Exit {
    let stderr = format!("Error: {text}\n{usage}\n{text}");
    Exit::Printed { stdout: String::new(), stderr, code: 1 }
}

#[cfg(test)]
mod tests;
