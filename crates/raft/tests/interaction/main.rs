//! Golden scripts in which a few members interact step by step.
//!
//! The project's own scripts (`testdata/interaction`) explain the protocol, one behavior each. The
//! scripts published with etcd's raft run through the same commands if `RAFT_CASES` names their
//! directory. Random scripts that were run on etcd's raft also hit its known bugs;
//! `RAFT_ETCD_HOLES` keeps these bugs in the core, to compare everything else.

mod changes;
mod commands;
mod env;
mod node;
mod output;

use env::InteractionEnv;
use testkit::script::{self, Case, Runner};

fn run_dir(dir: impl AsRef<std::path::Path>) -> usize {
    Runner::from_env().normalize(without_logs).run_dir(dir, || {
        let mut env = InteractionEnv::default();
        move |case: &Case| commands::handle(&mut env, case)
    })
}

/// Removes etcd's log lines from published traces. A command that only logged then has an empty
/// trace, where ours prints `ok`; both mean that nothing happened.
fn without_logs(output: &str) -> String {
    let output = script::without_log_lines(output);
    if output.trim_end() == "ok" { String::new() } else { output }
}

#[test]
fn own_scripts_produce_their_traces() {
    let cases = run_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/interaction"));
    println!("{cases} own cases");
}

#[test]
fn etcds_scripts_produce_their_traces() {
    if let Some(dir) = script::published("interaction") {
        println!("{} published cases", run_dir(dir));
    }
}
