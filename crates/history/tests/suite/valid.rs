//! What a perfect store answered is accepted, however clients overlap and whatever they never heard of.

use history::{History, Options, check};

use crate::common::world::{Plan, record};

fn accepted(seed: u64, plan: Plan) -> (History, history::Log) {
    let history = record(seed, plan);
    match check(&history, &Options::default()) {
        Ok(log) => (history, log),
        Err(violations) => {
            panic!("seed {seed}: {:#?}", &violations[..violations.len().min(3)])
        }
    }
}

#[test]
fn everything_at_once() {
    for seed in 0..150 {
        accepted(seed, Plan::default());
    }
}

#[test]
fn many_outcomes_unknown() {
    for seed in 0..100 {
        accepted(seed, Plan { unknown: 40, watches: 0, ..Plan::default() });
        accepted(seed, Plan { unknown: 40, watches: 4, ..Plan::default() });
    }
}

/// Each of few keys has many writes of unknown outcome, and many holes that any of them could fill.
#[test]
fn holes_that_much_could_fill() {
    let plan =
        Plan { clients: 8, operations: 1500, keys: 3, unknown: 25, watches: 0, ..Plan::default() };
    for seed in 0..10 {
        accepted(seed, plan);
    }
}

#[test]
fn values_that_repeat() {
    for seed in 0..100 {
        accepted(seed, Plan { own_values: false, unknown: 15, ..Plan::default() });
        accepted(seed, Plan { own_values: false, unknown: 15, watches: 0, ..Plan::default() });
    }
}

#[test]
fn a_file_of_it_is_accepted_too() {
    let history = record(1, Plan::default());
    let mut file = Vec::new();
    history.write(&mut file).unwrap();
    let again = History::read(file.as_slice()).unwrap();
    assert_eq!(again, history);
    assert!(check(&again, &Options::default()).is_ok());
}

/// Time on a shared machine says little; steps say how much there was to do.
#[test]
fn ten_thousand_operations_take_about_as_many_steps_as_revisions() {
    let plan = Plan { clients: 10, operations: 10_000, keys: 10, unknown: 5, ..Plan::default() };
    for seed in 0..2 {
        for watches in [0, 5] {
            let (_, log) = accepted(seed, Plan { watches, ..plan });
            let revisions = u64::try_from(log.revision()).unwrap();
            assert!(log.steps() < 4 * revisions, "{} steps, {revisions} revisions", log.steps());
        }
    }
}
