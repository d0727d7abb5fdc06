//! Scripts in which a few members talk to each other, step by step.
//!
//! The project's own scripts (`testdata/interaction`) explain the protocol, one behaviour each. The cases that etcd's
//! raft publishes run through the same commands when `RAFT_CASES` names their folder. Random scripts that etcd's raft was
//! asked about reach its holes too; with `RAFT_ETCD_HOLES` set, ours are left open to compare everything else.

mod changes;
mod commands;
mod env;
mod node;
mod output;

use env::InteractionEnv;
use testkit::script::{self, Case, Runner};

fn run_dir(dir: impl AsRef<std::path::Path>) -> usize {
    Runner::from_env().normalise(without_logs).run_dir(dir, || {
        let mut env = InteractionEnv::default();
        move |case: &Case| commands::handle(&mut env, case)
    })
}

/// The published traces hold etcd's log lines, which are not compared. Where a command did nothing else but
/// log, the trace is then empty, while without a logger it says `ok`: both say that nothing happened.
fn without_logs(output: &str) -> String {
    let output = script::without_log_lines(output);
    if output.trim_end() == "ok" { String::new() } else { output }
}

#[test]
fn our_own_scripts() {
    let cases = run_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/interaction"));
    println!("{cases} cases of our own");
}

#[test]
fn published_scripts() {
    if let Some(dir) = script::published("interaction") {
        println!("{} published cases", run_dir(dir));
    }
}
