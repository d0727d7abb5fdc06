//! Each guarantee for watches, broken in the smallest history that shows it.

use history::record::{Body, Event, Kv, Request, Span, Txn, WatchBody, WatchRequest};
use history::{History, Options, Rule};

use crate::common::*;

/// The operations of every history in this file:
///
/// ```text
/// 2: put a="1"    3: put a="2", put b="2"    4: delete a    5: put b="3"
/// ```
fn operations() -> History {
    let txn =
        Txn { compares: vec![], then: vec![put_op("a", "2"), put_op("b", "2")], otherwise: vec![] };
    let done = Body::Txn { succeeded: true, results: vec![PUT, PUT] };
    history(vec![
        answered(1, 1, 2, put("a", "1"), 2, PUT),
        answered(1, 3, 4, Request::Txn(txn), 3, done),
        answered(1, 5, 6, delete("a"), 4, Body::Delete { deleted: 1, prevs: vec![] }),
        answered(1, 7, 8, put("b", "3"), 5, PUT),
    ])
}

fn a1() -> Kv {
    kv("a", "1", 2, 2, 1)
}

fn a2() -> Kv {
    kv("a", "2", 2, 3, 2)
}

fn b2() -> Kv {
    kv("b", "2", 3, 3, 1)
}

fn b3() -> Kv {
    kv("b", "3", 3, 5, 2)
}

fn put_a1() -> Event {
    Event::put(a1())
}

fn txn_events() -> [Event; 2] {
    [Event::put(a2()), Event::put(b2())]
}

fn delete_a() -> Event {
    Event::delete("a", 4)
}

fn put_b3() -> Event {
    Event::put(b3())
}

fn created() -> (u64, i64, WatchBody) {
    (1, 1, WatchBody::Created)
}

const NOT_COMPACTED: WatchBody = WatchBody::Canceled { compact_revision: 0 };

fn all_from(start: i64) -> WatchRequest {
    WatchRequest::from(Span::all(), start)
}

/// Returns the history with one watch that received these responses.
fn watched(request: WatchRequest, responses: Vec<(u64, i64, WatchBody)>) -> History {
    let mut history = operations();
    history.watches.push(watch(9, request, responses));
    history
}

/// All events, one response per revision.
fn all() -> Vec<(u64, i64, WatchBody)> {
    vec![
        created(),
        (11, 2, events(&[put_a1()])),
        (12, 3, events(&txn_events())),
        (13, 4, events(&[delete_a()])),
        (14, 5, events(&[put_b3()])),
    ]
}

#[test]
fn complete_watches_are_accepted() {
    accept(&watched(all_from(1), all()));
    accept(&watched(all_from(0), all()));
    // From the middle, up to the middle, in other portions, with progress in between.
    accept(&watched(all_from(3), [&all()[..1], &all()[2..]].concat()));
    accept(&watched(all_from(1), all()[..3].to_vec()));
    let portions = vec![
        created(),
        (11, 5, events(&[&[put_a1()][..], &txn_events()[..], &[delete_a()]].concat())),
        (12, 5, events(&[put_b3()])),
        (13, 5, WatchBody::Progress),
    ];
    accept(&watched(all_from(1), portions));
    let progress = [&all()[..2], &[(11, 2, WatchBody::Progress)], &all()[2..]].concat();
    accept(&watched(all_from(1), progress));
}

#[test]
fn events_out_of_order_are_rejected() {
    let mut responses = all();
    responses.swap(1, 2);
    reject(&watched(all_from(1), responses), Rule::Ordered);
    let [one, two] = txn_events();
    let swapped = vec![created(), all()[1].clone(), (12, 3, events(&[two, one]))];
    reject(&watched(all_from(1), swapped), Rule::Ordered);
}

#[test]
fn a_repeated_event_is_rejected() {
    let mut responses = all();
    responses.insert(3, (13, 3, events(&txn_events())));
    reject(&watched(all_from(1), responses), Rule::Unique);
}

#[test]
fn a_revision_split_over_two_responses_is_rejected() {
    let [one, two] = txn_events();
    let split = vec![
        created(),
        all()[1].clone(),
        (12, 3, events(std::slice::from_ref(&one))),
        (13, 3, events(&[two])),
    ];
    reject(&watched(all_from(1), split), Rule::Atomic);
    let half = vec![created(), all()[1].clone(), (12, 3, events(&[one])), all()[3].clone()];
    reject(&watched(all_from(1), half), Rule::Atomic);
}

#[test]
fn a_missing_event_is_rejected() {
    let mut responses = all();
    responses.remove(3);
    let text = reject(&watched(all_from(1), responses), Rule::Reliable);
    assert_eq!(
        text,
        "client 9: watch everything from 1: revision 4 changed [delete a]; delivered []"
    );
}

#[test]
fn a_missing_first_event_is_rejected() {
    let mut responses = all();
    responses.remove(1);
    reject(&watched(all_from(2), responses), Rule::Resumable);
}

#[test]
fn events_overtaken_by_a_progress_notification_are_rejected() {
    // Progress 4 was notified, but the event at 4 arrives later, or never.
    let late = [&all()[..3], &[(13, 4, WatchBody::Progress)], &all()[3..]].concat();
    reject(&watched(all_from(1), late), Rule::Bookmarkable);
    let never = [&all()[..3], &[(13, 4, WatchBody::Progress)]].concat();
    reject(&watched(all_from(1), never), Rule::Bookmarkable);
    // Progress goes backwards.
    let back = [&all()[..4], &[(13, 3, WatchBody::Progress)]].concat();
    reject(&watched(all_from(1), back), Rule::Bookmarkable);
}

