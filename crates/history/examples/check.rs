//! Checks a recorded history: `cargo run --release -p history --example check -- FILE`.
//!
//! Prints a summary of the explaining order and exits with 0, or prints all violations and exits
//! with 1.

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use history::{History, Options, check};

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: check FILE");
        return ExitCode::from(2);
    };
    let history = match File::open(&path).map(BufReader::new).map(History::read) {
        Ok(Ok(history)) => history,
        Ok(Err(error)) => return unreadable(&path, &error),
        Err(error) => return unreadable(&path, &error),
    };
    let (operations, watches) = (history.operations.len(), history.watches.len());
    match check(&history, &Options::default()) {
        Ok(log) => {
            let (revision, steps) = (log.revision(), log.steps());
            println!(
                "linearizable: {operations} operations and {watches} watches, up to revision {revision}, in {steps} steps"
            );
            ExitCode::SUCCESS
        }
        Err(violations) => {
            violations.iter().for_each(|violation| println!("{violation}"));
            ExitCode::FAILURE
        }
    }
}

fn unreadable(path: &str, error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{path}: {error}");
    ExitCode::from(2)
}
