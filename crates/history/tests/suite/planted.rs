//! Each kind of error, planted by hand in the smallest history that shows it, is found, and is told in words that name who and what.

use history::record::{
    Body, Compare, Final, Hash, Kv, Range, Refusal, Relation, Request, Span, Target, Txn,
};
use history::{History, Options, Rule, check};

use crate::common::*;

/// `a` is put twice, by client 1.
fn two_puts() -> Vec<history::Operation> {
    vec![answered(1, 1, 2, put("a", "1"), 2, PUT), answered(1, 3, 4, put("a", "2"), 3, PUT)]
}

fn with(mut operations: Vec<history::Operation>, more: Vec<history::Operation>) -> History {
    operations.extend(more);
    history(operations)
}

#[test]
fn a_stale_read() {
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
    // While the second put is under way, or serializably, it is fine.
    accept(&with(two_puts(), vec![answered(2, 3, 6, read("a"), 2, old.clone())]));
    let serializable = Range { serializable: true, ..Range::now(Span::one("a")) };
    accept(&with(two_puts(), vec![answered(2, 5, 6, Request::Range(serializable), 2, old)]));
}

#[test]
fn a_lost_write() {
    let only_the_first = found(&[kv("a", "1", 2, 2, 1)]);
    let text = reject(
        &with(two_puts(), vec![answered(2, 5, 6, read("a"), 3, only_the_first)]),
        Rule::WrongAnswer,
    );
    assert!(text.contains("expected: 1 found: [a=\"2\" (mod 3, created 2, version 2)]"), "{text}");
}

#[test]
fn one_revision_for_two_writes() {
    let text = reject(
        &with(two_puts(), vec![answered(2, 3, 4, put("b", "3"), 3, PUT)]),
        Rule::UniqueRevision,
    );
    assert!(text.starts_with("revision 3: client 1 (3..4 ms): put a=\"2\""), "{text}");
}

#[test]
fn a_revision_that_goes_back() {
    let operations =
        vec![answered(1, 1, 2, put("a", "1"), 3, PUT), answered(2, 3, 4, put("b", "2"), 2, PUT)];
    reject(&history(operations), Rule::RevisionOrder);
}

#[test]
fn a_read_of_what_is_written_later() {
    let operations = vec![
        answered(2, 1, 2, read("a"), 2, found(&[kv("a", "1", 2, 2, 1)])),
        answered(1, 3, 4, put("a", "1"), 2, PUT),
    ];
    reject(&history(operations), Rule::SeenBeforeWritten);
}

#[test]
fn a_dirty_read_of_what_was_refused() {
    let operations = vec![
        refused(1, 1, 2, put("a", "1"), Refusal::Other("too many requests".into())),
        answered(2, 3, 4, read("a"), 2, found(&[kv("a", "1", 2, 2, 1)])),
    ];
    let text = reject(&history(operations), Rule::UnexplainedRevision);
    assert!(text.contains("and put a=\"1\" (mod 2, created 2, version 1)"), "{text}");
}

#[test]
fn a_past_that_changes() {
    let at_2 = Request::Range(Range { revision: 2, ..Range::now(Span::one("a")) });
    let right = found(&[kv("a", "1", 2, 2, 1)]);
    accept(&with(two_puts(), vec![answered(2, 5, 6, at_2.clone(), 3, right)]));
    let wrong = found(&[kv("a", "2", 2, 2, 1)]);
    reject(&with(two_puts(), vec![answered(2, 5, 6, at_2, 3, wrong)]), Rule::WrongAnswer);
}

