//! Histories of the reference store are accepted, whatever the overlap of clients and the unknown
//! outcomes.

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
fn histories_with_all_features_are_accepted() {
    for seed in 0..150 {
        accepted(seed, Plan::default());
    }
}

#[test]
fn histories_with_many_unknown_outcomes_are_accepted() {
    for seed in 0..100 {
        accepted(seed, Plan { unknown: 40, watches: 0, ..Plan::default() });
        accepted(seed, Plan { unknown: 40, watches: 4, ..Plan::default() });
    }
}

/// Few keys, many unknown writes, and many holes that each of them could fill.
#[test]
fn holes_with_many_candidates_are_filled() {
    let plan =
        Plan { clients: 8, operations: 1500, keys: 3, unknown: 25, watches: 0, ..Plan::default() };
    for seed in 0..10 {
        accepted(seed, plan);
    }
}

#[test]
fn histories_with_repeated_values_are_accepted() {
    for seed in 0..100 {
        accepted(seed, Plan { unique_values: false, unknown: 15, ..Plan::default() });
        accepted(seed, Plan { unique_values: false, unknown: 15, watches: 0, ..Plan::default() });
    }
}

#[test]
fn a_history_read_from_a_file_is_accepted() {
    let history = record(1, Plan::default());
    let mut file = Vec::new();
    history.write(&mut file).unwrap();
    let again = History::read(file.as_slice()).unwrap();
    assert_eq!(again, history);
    assert!(check(&again, &Options::default()).is_ok());
}

/// Counts steps, because time on a shared machine says little.
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

/// Twelve holes in a row and twice as many unknown writes. The versions at the end tell how often
/// each key was put; the order of the puts does not matter.
#[test]
fn version_bounds_fill_a_row_of_holes_in_few_steps() {
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
