//! Whether the simulation finds what it is there to find: each of these mistakes is made on purpose, and some story has to end badly for it. (That the same
//! stories end well without is shown by `stories`.)

use sim::{Plant, Story};

/// In how many stories a mistake has to be found.
const SEEDS_MAX: u64 = 30;

/// The first story that a mistake ruins, and how that shows.
fn found(plant: Plant) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let failure = Story { plant: Some(plant), ..Story::new(seed) }.tell().err()?;
        Some((seed, failure.what))
    })
}

fn assert_found(plant: Plant) {
    let found = found(plant);
    println!("{plant:?}: {found:?}");
    assert!(found.is_some(), "{plant:?} was not found in {SEEDS_MAX} stories");
}

#[test]
fn acknowledging_before_the_sync_is_found() {
    assert_found(Plant::AcknowledgeBeforeSync);
}

#[test]
fn a_forgotten_applied_index_is_found() {
    assert_found(Plant::SkipAppliedIndex);
}

#[test]
fn reading_without_a_quorum_is_found() {
    assert_found(Plant::ReadWithoutQuorum);
}

#[test]
fn events_that_are_lost_are_found() {
    assert_found(Plant::DropEvents);
}

#[test]
fn leases_that_expire_early_are_found() {
    assert_found(Plant::ExpireEarly);
}
