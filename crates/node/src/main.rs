//! The server.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::main(std::env::args(), std::env::vars_os())
}
