//! Each kind of error, planted in the smallest history that shows it, is found and described with
//! its operations.

use history::record::{
    Body, Compare, Final, Hash, Kv, Range, Refusal, Relation, Request, Span, Target, Txn,
};
use history::{History, Options, Rule, check};

use crate::common::*;

/// Client 1 puts `a` twice.
fn two_puts() -> Vec<history::Operation> {
    vec![answered(1, 1, 2, put("a", "1"), 2, PUT), answered(1, 3, 4, put("a", "2"), 3, PUT)]
}

fn with(mut operations: Vec<history::Operation>, more: Vec<history::Operation>) -> History {
    operations.extend(more);
    history(operations)
}

#[test]
fn a_stale_linearizable_read_is_rejected() {
    let old = found(&[kv("a", "1", 2, 2, 1)]);
    let text = reject(
        &with(two_puts(), vec![answered(2, 5, 6, read("a"), 2, old.clone())]),
        Rule::StaleRead,
    );
    assert_eq!(
        text,
        "client 2 (5..6 ms): read a -> revision 2: 1 found: [a=\"1\" (mod 2, created 2, version 1)]; \
         yet, before it began, client 1 (3..4 ms): put a=\"2\" -> revision 3: put"
    );
    // Correct if the read overlaps the second put, or is serializable.
    accept(&with(two_puts(), vec![answered(2, 3, 6, read("a"), 2, old.clone())]));
    let serializable = Range { serializable: true, ..Range::now(Span::one("a")) };
    accept(&with(two_puts(), vec![answered(2, 5, 6, Request::Range(serializable), 2, old)]));
}

#[test]
fn a_read_that_misses_an_acknowledged_write_is_rejected() {
    let only_the_first = found(&[kv("a", "1", 2, 2, 1)]);
    let text = reject(
        &with(two_puts(), vec![answered(2, 5, 6, read("a"), 3, only_the_first)]),
        Rule::WrongAnswer,
    );
    assert!(text.contains("expected: 1 found: [a=\"2\" (mod 3, created 2, version 2)]"), "{text}");
}

#[test]
fn two_writes_at_one_revision_are_rejected() {
    let text = reject(
        &with(two_puts(), vec![answered(2, 3, 4, put("b", "3"), 3, PUT)]),
        Rule::UniqueRevision,
    );
    assert!(text.starts_with("revision 3: client 1 (3..4 ms): put a=\"2\""), "{text}");
}

#[test]
fn a_later_write_with_a_lower_revision_is_rejected() {
    let operations =
        vec![answered(1, 1, 2, put("a", "1"), 3, PUT), answered(2, 3, 4, put("b", "2"), 2, PUT)];
    reject(&history(operations), Rule::RevisionOrder);
}

#[test]
fn a_read_of_a_later_write_is_rejected() {
    let operations = vec![
        answered(2, 1, 2, read("a"), 2, found(&[kv("a", "1", 2, 2, 1)])),
        answered(1, 3, 4, put("a", "1"), 2, PUT),
    ];
    reject(&history(operations), Rule::SeenBeforeWritten);
}

#[test]
fn a_read_of_a_refused_write_is_rejected() {
    let operations = vec![
        refused(1, 1, 2, put("a", "1"), Refusal::Other("too many requests".into())),
        answered(2, 3, 4, read("a"), 2, found(&[kv("a", "1", 2, 2, 1)])),
    ];
    let text = reject(&history(operations), Rule::UnexplainedRevision);
    assert!(text.contains("and put a=\"1\" (mod 2, created 2, version 1)"), "{text}");
}

#[test]
fn a_historical_read_of_a_changed_value_is_rejected() {
    let at_2 = Request::Range(Range { revision: 2, ..Range::now(Span::one("a")) });
    let right = found(&[kv("a", "1", 2, 2, 1)]);
    accept(&with(two_puts(), vec![answered(2, 5, 6, at_2.clone(), 3, right)]));
    let wrong = found(&[kv("a", "2", 2, 2, 1)]);
    reject(&with(two_puts(), vec![answered(2, 5, 6, at_2, 3, wrong)]), Rule::WrongAnswer);
}

#[test]
fn a_read_of_half_a_transaction_is_rejected() {
    let txn =
        Txn { compares: vec![], then: vec![put_op("a", "1"), put_op("b", "1")], otherwise: vec![] };
    let done = Body::Txn { succeeded: true, results: vec![PUT, PUT] };
    let both = [kv("a", "1", 2, 2, 1), kv("b", "1", 2, 2, 1)];
    let operations = |seen: &[Kv]| {
        history(vec![
            answered(1, 1, 5, Request::Txn(txn.clone()), 2, done.clone()),
            answered(2, 2, 4, read_all(), 2, found(seen)),
        ])
    };
    accept(&operations(&both));
    reject(&operations(&both[..1]), Rule::WrongAnswer);
}

