//! Whether the simulation finds what it is there to find: each of these mistakes is made on purpose, and some story has to end badly for it, in the way in which that mistake
//! shows. (That the same stories end well without is shown by `stories`.)

use std::collections::BTreeMap;

use env::SeededRandom;
use server::planted_bug::plant;
use sim::{Cluster, PlantedBug, Settings, Story, Weather};
use types::{MemberId, Term};

/// In how many stories a mistake has to be found.
const SEEDS_MAX: u64 = 30;

/// The first story that a mistake ruins, and how that shows.
fn found(plant: PlantedBug) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let failure = Story { plant: Some(plant), ..Story::new(seed) }.tell().err()?;
        Some((seed, failure.what))
    })
}

/// A mistake is found, and the verdict names one of the ways in which it shows.
fn assert_found(plant: PlantedBug, ways: &[&str]) {
    let found = found(plant);
    println!("{plant:?}: {found:?}");
    let Some((seed, what)) = found else {
        panic!("{plant:?} was not found in {SEEDS_MAX} stories");
    };
    assert!(ways.iter().any(|way| what.contains(way)), "{plant:?} in {seed} shows as {what}");
}

/// A member has applied what its log has lost; or what was acknowledged is gone.
#[test]
fn acknowledging_before_the_sync_is_found() {
    let ways = ["entries are missing", "acknowledged and lost", "wrong answer"];
    assert_found(PlantedBug::AcknowledgeBeforeSync, &ways);
}

/// A member applies twice, and is no longer like the others.
#[test]
fn a_forgotten_applied_index_is_found() {
    let ways = ["found data inconsistency with peers", "members differ"];
    assert_found(PlantedBug::SkipAppliedIndex, &ways);
}

#[test]
fn reading_without_a_quorum_is_found() {
    assert_found(PlantedBug::ReadWithoutQuorum, &["stale read"]);
}

#[test]
fn events_that_are_lost_are_found() {
    let ways = ["watch not reliable", "watch not resumable", "watch not bookmarkable"];
    assert_found(PlantedBug::DropEvents, &ways);
}

#[test]
fn leases_that_expire_early_are_found() {
    assert_found(PlantedBug::ExpireEarly, &["lease expired early"]);
}

#[test]
fn leases_that_never_expire_are_found() {
    assert_found(PlantedBug::NeverExpire, &["all leases expire"]);
}

#[test]
fn watchers_that_never_catch_up_are_found() {
    assert_found(PlantedBug::NeverCatchUp, &["every watcher is told of the last revision"]);
}

#[test]
fn a_snapshot_without_who_votes_is_found() {
    assert_found(PlantedBug::SkipConfState, &["differ about the configuration"]);
}

/// Members restart all the time while messages are late, so that whoever has voted in a term is often asked again after a restart.
fn leaders_of_each_term(seed: u64) -> Result<(), String> {
    const STEPS: u64 = 8000;
    let weather = Weather { loss: 100, doubling: 100, delay: 60 };
    let settings = Settings { weather, ..Settings::new(seed) };
    let mut cluster = Cluster::new(settings, |config| config.pre_vote = false);
    let ids: Vec<_> = cluster.sites.keys().copied().collect();
    let mut random = SeededRandom::new(seed);
    let mut leaders: BTreeMap<Term, MemberId> = BTreeMap::new();
    for _ in 0..STEPS {
        if random.chance(1, 15) {
            let id = ids[usize::try_from(random.below(ids.len() as u64)).unwrap()];
            let network = cluster.network.clone();
            cluster.site(id).kill(&network);
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
fn a_vote_that_is_forgotten_is_found() {
    plant(Some(PlantedBug::ForgetVote));
    let found = (0..SEEDS_MAX).find(|seed| leaders_of_each_term(*seed).is_err());
    plant(None);
    let seed = found.unwrap();
    println!("ForgetVote: {seed}");
    leaders_of_each_term(seed).unwrap();
}
