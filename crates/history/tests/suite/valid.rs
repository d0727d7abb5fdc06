//! What a perfect store answered is accepted, however clients overlap and whatever they never heard of.

use history::record::{Range, Request, Span};
use history::{History, Options, check};

use crate::common::generator::{Plan, record};
use crate::common::*;

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

/// Twelve revisions in a row that nobody was told to have made, and twice as many writes that may have: how often each key was put is told by the versions in the end,
/// and in which order does not matter.
#[test]
fn a_row_of_holes_and_the_versions_behind_it() {
    let keys = [("a", 5), ("b", 4), ("c", 2), ("d", 1)];
    let mut operations = Vec::new();
    let mut at = 1;
    for (revision, (key, _)) in (2..).zip(keys) {
        operations.push(answered(1, at, at + 1, put(key, "first"), revision, PUT));
        at += 2;
    }
    for i in 0..6 {
        for (key, _) in keys {
            operations.push(unknown(2, at, put(key, &format!("doubtful {i}"))));
            at += 1;
        }
    }
    let mut kvs = Vec::new();
    for (i, (revision, (key, doubtful))) in (0..).zip((18..).zip(keys)) {
        operations.push(answered(1, at, at + 1, put(key, "last"), revision, PUT));
        kvs.push(kv(key, "last", 2 + i, revision, 2 + doubtful));
        at += 2;
    }
    let all = Request::Range(Range::now(Span::all()));
    operations.push(answered(1, at, at + 1, all, 21, found(&kvs)));
    let log = accept(&history(operations));
    assert!(log.steps() < 100, "{} steps", log.steps());
}
