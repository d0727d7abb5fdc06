//! Golden scripts: commands with the trace that they must give, for the store and for watch.
//!
//! `testdata/store` explains revisions, ranges, transactions, compaction and hashes;
//! `testdata/watch` explains how events reach watchers. Each file is one behavior, written to be
//! read. The module [`fixture`] lists the commands; `BOWLINE_REWRITE=1` writes the actual trace
//! into the files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod fixture;
mod print;
mod request;

use fixture::Fixture;
use testkit::script::{self, Case};

fn run(dir: &str) {
    let dir = format!("{}/testdata/{dir}", env!("CARGO_MANIFEST_DIR"));
    script::run_dir(dir, || {
        let mut fixture = Fixture::new();
        move |case: &Case| fixture.run(case)
    });
}

#[test]
fn store_scripts_give_the_expected_traces() {
    run("store");
}

#[test]
fn watch_scripts_give_the_expected_traces() {
    run("watch");
}
