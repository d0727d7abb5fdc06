//! The project's chores, as a program: `cargo xtask verify` is what has to pass before a change goes in.
//!
//! Nothing here is needed to build or run Bowline. Steps are cargo commands that anyone could type; this program
//! keeps them in one place, in order, and says how to repeat the one that failed.

mod args;
mod workspace;

mod verify;

mod deny;
mod edges;
mod hygiene;

mod sim;

use std::process::ExitCode;

use anyhow::Result;

use args::Command;
use workspace::Workspace;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    match args::parse(words)? {
        Command::Help => println!("{}", args::usage()),
        Command::Verify(options) => verify::verify(&workspace, &options)?,
        Command::Fix => fix(&workspace)?,
        Command::Edges => edges::check(&workspace)?,
        Command::Sim(options) => return sim::clusters(&workspace, &options),
        Command::RaftSim(options) => return sim::raft(&workspace, &options),
        Command::Crash { seeds } => return sim::crash(&workspace, seeds),
    }
    Ok(ExitCode::SUCCESS)
}

/// Rewrites what can be rewritten by machine. Format last, so that clippy's edits are formatted too.
fn fix(workspace: &Workspace) -> Result<()> {
    workspace.cargo(&["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty"])?;
    workspace.cargo(&["fmt", "--all"])
}
