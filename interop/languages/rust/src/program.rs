//! How a program speaks to `cmd/languages`, which has started it.

use std::env;
use std::fmt::Display;
use std::io;

/// Tells the result of a step.
pub fn step(name: &str, result: impl Display) {
    println!("{name}: {}", result.to_string().replace('\n', "\\n"));
}

/// Has something done, and returns the answer.
pub fn ask(request: &str) -> String {
    println!("@{request}");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).expect("whoever started this program answers");
    answer.trim_end().to_owned()
}

/// What the environment says, or nothing.
pub fn said(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The contents of a file that the environment names.
pub fn file(name: &str) -> Vec<u8> {
    std::fs::read(said(name)).expect("the file is there")
}