#[test]
fn a_txn_of_which_half_is_seen() {
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
fn a_txn_that_compared_with_another_state() {
    let compare = Compare { span: Span::one("a"), is: Relation::Equal, to: Target::Mod(2) };
    let txn = Txn { compares: vec![compare], then: vec![put_op("a", "9")], otherwise: vec![] };
    let done = |succeeded, results| Body::Txn { succeeded, results };
    let ok = answered(2, 5, 6, Request::Txn(txn.clone()), 3, done(false, vec![]));
    accept(&with(two_puts(), vec![ok]));
    let wrong = answered(2, 5, 6, Request::Txn(txn), 4, done(true, vec![PUT]));
    reject(&with(two_puts(), vec![wrong]), Rule::WrongAnswer);
}

#[test]
fn an_unknown_outcome_both_ways() {
    let lost = unknown(2, 5, put("a", "3"));
    let before = found(&[kv("a", "2", 2, 3, 2)]);
    let after = found(&[kv("a", "3", 2, 4, 3)]);
    let read_at = |from, revision, body: &Body| {
        answered(3, from, from + 1, read("a"), revision, body.clone())
    };
    // It never happened; it happened; it happened long after its client had given up.
    accept(&with(two_puts(), vec![lost.clone(), read_at(7, 3, &before)]));
    accept(&with(two_puts(), vec![lost.clone(), read_at(7, 4, &after)]));
    accept(&with(two_puts(), vec![lost.clone(), read_at(7, 3, &before), read_at(90, 4, &after)]));
    // But it does not come and go, and was not there before it was asked for.
    reject(
        &with(two_puts(), vec![lost.clone(), read_at(7, 4, &after), read_at(90, 3, &before)]),
        Rule::StaleRead,
    );
    let early = answered(3, 3, 4, read("a"), 4, after);
    let text = reject(&with(two_puts(), vec![lost, early]), Rule::UnexplainedRevision);
    assert!(text.ends_with("and no unknown write could have made it"), "{text}");
}

#[test]
fn an_unknown_write_that_happens_twice() {
    let lost = unknown(2, 1, put("b", "x"));
    let twice = found(&[kv("b", "x", 2, 3, 2)]);
    let text = reject(
        &history(vec![lost, answered(3, 5, 6, read("b"), 3, twice)]),
        Rule::UnexplainedRevision,
    );
    assert!(text.starts_with("revision 2 exists"), "{text}");
}

/// Lease 7 of 2 s is granted, `a` hangs on it, and a read finds it gone at `gone_ms`.
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
fn a_lease_that_expires_early() {
    accept(&leased(2011, vec![]));
    let text = reject(&leased(1900, vec![]), Rule::ExpiredEarly);
    assert!(text.contains("by 1900 ms the keys of lease 7 were gone, at revision 3"), "{text}");
    assert!(text.contains("until 2010 ms at least"), "{text}");
    // A clock that runs ahead by as much as that is allowed for.
    let options = Options { lease_slack_ns: 200 * MS, ..Options::default() };
    assert!(check(&leased(1900, vec![]), &options).is_ok());
}

#[test]
fn a_renewal_that_was_lost() {
    let renewed = Body::KeepAlive { ttl_s: 2 };
    let renew = answered(1, 1500, 1510, Request::KeepAlive { lease: 7 }, 2, renewed);
    reject(&leased(3000, vec![renew.clone()]), Rule::ExpiredEarly);
    accept(&leased(3501, vec![renew]));
}

#[test]
fn a_lease_that_is_said_to_be_gone() {
    let mut history = leased(5000, vec![]);
    history.operations.truncate(2);
    let gone = Body::KeepAlive { ttl_s: 0 };
    history.operations.push(answered(1, 1000, 1010, Request::KeepAlive { lease: 7 }, 2, gone));
    reject(&history, Rule::ExpiredEarly);
    history.operations.push(unknown(3, 900, Request::Revoke { lease: 7 }));
    accept(&history);
}

#[test]
fn a_revocation_that_left_keys() {
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
fn a_put_on_a_lease_that_is_not_there() {
    let mut after_its_end = leased(5000, vec![]);
    after_its_end.operations.truncate(2);
    let revoke = answered(1, 50, 60, Request::Revoke { lease: 7 }, 3, Body::Revoke);
    let put = answered(1, 70, 80, put_on("b", "1", 7), 4, PUT);
    after_its_end.operations.extend([revoke, put]);
    let text = reject(&after_its_end, Rule::Lease);
    assert!(
        text.contains("lease 7 was gone by then: client 1 (50..60 ms): revoke lease 7"),
        "{text}"
    );
    reject(&history(vec![answered(1, 1, 2, put_on("b", "1", 9), 2, PUT)]), Rule::Lease);
}

#[test]
fn compaction() {
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
fn a_future_that_was_there_already() {
    let at_3 = Request::Range(Range { revision: 3, ..Range::now(Span::one("a")) });
    let refusal = |from, to| refused(2, from, to, at_3.clone(), Refusal::FutureRevision);
    accept(&with(two_puts(), vec![refusal(2, 9)]));
    reject(&with(two_puts(), vec![refusal(5, 9)]), Rule::StaleRead);
}

#[test]
fn a_member_that_lost_something() {
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
fn members_that_differ() {
    let hash = |member, hash| Hash { member, revision: 3, compact_revision: -1, hash };
    let mut history = history(two_puts());
    history.hashes = vec![hash(1, 5), hash(2, 5)];
    accept(&history);
    history.hashes.push(hash(3, 6));
    reject(&history, Rule::SameHash);
}

#[test]
fn answers_that_are_none() {
    reject(&history(vec![answered(1, 1, 2, put("a", "1"), 1, PUT)]), Rule::WellFormed);
    reject(&history(vec![answered(1, 1, 2, put("a", "1"), 2, Body::Compact)]), Rule::WellFormed);
    reject(&history(vec![answered(1, 3, 2, put("a", "1"), 2, PUT)]), Rule::WellFormed);
    reject(&history(vec![answered(1, 1, 2, put("a", "1"), i64::MAX / 4, PUT)]), Rule::WellFormed);
}
