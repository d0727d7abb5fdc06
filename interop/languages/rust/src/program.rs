//! The protocol with `cmd/languages`, which starts this program.

use std::env;
use std::fmt::Display;
use std::io;

/// Prints the result of a step.
pub fn step(name: &str, result: impl Display) {
    println!("{name}: {}", result.to_string().replace('\n', "\\n"));
}

/// Sends a request to `cmd/languages` and returns the response.
pub fn ask(request: &str) -> String {
    println!("@{request}");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).expect("cmd/languages answers requests");
    answer.trim_end().to_owned()
}

/// Returns an environment variable, empty if unset.
pub fn said(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Reads the file that an environment variable names.
pub fn file(name: &str) -> Vec<u8> {
    std::fs::read(said(name)).expect("the file exists")
}