#[test]
fn a_transaction_with_a_wrong_compare_result_is_rejected() {
    let compare = Compare { span: Span::one("a"), is: Relation::Equal, to: Target::Mod(2) };
    let txn = Txn { compares: vec![compare], then: vec![put_op("a", "9")], otherwise: vec![] };
    let done = |succeeded, results| Body::Txn { succeeded, results };
    let ok = answered(2, 5, 6, Request::Txn(txn.clone()), 3, done(false, vec![]));
    accept(&with(two_puts(), vec![ok]));
    let wrong = answered(2, 5, 6, Request::Txn(txn), 4, done(true, vec![PUT]));
    reject(&with(two_puts(), vec![wrong]), Rule::WrongAnswer);
}

#[test]
fn an_unknown_write_may_happen_or_not_but_not_be_undone() {
    let lost = unknown(2, 5, put("a", "3"));
    let before = found(&[kv("a", "2", 2, 3, 2)]);
    let after = found(&[kv("a", "3", 2, 4, 3)]);
    let read_at = |from, revision, body: &Body| {
        answered(3, from, from + 1, read("a"), revision, body.clone())
    };
    // The write was never executed, was executed, was executed long after its client gave up.
    accept(&with(two_puts(), vec![lost.clone(), read_at(7, 3, &before)]));
    accept(&with(two_puts(), vec![lost.clone(), read_at(7, 4, &after)]));
    accept(&with(two_puts(), vec![lost.clone(), read_at(7, 3, &before), read_at(90, 4, &after)]));
    // But it does not come and go, and does not precede its request.
    reject(
        &with(two_puts(), vec![lost.clone(), read_at(7, 4, &after), read_at(90, 3, &before)]),
        Rule::StaleRead,
    );
    let early = answered(3, 3, 4, read("a"), 4, after);
    let text = reject(&with(two_puts(), vec![lost, early]), Rule::UnexplainedRevision);
    assert!(text.ends_with("and no unknown write could have made it"), "{text}");
}

#[test]
fn an_unknown_write_that_happens_twice_is_rejected() {
    let lost = unknown(2, 1, put("b", "x"));
    let twice = found(&[kv("b", "x", 2, 3, 2)]);
    let text = reject(
        &history(vec![lost, answered(3, 5, 6, read("b"), 3, twice)]),
        Rule::UnexplainedRevision,
    );
    assert!(text.starts_with("revision 2 exists"), "{text}");
}

/// Lease 7 has a TTL of 2 s, `a` is attached to it, and a read at `gone_ms` no longer finds `a`.
fn leased(gone_ms: u64, more: Vec<history::Operation>) -> History {
    let granted = Body::Grant { lease: 7, ttl_s: 2 };
    let operations = vec![
        answered(1, 10, 20, Request::Grant { lease: 7, ttl_s: 2 }, 1, granted),
        answered(1, 30, 40, put_on("a", "1", 7), 2, PUT),
        answered(2, gone_ms - 1, gone_ms, read("a"), 3, found(&[])),
    ];
    with(operations, more)
}

#[test]
fn a_lease_that_expires_early_is_rejected() {
    accept(&leased(2011, vec![]));
    let text = reject(&leased(1900, vec![]), Rule::ExpiredEarly);
    assert!(text.contains("by 1900 ms the keys of lease 7 were deleted, at revision 3"), "{text}");
    assert!(text.contains("until 2010 ms at least"), "{text}");
    // A lead of the member's clock is tolerated up to the slack.
    let options = Options { lease_slack_ns: 200 * MS, ..Options::default() };
    assert!(check(&leased(1900, vec![]), &options).is_ok());
}

#[test]
fn an_expiry_that_ignores_a_keep_alive_is_rejected() {
    let renewed = Body::KeepAlive { ttl_s: 2 };
    let renew = answered(1, 1500, 1510, Request::KeepAlive { lease: 7 }, 2, renewed);
    reject(&leased(3000, vec![renew.clone()]), Rule::ExpiredEarly);
    accept(&leased(3501, vec![renew]));
}

#[test]
fn a_missing_lease_that_must_be_alive_is_rejected() {
    let mut history = leased(5000, vec![]);
    history.operations.truncate(2);
    let gone = Body::KeepAlive { ttl_s: 0 };
    history.operations.push(answered(1, 1000, 1010, Request::KeepAlive { lease: 7 }, 2, gone));
    reject(&history, Rule::ExpiredEarly);
    history.operations.push(unknown(3, 900, Request::Revoke { lease: 7 }));
    accept(&history);
}

