//! `cargo xtask sim`, `raft-sim` and `crash`: simulated clusters and power cuts over many seeds.
//!
//! The tests live in the crates' `tests` directories and read their parameters from the
//! environment. Without parameters, as in an ordinary test run, they simulate for a few seconds.

use std::process::ExitCode;

use anyhow::Result;

use crate::workspace::Workspace;

/// The test that simulates clusters of the consensus core.
const RAFT_CLUSTERS: &str = "random_clusters_keep_all_invariants_and_recover";
/// The tests of power cuts and failing disks: parts of names, and modules of the tests of `server`.
const CRASH_TESTS: [&str; 3] = ["power_cut", "power::", "faults::"];
/// The test that simulates clusters of whole members.
const SCENARIOS: &str = "scenarios_pass";

/// The seeds to simulate; absent values leave the test's default.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Number of seeds.
    pub(crate) seeds: Option<u64>,
    /// First seed.
    pub(crate) from: Option<u64>,
    /// Continues after a failure.
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

/// Simulates whole clusters on all cores, and returns the exit code. A failing seed does not stop
/// the others.
pub(crate) fn clusters(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let test =
        ["test", "--release", "-p", "sim", "--test", "suite", "--", "--nocapture", SCENARIOS];
    let (seeds, from) =
        (options.seeds.map(|it| it.to_string()), options.from.map(|it| it.to_string()));
    let seeds = seeds.iter().map(|it| ("BOWLINE_SIM_SEEDS", it.as_str()));
    let from = from.iter().map(|it| ("BOWLINE_SIM_FROM", it.as_str()));
    let variables: Vec<(&str, &str)> = seeds.chain(from).collect();
    exit_code(workspace, &test, &variables)
}

/// Simulates the consensus core, and returns the exit code.
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

/// Runs the power-cut suites, and returns the exit code.
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
        "--",
    ];
    let test = [&test[..], &CRASH_TESTS].concat();
    let seeds = seeds.map(|seeds| seeds.to_string());
    let variables: Vec<(&str, &str)> =
        seeds.iter().map(|seeds| ("BOWLINE_CRASH_SEEDS", seeds.as_str())).collect();
    exit_code(workspace, &test, &variables)
}

/// Runs a test and returns its exit code, or 1 if a signal ended it.
fn exit_code(workspace: &Workspace, test: &[&str], variables: &[(&str, &str)]) -> Result<ExitCode> {
    let status = workspace.cargo_status(test, variables)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo succeeds if a filter matches no test, so a stale name would simulate nothing.
    #[test]
    fn the_named_tests_exist() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        for (file, test) in [
            ("raft/tests/simulation/main.rs", RAFT_CLUSTERS),
            ("sim/tests/suite/scenarios.rs", SCENARIOS),
        ] {
            let source = std::fs::read_to_string(crates.join(file)).unwrap();
            assert!(source.contains(&format!("fn {test}()")), "{file} has no test {test}");
        }
        for module in CRASH_TESTS.iter().filter_map(|name| name.strip_suffix("::")) {
            let file = crates.join(format!("server/tests/stages/{module}.rs"));
            assert!(file.exists(), "there is no {}", file.display());
        }
    }

    #[test]
    fn options_are_passed_in_the_environment() {
        let options = Options { seeds: Some(500), from: Some(3), keep_going: true };
        let names = ["RAFT_SIM_SEEDS", "RAFT_SIM_FROM", "RAFT_SIM_KEEP_GOING"];
        let values = ["500", "3", "1"].map(str::to_owned);
        assert_eq!(options.environment(), names.into_iter().zip(values).collect::<Vec<_>>());
        assert_eq!(Options::default().environment(), []);
    }
}
