//! Compares the checker with an exhaustive search over all orders, on small correct and damaged
//! histories.

use history::record::{Body, Kv, Response};
use history::{History, Options, Outcome, check};

use crate::common::exhaustive::explains;
use crate::common::generator::{Plan, record};
use crate::common::{MS, Random};

/// Small enough to try every order, with more unknown outcomes than real histories have.
fn plan(seed: u64) -> Plan {
    Plan {
        clients: 3,
        operations: 8,
        keys: 2,
        unknown: 20 + 20 * (seed % 3),
        watches: 0,
        leases: false,
        compactions: false,
        unique_values: seed.is_multiple_of(2),
        serializable: false,
    }
}

/// Records a small history of operations only, which is all the exhaustive search supports.
fn small(seed: u64) -> History {
    History { operations: record(seed, plan(seed)).operations, ..History::default() }
}

/// Changes one response or its time.
fn damage(history: &mut History, random: &mut Random) {
    let i = usize::try_from(random.below(history.operations.len() as u64)).expect("small");
    let operation = &mut history.operations[i];
    let shift = 40 * MS;
    match (&mut operation.outcome, random.below(8)) {
        (Outcome::Answered { at_ns, .. }, 0) => {
            *at_ns += shift;
            operation.invoked_ns += shift;
        }
        (Outcome::Answered { at_ns, .. }, 1) => {
            let back = shift.min(operation.invoked_ns);
            *at_ns -= back;
            operation.invoked_ns -= back;
        }
        (Outcome::Answered { response, .. }, 2) => response.revision += 1,
        (Outcome::Answered { response, .. }, 3) => response.revision -= 1,
        (Outcome::Answered { response, .. }, 4 | 5) => damage_body(response, random),
        (outcome @ Outcome::Answered { .. }, _) => {
            *outcome = Outcome::Unknown { error: "damaged".into() };
        }
        (Outcome::Unknown { .. }, _) => {
            let response = Response {
                revision: 2 + i64::try_from(random.below(4)).expect("small"),
                body: Body::Put { prev: None },
            };
            if matches!(operation.request, history::record::Request::Put(_)) {
                operation.outcome =
                    Outcome::Answered { at_ns: operation.invoked_ns + shift, response };
            }
        }
        (Outcome::Refused { .. }, _) => {}
    }
}

fn damage_body(response: &mut Response, random: &mut Random) {
    let bend = |kv: &mut Kv, random: &mut Random| match random.below(4) {
        0 => kv.version += 1,
        1 => kv.modified -= 1,
        2 => kv.create += 1,
        _ => kv.value = random.below(4).to_string(),
    };
    match &mut response.body {
        Body::Put { prev: Some(kv) } => bend(kv, random),
        Body::Delete { deleted, prevs } if prevs.is_empty() => *deleted = 1 - (*deleted).min(1),
        Body::Delete { prevs: kvs, .. } | Body::Range { kvs, .. } if !kvs.is_empty() => {
            bend(&mut kvs[0], random);
        }
        Body::Range { count, .. } => *count += 1,
        Body::Txn { succeeded, .. } => *succeeded = !*succeeded,
        _ => response.revision += 1,
    }
}

#[test]
fn the_exhaustive_search_accepts_every_correct_history() {
    for seed in 0..300 {
        let history = small(seed);
        assert!(explains(&history), "seed {seed}: the exhaustive search rejects a correct history");
        assert!(check(&history, &Options::default()).is_ok(), "seed {seed}");
    }
}

#[test]
fn the_checker_agrees_with_the_exhaustive_search_on_damaged_histories() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..3000 {
        let mut history = small(seed);
        let mut random = Random(seed);
        for _ in 0..=random.below(2) {
            damage(&mut history, &mut random);
        }
        let expected = explains(&history);
        let verdict = check(&history, &Options::default());
        assert_eq!(
            verdict.is_ok(),
            expected,
            "seed {seed}: {verdict:#?}\n{:#?}",
            printed(&history)
        );
        *(if expected { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > 300 && wrong > 300, "unbalanced sample: {right} correct, {wrong} wrong");
}

fn printed(history: &History) -> Vec<String> {
    history.operations.iter().map(ToString::to_string).collect()
}
