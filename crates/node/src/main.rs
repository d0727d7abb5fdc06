//! The server.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::main(std::env::args_os(), std::env::vars_os())
}
