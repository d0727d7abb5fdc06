//! The simulation finds planted bugs: each must fail some scenario with its own symptom. Without
//! bugs the same scenarios pass (`scenarios`).

use std::collections::BTreeMap;

use env::SeededRandom;
use server::planted_bug::plant;
use sim::{Cluster, NetworkConditions, PlantedBug, Scenario, Settings};
use simkit::RandomExt as _;
use types::{MemberId, Term};

/// Number of scenarios in which a bug has to be found.
const SEEDS_MAX: u64 = 30;
/// Number of clusters of which one has to elect two leaders in a term after a forgotten vote. That
/// takes a restart between two vote requests of one term, which is rare.
const VOTE_SEEDS_MAX: u64 = 300;

/// Asserts that one of [`SEEDS_MAX`] scenarios fails with one of these symptoms.
fn assert_found(plant: PlantedBug, symptoms: &[&str]) {
    let mut others = Vec::new();
    for seed in 0..SEEDS_MAX {
        let scenario = Scenario { plant: Some(plant), ..Scenario::new(seed) };
        let Err(failure) = scenario.run() else { continue };
        if symptoms.iter().any(|symptom| failure.reason.contains(symptom)) {
            println!("{plant:?}, seed {seed}: {}", failure.reason);
            return;
        }
        others.push((seed, failure.reason));
    }
    panic!("no symptom of {plant:?} in {SEEDS_MAX} scenarios; other failures: {others:?}");
}

/// A member has applied entries that its log has lost, or an acknowledged write is lost.
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

/// Checks that each term has at most one leader. Restarts members often while messages are delayed,
/// so that voters receive vote requests of the same term before and after a restart.
fn check_one_leader_per_term(seed: u64) -> Result<(), String> {
    const STEPS: u64 = 8000;
    let conditions = NetworkConditions { loss: 100, duplication: 100, delay: 60, late: None };
    let settings = Settings { conditions, ..Settings::new(seed) };
    let mut cluster = Cluster::new(settings, |config| config.pre_vote = false);
    let ids: Vec<_> = cluster.nodes.keys().copied().collect();
    let mut random = SeededRandom::new(seed);
    let mut leaders: BTreeMap<Term, MemberId> = BTreeMap::new();
    for _ in 0..STEPS {
        if random.chance(1, 15) {
            let id = random.pick(&ids);
            let network = cluster.network.clone();
            cluster.node(id).kill(&network);
            cluster.start(id);
        }
        cluster.step();
        for server in cluster.servers().filter(|server| server.is_leader()) {
            let first = *leaders.entry(server.term()).or_insert(server.local());
            if first != server.local() {
                return Err(format!(
                    "{first} and {} both lead term {}",
                    server.local(),
                    server.term()
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn a_forgotten_vote_is_found() {
    plant(Some(PlantedBug::ForgetVote));
    let found = (0..VOTE_SEEDS_MAX).find(|seed| check_one_leader_per_term(*seed).is_err());
    plant(None);
    let Some(seed) = found else {
        panic!("no term had two leaders in {VOTE_SEEDS_MAX} clusters");
    };
    println!("ForgetVote, seed {seed}");
    check_one_leader_per_term(seed).unwrap();
}
