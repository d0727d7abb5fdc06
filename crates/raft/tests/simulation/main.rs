//! Whole clusters of the consensus core, simulated in one thread each from one seed.
//!
//! A seed decides everything: the members and their settings, every delay, loss, crash and partition, every proposal
//! and membership change. The same seed gives the same run to the byte. While it runs, the invariants of
//! Raft are checked after every step against what no member could know: all logs, all disks. Then the
//! faults end, and the cluster must recover.
//!
//! Reading order: [`cluster`] runs one event after the other; [`world`] is what the members share; [`node`]
//! drives one member as a server would; [`disk`], [`network`] and [`app`] are its surroundings; [`scenario`],
//! [`temper`], [`faults`] and [`membership`] decide what it suffers; [`heal`] wants it well again; [`invariants`] watch;
//! [`runner`] runs many.
//!
//! `cargo xtask raft-sim --seeds N --from SEED [--keep-going]` runs more of it, or one seed again.

mod app;
mod cluster;
mod disk;
mod faults;
mod heal;
mod invariants;
mod membership;
mod network;
mod node;
mod random;
mod runner;
mod scenario;
mod temper;
mod totals;
mod trace;
mod world;

use std::collections::BTreeSet;

use raft::PlantedBug;

use invariants::Invariant::{self, *};
use runner::Plan;
use scenario::Flaw;
use totals::Totals;

/// Seeds of an ordinary test run.
const SEEDS: u64 = 2_000;
const FROM: u64 = 1;

#[test]
fn random_clusters_stay_safe_and_heal() {
    let plan = Plan {
        from: number_from_environment("RAFT_SIM_FROM", FROM),
        seeds: number_from_environment("RAFT_SIM_SEEDS", SEEDS),
        keep_going: std::env::var("RAFT_SIM_KEEP_GOING").is_ok_and(|value| value == "1"),
        flaw: None,
    };
    let (totals, failures) = runner::run(plan);
    println!("simulated from seed {}:\n{totals}", plan.from);
    let reports: Vec<_> = failures.iter().map(ToString::to_string).collect();
    assert!(reports.is_empty(), "{} seeds failed\n{}", reports.len(), reports.join("\n"));
    // A few seeds alone may miss something; a whole run may not.
    if plan.seeds >= SEEDS {
        assert_exercised(&totals, plan.seeds);
    }
}

/// A simulation in which nothing happens would find nothing.
fn assert_exercised(totals: &Totals, seeds: u64) {
    assert!(totals.committed >= 50 * seeds, "hardly any entries were committed");
    assert!(totals.elections >= 2 * seeds, "hardly any elections were held");
    for (name, label, count) in totals.all() {
        if name == "helped" {
            assert!(count <= seeds / 50, "too many clusters could not recover by themselves");
        } else {
            assert!(count >= seeds / 200, "hardly exercised: {count} {label}");
        }
    }
}

#[test]
fn a_seed_repeats_to_the_byte() {
    for seed in FROM..FROM + 20 {
        let [first, second] = [(); 2].map(|()| runner::run_seed(seed, None).digest);
        assert_eq!(first, second, "seed {seed} went two ways");
        let other = runner::run_seed(seed + 1, None).digest;
        assert_ne!(first, other, "seeds {seed} and {} are the same", seed + 1);
    }
}

#[test]
fn committing_entries_of_older_terms_by_counting_is_caught() {
    let signs = [LeaderCompleteness, CommittedIsForEver, StateMachineSafety];
    assert_is_caught(Flaw::Planted(PlantedBug::CommitOlderTerm), &signs);
}

#[test]
fn forgetting_a_vote_at_restart_is_caught() {
    let signs = [OneVoteATerm, ElectionSafety];
    assert_is_caught(Flaw::Planted(PlantedBug::ForgetVoteAtRestart), &signs);
}

#[test]
fn answering_before_the_disk_has_it_is_caught() {
    let signs = [CommittedIsDurable, OneVoteATerm, ElectionSafety, NothingRefused];
    assert_is_caught(Flaw::Planted(PlantedBug::AnswerBeforeDurable), &signs);
}

#[test]
fn the_holes_of_etcds_raft_are_caught() {
    let flaw = Some(Flaw::EtcdBugs);
    let plan = Plan { from: FROM, seeds: SEEDS / 2, keep_going: true, flaw };
    let (_, failures) = runner::run(plan);
    let found: BTreeSet<_> = failures.iter().map(|failure| failure.violation.invariant).collect();
    println!(
        "{} seeds of {} fell into holes of etcd's raft: {found:?}",
        failures.len(),
        plan.seeds
    );
    // Leading before one's own vote is durable; and serving reads alone, from what may be old.
    assert!(found.is_superset(&BTreeSet::from([ElectionSafety, LinearizableReads])));
}

/// Expects an ordinary run to find what is wrong, by one of these signs.
fn assert_is_caught(flaw: Flaw, signs: &[Invariant]) {
    let plan = Plan { from: FROM, seeds: SEEDS, keep_going: false, flaw: Some(flaw) };
    let (_, failures) = runner::run(plan);
    let first = failures.first().unwrap_or_else(|| panic!("{flaw:?} was not found"));
    println!("{flaw:?} was found after {} seeds: {}", first.seed - FROM + 1, first.violation);
    assert!(signs.contains(&first.violation.invariant), "found by an unlikely sign:\n{first}");
}

fn number_from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")),
        Err(_) => default,
    }
}
