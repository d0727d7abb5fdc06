//! Development tasks: `cargo xtask verify` runs every check that a change has to pass.
//!
//! Nothing here is needed to build or run Bowline. The steps are cargo commands and checks of the
//! source; this program keeps them in one place, in order, and prints how to repeat a failed one.

mod args;
mod workspace;

mod verify;

mod architecture;
mod deny;
mod edges;
mod hygiene;
mod names;
mod prose;
mod toolchain;

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
        Command::Hygiene => hygiene::check(&workspace.root)?,
        Command::Sim(options) => return sim::clusters(&workspace, &options),
        Command::RaftSim(options) => return sim::raft(&workspace, &options),
        Command::Crash { seeds } => return sim::crash(&workspace, seeds),
    }
    Ok(ExitCode::SUCCESS)
}

/// Applies clippy's fixes, then formats, so that the fixes are formatted too.
fn fix(workspace: &Workspace) -> Result<()> {
    workspace.cargo(&["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty"])?;
    workspace.cargo(&["fmt", "--all"])
}