#[test]
fn unrequested_events_are_rejected() {
    let only_b = WatchRequest::from(Span::one("b"), 1);
    let events_of_b = vec![created(), (12, 3, events(&[Event::put(b2())])), all()[4].clone()];
    accept(&watched(only_b.clone(), events_of_b));
    reject(&watched(only_b, all()), Rule::Filter);
    let no_puts = WatchRequest { no_put: true, ..all_from(1) };
    accept(&watched(no_puts.clone(), vec![created(), all()[3].clone()]));
    reject(&watched(no_puts, all()), Rule::Filter);
    let no_deletes = WatchRequest { no_delete: true, ..all_from(1) };
    accept(&watched(no_deletes, [&all()[..3], &all()[4..]].concat()));
    reject(&watched(all_from(3), all()), Rule::Filter);
}

#[test]
fn wrong_previous_values_are_rejected() {
    let request = WatchRequest { prev_kv: true, ..WatchRequest::from(Span::one("a"), 4) };
    let with_prev = |prev| {
        let event = Event { prev, ..delete_a() };
        watched(request.clone(), vec![created(), (13, 4, events(&[event]))])
    };
    accept(&with_prev(Some(a2())));
    reject(&with_prev(Some(a1())), Rule::PrevKv);
    reject(&with_prev(None), Rule::PrevKv);
    // The previous value may be missing if it may be compacted,
    let mut compacted = with_prev(None);
    compacted.operations.push(unknown(2, 9, Request::Compact { revision: 4 }));
    accept(&compacted);
    // but not before a client requested that compaction.
    let mut later = with_prev(None);
    later.operations.push(unknown(2, 14, Request::Compact { revision: 4 }));
    reject(&later, Rule::PrevKv);
    // An unrequested previous value is wrong.
    let event = Event { prev: Some(a2()), ..delete_a() };
    let unasked = vec![created(), (13, 4, events(&[event]))];
    reject(&watched(WatchRequest::from(Span::one("a"), 4), unasked), Rule::PrevKv);
}

#[test]
fn events_that_differ_from_the_change_are_rejected() {
    let invented = vec![created(), (11, 2, events(&[Event::put(kv("a", "7", 2, 2, 1))]))];
    reject(&watched(all_from(1), invented), Rule::WrongEvent);
    let put_for_delete = vec![(13, 4, events(&[Event::put(kv("a", "9", 2, 4, 3))]))];
    reject(&watched(all_from(4), [vec![created()], put_for_delete].concat()), Rule::WrongEvent);
    let old_header = vec![created(), (11, 1, events(&[put_a1()]))];
    reject(&watched(all_from(1), old_header), Rule::WrongEvent);
}

#[test]
fn an_event_of_a_later_write_is_rejected() {
    let early = vec![created(), (2, 2, events(&[put_a1()])), (2, 3, WatchBody::Progress)];
    reject(&watched(all_from(1), early), Rule::SeenBeforeWritten);
}

#[test]
fn a_read_older_than_an_event_is_rejected() {
    let mut history = watched(all_from(1), all());
    history.operations.push(answered(2, 20, 21, read("b"), 3, found(&[b2()])));
    let text = reject(&history, Rule::StaleRead);
    assert!(
        text.contains("client 9 (14 ms): watch everything from 1, received revision 5"),
        "{text}"
    );
}

#[test]
fn a_needless_cancellation_for_compaction_is_rejected() {
    let canceled = |at, compact_revision| (at, 0, WatchBody::Canceled { compact_revision });
    let compact = |from, revision| {
        answered(2, from, from + 1, Request::Compact { revision }, 5, Body::Compact)
    };
    let after = |responses: Vec<_>, compaction| {
        let mut history = watched(all_from(2), [vec![created()], responses].concat());
        history.operations.push(compaction);
        history
    };
    accept(&after(vec![canceled(30, 4)], compact(20, 4)));
    accept(&after(vec![all()[1].clone(), canceled(30, 4)], compact(20, 4)));
    // It had everything before 4; a response follows the cancellation; no client requested the
    // compaction.
    let had_all = vec![all()[1].clone(), all()[2].clone(), canceled(30, 4)];
    reject(&after(had_all, compact(20, 4)), Rule::Canceled);
    reject(&after(vec![canceled(30, 4), all()[1].clone()], compact(20, 4)), Rule::Canceled);
    reject(&after(vec![canceled(30, 4)], compact(40, 4)), Rule::Canceled);
}

/// Without permissions, only a compaction cancels a watch.
#[test]
fn a_cancellation_without_compaction_needs_permissions() {
    let history = watched(all_from(1), vec![created(), (11, 0, NOT_COMPACTED)]);
    reject(&history, Rule::Canceled);
    let options = Options { has_permissions: true, ..Options::default() };
    history::check(&history, &options).unwrap();
}

/// Only a watch shows the write at a hole, and other observations must agree with it.
#[test]
fn a_watch_determines_the_write_of_a_hole() {
    let mut history = operations();
    history.operations[3] = unknown(1, 7, put("b", "3"));
    history.operations.push(unknown(2, 7, put("c", "4")));
    history.watches.push(watch(9, all_from(1), all()));
    let log = accept(&history);
    assert_eq!(log.writer(5), Some(history::RevisionWriter::Operation(3)));
    // A second watch that delivers the other write cannot be correct as well.
    let other = [&all()[..4], &[(14, 5, events(&[Event::put(kv("c", "4", 5, 5, 1))]))]].concat();
    history.watches.push(watch(8, all_from(1), other));
    reject(&history, Rule::WrongEvent);
}