#[test]
fn a_revocation_that_leaves_keys_is_rejected() {
    let mut history = leased(5000, vec![]);
    history.operations.truncate(2);
    history.operations.push(answered(1, 50, 60, Request::Revoke { lease: 7 }, 2, Body::Revoke));
    let text = reject(&history, Rule::Lease);
    assert!(
        text.contains("yet it still has a=\"1\" (mod 2, created 2, version 1, lease 7)"),
        "{text}"
    );
}

#[test]
fn a_put_on_a_missing_lease_is_rejected() {
    let mut after_its_end = leased(5000, vec![]);
    after_its_end.operations.truncate(2);
    let revoke = answered(1, 50, 60, Request::Revoke { lease: 7 }, 3, Body::Revoke);
    let put = answered(1, 70, 80, put_on("b", "1", 7), 4, PUT);
    after_its_end.operations.extend([revoke, put]);
    let text = reject(&after_its_end, Rule::Lease);
    assert!(
        text.contains("lease 7 had ended by then: client 1 (50..60 ms): revoke lease 7"),
        "{text}"
    );
    reject(&history(vec![answered(1, 1, 2, put_on("b", "1", 9), 2, PUT)]), Rule::Lease);
}

#[test]
fn reads_that_contradict_compactions_are_rejected() {
    let compact = |from, revision| {
        answered(2, from, from + 1, Request::Compact { revision }, 3, Body::Compact)
    };
    let at_2 = || Request::Range(Range { revision: 2, ..Range::now(Span::one("a")) });
    let right = || found(&[kv("a", "1", 2, 2, 1)]);
    let gone = |from| refused(3, from, from + 1, at_2(), Refusal::Compacted);
    accept(&with(two_puts(), vec![compact(5, 3), gone(7)]));
    accept(&with(two_puts(), vec![compact(5, 2), answered(3, 7, 8, at_2(), 3, right())]));
    reject(
        &with(two_puts(), vec![compact(5, 3), answered(3, 7, 8, at_2(), 3, right())]),
        Rule::Compaction,
    );
    reject(&with(two_puts(), vec![compact(5, 2), gone(7)]), Rule::Compaction);
    reject(&with(two_puts(), vec![compact(9, 3), gone(7)]), Rule::Compaction);
    reject(&with(two_puts(), vec![compact(5, 3), compact(7, 2)]), Rule::Compaction);
}

#[test]
fn a_future_revision_refusal_of_an_existing_revision_is_rejected() {
    let at_3 = Request::Range(Range { revision: 3, ..Range::now(Span::one("a")) });
    let refusal = |from, to| refused(2, from, to, at_3.clone(), Refusal::FutureRevision);
    accept(&with(two_puts(), vec![refusal(2, 9)]));
    reject(&with(two_puts(), vec![refusal(5, 9)]), Rule::StaleRead);
}

#[test]
fn a_final_state_without_an_acknowledged_write_is_rejected() {
    let last =
        |member, revision, kvs: &[Kv]| Final { member, at_ns: 9 * MS, revision, kvs: kvs.to_vec() };
    let mut history = history(two_puts());
    history.finals = vec![last(1, 3, &[kv("a", "2", 2, 3, 2)])];
    accept(&history);
    history.finals.push(last(2, 2, &[kv("a", "1", 2, 2, 1)]));
    let text = reject(&history, Rule::Durable);
    assert!(text.starts_with("member 2 ended at revision 2; client 1 (3..4 ms): put"), "{text}");
    history.finals[1] = last(2, 3, &[]);
    reject(&history, Rule::Durable);
}

#[test]
fn different_hashes_of_members_are_rejected() {
    let hash = |member, hash| Hash { member, revision: 3, compact_revision: -1, hash };
    let mut history = history(two_puts());
    history.hashes = vec![hash(1, 5), hash(2, 5)];
    accept(&history);
    history.hashes.push(hash(3, 6));
    reject(&history, Rule::SameHash);
}

#[test]
fn malformed_responses_are_rejected() {
    reject(&history(vec![answered(1, 1, 2, put("a", "1"), 1, PUT)]), Rule::WellFormed);
    reject(&history(vec![answered(1, 1, 2, put("a", "1"), 2, Body::Compact)]), Rule::WellFormed);
    reject(&history(vec![answered(1, 3, 2, put("a", "1"), 2, PUT)]), Rule::WellFormed);
    reject(&history(vec![answered(1, 1, 2, put("a", "1"), i64::MAX / 4, PUT)]), Rule::WellFormed);
}
