//! An error planted in a long history with many unknown outcomes is found, and found without trying everything.

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
    own_values: true,
    serializable: true,
};

/// Plants an error somewhere in the second half; false if there is no place for it.
type Plant = fn(&mut History, &mut Random) -> bool;

/// The rules that are broken first in `seeds` histories with this error.
fn found(plan: Plan, plant: Plant) -> Vec<Rule> {
    let mut rules = Vec::new();
    for seed in 0..10 {
        let mut history = record(seed, plan);
        if plant(&mut history, &mut Random(seed)) {
            let verdict = check(&history, &Options::default()).map(|log| log.revision());
            let violations =
                verdict.expect_err(&format!("seed {seed}: a wrong history was accepted"));
            rules.push(violations[0].rule);
        }
    }
    assert!(rules.len() > 5, "too few histories had a place for it");
    assert!(!rules.contains(&Rule::Undecided), "{rules:?}");
    rules
}

/// The operations of the second half, from a place that depends on the seed.
fn places(history: &History, random: &mut Random) -> Vec<usize> {
    let count = history.operations.len();
    let first = count / 2 + usize::try_from(random.below(count as u64 / 4)).expect("it is small");
    (first..count).collect()
}

/// Makes a read that was answered with one key and its current value tell another value.
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

/// Makes a linearizable read come later than it did, so that it is stale.
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

/// Makes an acknowledged put one that was refused.
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

/// Takes an event out of a response that has several.
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
fn a_wrong_value() {
    let rules = found(PLAN, wrong_value);
    let expected = [Rule::WrongAnswer, Rule::UnexplainedRevision];
    assert!(rules.iter().all(|rule| expected.contains(rule)), "{rules:?}");
    found(Plan { watches: 0, ..PLAN }, wrong_value);
}

#[test]
fn a_stale_read() {
    let rules = found(PLAN, stale_read);
    assert!(rules.iter().all(|rule| *rule == Rule::StaleRead), "{rules:?}");
}

#[test]
fn something_refused_that_was_done() {
    // Only where nothing of unknown outcome, and no lease, could explain it.
    found(Plan { unknown: 0, leases: false, ..PLAN }, refused_but_done);
}

#[test]
fn an_event_left_out() {
    let rules = found(Plan { watches: 8, ..PLAN }, missing_event);
    // Where the event tells of a write that nobody else knows of, it is the next one that looks wrong.
    let expected = [Rule::Reliable, Rule::Atomic, Rule::WrongEvent];
    assert!(rules.iter().all(|rule| expected.contains(rule)), "{rules:?}");
}
