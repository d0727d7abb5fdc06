//! Planted errors in long histories with many unknown outcomes are found without an exhaustive
//! search.

use history::record::{Body, Request, WatchBody};
use history::{History, Options, Outcome, Rule, check};

use crate::common::generator::{Plan, record};
use crate::common::{MS, Random};

const PLAN: Plan = Plan {
    clients: 10,
    operations: 3000,
    keys: 10,
    unknown: 5,
    watches: 2,
    leases: true,
    compactions: true,
    unique_values: true,
    serializable: true,
};

/// Plants an error in the second half; returns false if no operation is suitable.
type Plant = fn(&mut History, &mut Random) -> bool;

/// Checks ten histories with this planted error and returns the first rule that each violates.
fn found(plan: Plan, plant: Plant) -> Vec<Rule> {
    let mut rules = Vec::new();
    for seed in 0..10 {
        let mut history = record(seed, plan);
        if plant(&mut history, &mut Random(seed)) {
            let verdict = check(&history, &Options::default()).map(|log| log.revision());
            let violations = verdict.expect_err(&format!("seed {seed}: accepted a wrong history"));
            rules.push(violations[0].rule);
        }
    }
    assert!(rules.len() > 5, "too few histories were suitable for the planted error");
    assert!(!rules.contains(&Rule::Undecided), "{rules:?}");
    rules
}

/// Returns the positions of operations in the second half, from a start that depends on the seed.
fn places(history: &History, random: &mut Random) -> Vec<usize> {
    let count = history.operations.len();
    let first = count / 2 + usize::try_from(random.below(count as u64 / 4)).expect("small");
    (first..count).collect()
}

/// Changes the value in a read that found a key.
fn wrong_value(history: &mut History, random: &mut Random) -> bool {
    for i in places(history, random) {
        let operation = &mut history.operations[i];
        if let Outcome::Answered { response, .. } = &mut operation.outcome
            && let Body::Range { kvs, .. } = &mut response.body
            && let Some(kv) = kvs.first_mut()
        {
            kv.value = "planted".into();
            return true;
        }
    }
    false
}

/// Moves a linearizable read to a later time, so that it becomes stale.
fn stale_read(history: &mut History, random: &mut Random) -> bool {
    for i in places(history, random) {
        let operation = &mut history.operations[i];
        if let (Request::Range(range), Outcome::Answered { at_ns, .. }) =
            (&operation.request, &mut operation.outcome)
            && !range.serializable
        {
            *at_ns += 1000 * MS;
            operation.invoked_ns += 1000 * MS;
            return true;
        }
    }
    false
}

/// Turns an acknowledged put into a refused one.
fn refused_but_done(history: &mut History, random: &mut Random) -> bool {
    for i in places(history, random) {
        let operation = &mut history.operations[i];
        if let (Request::Put(_), Outcome::Answered { at_ns, .. }) =
            (&operation.request, &operation.outcome)
        {
            let refusal = history::record::Refusal::Other("planted".into());
            operation.outcome = Outcome::Refused { at_ns: *at_ns, refusal };
            return true;
        }
    }
    false
}

/// Removes an event from a response with several events.
fn missing_event(history: &mut History, _: &mut Random) -> bool {
    for watch in &mut history.watches {
        let count = watch.responses.len();
        for response in &mut watch.responses[count / 2..] {
            if let WatchBody::Events(events) = &mut response.body
                && events.len() > 2
            {
                events.remove(1);
                return true;
            }
        }
    }
    false
}

#[test]
fn a_wrong_value_is_found() {
    let rules = found(PLAN, wrong_value);
    let expected = [Rule::WrongAnswer, Rule::UnexplainedRevision];
    assert!(rules.iter().all(|rule| expected.contains(rule)), "{rules:?}");
    found(Plan { watches: 0, ..PLAN }, wrong_value);
}

#[test]
fn a_stale_read_is_found() {
    let rules = found(PLAN, stale_read);
    assert!(rules.iter().all(|rule| *rule == Rule::StaleRead), "{rules:?}");
}

#[test]
fn a_refused_put_that_was_executed_is_found() {
    // Without unknown outcomes and leases nothing else can explain the revision.
    found(Plan { unknown: 0, leases: false, ..PLAN }, refused_but_done);
}

#[test]
fn a_missing_event_is_found() {
    let rules = found(Plan { watches: 8, ..PLAN }, missing_event);
    // If no other observation shows the write of the removed event, the next event looks wrong.
    let expected = [Rule::Reliable, Rule::Atomic, Rule::WrongEvent];
    assert!(rules.iter().all(|rule| expected.contains(rule)), "{rules:?}");
}
