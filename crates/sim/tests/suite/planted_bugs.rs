//! The simulation finds planted bugs: each must fail some scenario with its own symptom. Without
//! bugs the same scenarios pass (`scenarios`).

use std::collections::BTreeMap;

use env::SeededRandom;
use server::planted_bug::plant;
use sim::{Cluster, NetworkConditions, PlantedBug, Scenario, Settings};
use types::{MemberId, Term};

/// Number of scenarios in which a bug has to be found.
const SEEDS_MAX: u64 = 30;

/// Returns the first failing scenario and its failure.
fn found(plant: PlantedBug) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let failure = Scenario { plant: Some(plant), ..Scenario::new(seed) }.run().err()?;
        Some((seed, failure.what))
    })
}

/// Asserts that a bug is found with one of these symptoms.
fn assert_found(plant: PlantedBug, symptoms: &[&str]) {
    let found = found(plant);
    println!("{plant:?}: {found:?}");
    let Some((seed, what)) = found else {
        panic!("{plant:?} was not found in {SEEDS_MAX} scenarios");
    };
    assert!(
        symptoms.iter().any(|symptom| what.contains(symptom)),
        "{plant:?} in seed {seed} fails with: {what}"
    );
}

/// A member has applied entries that its log has lost, or an acknowledged write is gone.
#[test]
fn acknowledging_before_the_sync_is_found() {
    let symptoms = ["entries are missing", "acknowledged and lost", "wrong answer"];
    assert_found(PlantedBug::AcknowledgeBeforeSync, &symptoms);
}

/// A member applies entries twice and differs from the others.
#[test]
fn skipping_the_applied_index_is_found() {
    let symptoms = ["found data inconsistency with peers", "members differ"];
    assert_found(PlantedBug::SkipAppliedIndex, &symptoms);
}

#[test]
fn reading_without_a_quorum_is_found() {
    assert_found(PlantedBug::ReadWithoutQuorum, &["stale read"]);
}

#[test]
fn dropping_events_is_found() {
    let symptoms = ["watch not reliable", "watch not resumable", "watch not bookmarkable"];
    assert_found(PlantedBug::DropEvents, &symptoms);
}

#[test]
fn expiring_leases_early_is_found() {
    assert_found(PlantedBug::ExpireEarly, &["lease expired early"]);
}

#[test]
fn never_expiring_leases_is_found() {
    assert_found(PlantedBug::NeverExpire, &["all leases expire"]);
}

#[test]
fn never_syncing_watchers_is_found() {
    assert_found(PlantedBug::NeverCatchUp, &["every watcher receives the last revision"]);
}

#[test]
fn a_snapshot_without_conf_state_is_found() {
    assert_found(PlantedBug::SkipConfState, &["differ about the configuration"]);
}

/// Restarts members often while messages are delayed, so that voters are asked again after a
/// restart.
fn leaders_of_each_term(seed: u64) -> Result<(), String> {
    const STEPS: u64 = 8000;
    let conditions = NetworkConditions { loss: 100, doubling: 100, delay: 60 };
    let settings = Settings { conditions, ..Settings::new(seed) };
    let mut cluster = Cluster::new(settings, |config| config.pre_vote = false);
    let ids: Vec<_> = cluster.nodes.keys().copied().collect();
    let mut random = SeededRandom::new(seed);
    let mut leaders: BTreeMap<Term, MemberId> = BTreeMap::new();
    for _ in 0..STEPS {
        if random.chance(1, 15) {
            let id = ids[usize::try_from(random.below(ids.len() as u64)).unwrap()];
            let network = cluster.network.clone();
            cluster.node(id).kill(&network);
            cluster.start(id);
        }
        cluster.step();
        for server in cluster.servers().filter(|server| server.is_leader()) {
            let first = *leaders.entry(server.term()).or_insert(server.local());
            if first != server.local() {
                return Err(format!("{first} and {} lead {}", server.local(), server.term()));
            }
        }
    }
    Ok(())
}

#[test]
fn a_forgotten_vote_is_found() {
    plant(Some(PlantedBug::ForgetVote));
    let found = (0..SEEDS_MAX).find(|seed| leaders_of_each_term(*seed).is_err());
    plant(None);
    let seed = found.unwrap();
    println!("ForgetVote: {seed}");
    leaders_of_each_term(seed).unwrap();
}
