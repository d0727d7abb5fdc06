//! `cargo xtask sim`, `cargo xtask raft-sim` and `cargo xtask crash`: the simulation of whole clusters and that of the consensus core, and power cuts of
//! simulated disks, over as many seeds as asked for.
//!
//! The tests themselves live in the crates' `tests` and take their orders from the environment; an ordinary test run
//! gives none and gets a short simulation.

use std::process::ExitCode;

use anyhow::Result;

use crate::workspace::Workspace;

/// The test of consensus that runs clusters; the others are about the simulation itself.
const RAFT_CLUSTERS: &str = "random_clusters_stay_safe_and_heal";
/// Likewise, of whole members.
const STORIES: &str = "stories_end_well";

/// What to simulate; where nothing is said, the test has its own default.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// How many seeds.
    pub(crate) seeds: Option<u64>,
    /// The first seed.
    pub(crate) from: Option<u64>,
    /// Whether to run on after a failure.
    pub(crate) keep_going: bool,
}

impl Options {
    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        variables.extend(self.seeds.map(|seeds| ("RAFT_SIM_SEEDS", seeds.to_string())));
        variables.extend(self.from.map(|from| ("RAFT_SIM_FROM", from.to_string())));
        variables.extend(self.keep_going.then(|| ("RAFT_SIM_KEEP_GOING", "1".to_owned())));
        variables
    }
}

/// Simulates whole clusters, on all cores, and returns the code it ended with. A failure does not keep the other seeds from being tried.
pub(crate) fn clusters(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let test = ["test", "--release", "-p", "sim", "--test", "suite", "--", "--nocapture", STORIES];
    let (seeds, from) =
        (options.seeds.map(|it| it.to_string()), options.from.map(|it| it.to_string()));
    let seeds = seeds.iter().map(|it| ("BOWLINE_SIM_SEEDS", it.as_str()));
    let from = from.iter().map(|it| ("BOWLINE_SIM_FROM", it.as_str()));
    let variables: Vec<(&str, &str)> = seeds.chain(from).collect();
    exit_code(workspace, &test, &variables)
}

/// Runs the simulation of consensus and returns the code it ended with.
pub(crate) fn raft(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let test = [
        "test",
        "--release",
        "-p",
        "raft",
        "--test",
        "simulation",
        "--",
        "--nocapture",
        RAFT_CLUSTERS,
    ];
    let variables = options.environment();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    exit_code(workspace, &test, &variables)
}

/// Cuts the power at every change, and returns the code it ended with.
pub(crate) fn crash(workspace: &Workspace, seeds: Option<u64>) -> Result<ExitCode> {
    let test = [
        "test",
        "--release",
        "-p",
        "bolt",
        "-p",
        "wal",
        "-p",
        "backend",
        "-p",
        "server",
        "--tests",
        "power_cut",
    ];
    let seeds = seeds.map(|seeds| seeds.to_string());
    let variables: Vec<(&str, &str)> =
        seeds.iter().map(|seeds| ("BOWLINE_CRASH_SEEDS", seeds.as_str())).collect();
    exit_code(workspace, &test, &variables)
}

/// Runs a test; one ended by a signal has no code of its own.
fn exit_code(workspace: &Workspace, test: &[&str], variables: &[(&str, &str)]) -> Result<ExitCode> {
    let status = workspace.cargo_status(test, variables)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_the_environment() {
        let options = Options { seeds: Some(500), from: Some(3), keep_going: true };
        let names = ["RAFT_SIM_SEEDS", "RAFT_SIM_FROM", "RAFT_SIM_KEEP_GOING"];
        let values = ["500", "3", "1"].map(str::to_owned);
        assert_eq!(options.environment(), names.into_iter().zip(values).collect::<Vec<_>>());
        assert_eq!(Options::default().environment(), []);
    }
}
