//! Simulated clusters of the consensus core: one thread and one seed per cluster.
//!
//! A seed determines everything: the members and their settings, every delay, loss, crash and
//! partition, every proposal and conf change. The same seed reproduces the same run to the byte.
//! During the run the invariants of Raft are checked after every step against global state that no
//! member could know: all logs and all disks. Then the faults end, and the cluster must recover.
//!
//! Reading order: [`cluster`] executes one event after another; [`context`] holds what the members
//! share; [`node`] drives one member as a server would; [`disk`], [`network`] and [`app`] are its
//! environment; [`scenario`], [`profile`], [`faults`] and [`membership`] generate the workload and
//! the faults; [`heal`] ends them and waits for recovery; [`invariants`] contains the checks;
//! [`runner`] runs many seeds. The parts that know nothing of Raft are in `simkit`.
//!
//! `cargo xtask raft-sim --seeds N --from SEED [--keep-going]` runs more seeds, or repeats one.

mod app;
mod cluster;
mod context;
mod disk;
mod faults;
mod heal;
mod invariants;
mod membership;
mod network;
mod node;
mod profile;
mod runner;
mod scenario;
mod totals;
mod trace;

use std::collections::BTreeSet;

use raft::PlantedBug;
use simkit::{Counters as _, SeedFailure, number_from_env};

use invariants::Invariant::{self, *};
use runner::Failure;
use scenario::Defect;
use totals::Totals;

/// Seeds in an ordinary test run.
const SEEDS: u64 = 2_000;
const FROM: u64 = 1;

#[test]
fn random_clusters_keep_all_invariants_and_recover() {
    let from = number_from_env("RAFT_SIM_FROM", FROM);
    let seeds = number_from_env("RAFT_SIM_SEEDS", SEEDS);
    let keep_going = std::env::var("RAFT_SIM_KEEP_GOING").is_ok_and(|value| value == "1");
    let results = runner::run(from, seeds, keep_going, None);
    println!("simulated from seed {from}:\n{}", results.totals);
    results.assert_passed();
    // A few seeds may miss something; a whole run must not.
    if seeds >= SEEDS {
        assert_exercised(&results.totals, seeds);
    }
}

/// Checks that the simulation exercised everything; otherwise it would find nothing.
fn assert_exercised(totals: &Totals, seeds: u64) {
    assert!(totals.committed >= 50 * seeds, "too few committed entries");
    assert!(totals.elections >= 2 * seeds, "too few elections");
    for (name, label, count) in totals.all() {
        if name == "commit_indexes_set" {
            assert!(count <= seeds / 50, "too many clusters needed an operator to recover");
        } else {
            assert!(count >= seeds / 200, "too rarely exercised: {count} {label}");
        }
    }
}

#[test]
fn a_seed_reproduces_the_same_run() {
    for seed in FROM..FROM + 20 {
        let [first, second] = [(); 2].map(|()| runner::run_seed(seed, None).digest);
        assert_eq!(first, second, "seed {seed} is not reproducible");
        let other = runner::run_seed(seed + 1, None).digest;
        assert_ne!(first, other, "seeds {seed} and {} produce the same run", seed + 1);
    }
}

#[test]
fn committing_entries_of_older_terms_by_counting_is_found() {
    let signs = [LeaderCompleteness, CommittedIsImmutable, StateMachineSafety];
    assert_is_found(Defect::Planted(PlantedBug::CommitOlderTerm), &signs);
}

#[test]
fn forgetting_the_vote_at_a_restart_is_found() {
    let signs = [OneVotePerTerm, ElectionSafety];
    assert_is_found(Defect::Planted(PlantedBug::ForgetVoteAtRestart), &signs);
}

#[test]
fn responding_before_the_sync_is_found() {
    let signs = [CommittedIsDurable, OneVotePerTerm, ElectionSafety, NoMessageRefused];
    assert_is_found(Defect::Planted(PlantedBug::AnswerBeforeDurable), &signs);
}

#[test]
fn the_known_bugs_of_etcds_raft_are_found() {
    let seeds = SEEDS / 2;
    let failures = runner::run(FROM, seeds, true, Some(Defect::EtcdBugs)).failures;
    let invariant = |failure: &SeedFailure<Failure>| failure.failure.violation.invariant;
    let found: BTreeSet<_> = failures.iter().map(invariant).collect();
    println!("{} of {seeds} seeds hit bugs of etcd's raft: {found:?}", failures.len());
    // A leader elected before its own vote is durable, and stale reads served without a quorum.
    assert!(found.is_superset(&BTreeSet::from([ElectionSafety, LinearizableReads])));
}

/// Checks that an ordinary run finds the defect through one of these invariants.
fn assert_is_found(defect: Defect, signs: &[Invariant]) {
    let failures = runner::run(FROM, SEEDS, false, Some(defect)).failures;
    let first = failures.first().unwrap_or_else(|| panic!("{defect:?} was not found"));
    let violation = &first.failure.violation;
    println!("{defect:?} was found after {} seeds: {violation}", first.seed - FROM + 1);
    assert!(
        signs.contains(&violation.invariant),
        "found through an unexpected invariant:\n{first}"
    );
}
