//! Watchers that start at an earlier revision.

use std::ops::ControlFlow;

use backend::ReadError;
use backend::schema::Bucket;
use bytes::Bytes;
use mvcc::Event;
use mvcc::watch::{CreateRequest, History, HistoryError, HubTurn, Limits};

use crate::model::{
    Fixture, InterceptedHistory, ReadStep, delete, everything, from, key, put, range,
};

#[test]
fn a_watcher_reads_history_and_continues_with_live_events() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    fixture.write(&[put("b", "1"), put("a", "2")]);
    fixture.delete("a");
    let mut client = fixture.client();
    client.watch(&from(3, key("a")));
    assert_eq!(fixture.hub.slow_watchers(), 1);
    assert!(fixture.wakes() > 0);
    fixture.settle();
    assert_eq!(fixture.hub.slow_watchers(), 0);
    fixture.put("a", "3");
    assert_eq!(client.read(), ["0 @4: a=2@3 a-@4", "0 @5: a=3@5"]);
}

#[test]
fn a_watcher_with_nothing_to_read_is_synced_silently() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    let mut client = fixture.client();
    client.watch(&from(2, key("b")));
    assert_eq!(fixture.turn(), HubTurn::Idle);
    assert_eq!(fixture.hub.slow_watchers(), 0);
    assert_eq!(client.read(), [""; 0]);
}

#[test]
fn an_idle_turn_does_not_read_history() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&everything());
    client.watch(&from(100, everything()));
    let untouched = InterceptedHistory(&fixture.log, |step| assert_eq!(step, ReadStep::Compacted));
    assert_eq!(fixture.hub.turn(&untouched), Ok(HubTurn::Idle));
}

#[test]
fn transactions_published_during_a_walk_are_delivered_with_it() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    let mut client = fixture.client();
    client.watch(&from(2, key("a")));
    client.watch(&from(3, key("a")));
    let busy = InterceptedHistory(&fixture.log, |step| {
        if step == ReadStep::End {
            fixture.put("a", "2");
            fixture.put("b", "3");
        }
    });
    assert_eq!(fixture.hub.turn(&busy), Ok(HubTurn::Idle));
    assert_eq!(client.read(), ["1 @3: a=2@3", "0 @4: a=1@2 a=2@3"]);
    assert_eq!(fixture.hub.slow_watchers(), 0);
}

#[test]
fn transactions_beyond_the_tail_are_read_from_history() {
    let fixture = Fixture::bounded(|limits| limits.tail_events = 2);
    fixture.put("a", "1");
    let mut client = fixture.client();
    client.watch(&from(2, key("a")));
    let busy = InterceptedHistory(&fixture.log, |step| {
        if step == ReadStep::End {
            for value in ["2", "3", "4"] {
                fixture.put("a", value);
            }
        }
    });
    assert_eq!(fixture.hub.turn(&busy), Ok(HubTurn::Again));
    assert_eq!(client.read(), ["0 @5: a=1@2 a=2@3 a=3@4"]);
    assert_eq!(fixture.turn(), HubTurn::Idle);
    assert_eq!(client.read(), ["0 @5: a=4@5"]);
}

#[test]
fn a_watcher_can_be_canceled_while_it_is_synced() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    let mut client = fixture.client();
    client.watch(&from(2, key("a")));
    let stream = &client.stream;
    let canceling = InterceptedHistory(&fixture.log, |step| {
        if step == ReadStep::End {
            stream.cancel(0).unwrap();
            // Another watcher takes its slot, and must not get its events.
            assert_eq!(stream.create(&key("a")), Ok(Some(1)));
        }
    });
    assert_eq!(fixture.hub.turn(&canceling), Ok(HubTurn::Idle));
    assert_eq!(client.read(), ["0 @2: canceled", "1 @2: created"]);
    assert_eq!((fixture.hub.watchers(), fixture.hub.slow_watchers()), (1, 0));
}

#[test]
fn a_catch_up_response_has_a_bounded_number_of_revisions() {
    let fixture = Fixture::new();
    for count in 0..2500 {
        fixture.put("a", &count.to_string());
    }
    let mut client = fixture.client();
    client.watch(&from(1, key("a")));
    fixture.settle();
    let responses: Vec<_> = std::iter::from_fn(|| client.next()).collect();
    let sizes: Vec<_> = responses.iter().map(|r| (r.events.len(), r.revision)).collect();
    // Compat: as in etcd, the header has the current revision even if more events follow.
    assert_eq!(sizes, [(1000, 2501), (1000, 2501), (500, 2501)]);
    let revisions = responses.iter().flat_map(|r| &r.events).map(|e| e.event.revision.main);
    assert!(revisions.eq(2..=2501));
}

#[test]
fn a_catch_up_response_ends_with_the_revision_that_reaches_its_byte_limit() {
    let fixture = Fixture::bounded(|limits| limits.catch_up_bytes = 1000);
    let large = "x".repeat(600);
    for _ in 0..3 {
        fixture.write(&[put("a", &large), put("b", &large), put("c", "")]);
    }
    let mut client = fixture.client();
    client.watch(&from(1, everything()));
    fixture.settle();
    let responses: Vec<_> = std::iter::from_fn(|| client.next()).collect();
    assert_eq!(responses.len(), 3);
    assert!(responses.iter().all(|r| r.events.len() == 3), "a revision is never split");
}

#[test]
fn a_turn_reads_a_bounded_number_of_changes() {
    let fixture = Fixture::bounded(|limits| {
        limits.turn_changes = 10;
        limits.catch_up_revisions = 10;
    });
    for count in 0..95 {
        fixture.put(if count % 50 == 0 { "a" } else { "b" }, &count.to_string());
    }
    let mut client = fixture.client();
    client.watch(&from(2, key("a")));
    assert_eq!(fixture.turn(), HubTurn::Again);
    assert_eq!(client.read(), ["0 @96: a=0@2"]);
    assert_eq!(fixture.settle(), 9);
    assert_eq!(client.read(), ["0 @96: a=50@52"]);
}

#[test]
fn one_walk_syncs_many_watchers() {
    let fixture = Fixture::new();
    for count in 0..100 {
        fixture.put(&format!("k{count:02}"), "1");
    }
    let mut clients: Vec<_> = (0..50).map(|_| fixture.client()).collect();
    for (count, client) in clients.iter_mut().enumerate() {
        client.watch(&from(count.try_into().unwrap(), range("k", "l")));
        client.watch(&from(2, key(&format!("k{count:02}"))));
    }
    assert_eq!(fixture.turn(), HubTurn::Idle);
    for (count, client) in clients.iter_mut().enumerate() {
        let events: Vec<_> = std::iter::from_fn(|| client.next()).map(|r| r.events.len()).collect();
        // Revision 0 starts now; 1 and 2 start at the first change.
        let expected = if count == 0 { vec![1] } else { vec![102 - count.max(2), 1] };
        assert_eq!(events, expected);
    }
}

#[test]
fn a_turn_syncs_a_bounded_number_of_watchers() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    let mut clients: Vec<_> = (0..60).map(|_| fixture.client()).collect();
    for client in &mut clients {
        for _ in 0..20 {
            client.watch(&from(2, key("a")));
        }
    }
    let slow: Vec<_> = (0..3)
        .map(|_| {
            fixture.turn();
            fixture.hub.slow_watchers()
        })
        .collect();
    assert_eq!(slow, [1200 - 512, 1200 - 1024, 0]);
    assert!(clients.iter_mut().all(|client| client.read().len() == 20));
}

#[test]
fn watchers_far_behind_do_not_delay_others() {
    let limits = Limits { turn_changes: 10, catch_up_revisions: 5, ..Limits::default() };
    let fixture = Fixture::bounded(|l| *l = limits);
    for count in 0..1000 {
        fixture.put("a", &count.to_string());
    }
    let (mut far, mut near) = (fixture.client(), fixture.client());
    far.watch(&from(2, key("b")));
    far.watch(&from(300, key("b")));
    near.watch(&from(1000, key("a")));
    for _ in 0..3 {
        fixture.turn();
    }
    assert_eq!(near.read(), ["0 @1001: a=998@1000 a=999@1001"]);
    assert_eq!(fixture.hub.slow_watchers(), 2);
    fixture.settle();
    assert_eq!(fixture.hub.slow_watchers(), 0);
}

#[test]
fn the_first_unsynced_watcher_is_served_despite_later_ones_with_lower_revisions() {
    let fixture = Fixture::bounded(|limits| {
        limits.turn_changes = 3;
        limits.catch_up_revisions = 3;
    });
    for _ in 0..100 {
        fixture.write(&[put("a", "1"), put("b", "1"), put("c", "1")]);
    }
    let (mut first, mut others) = (fixture.client(), fixture.client());
    first.watch(&from(50, key("a")));
    // A walk covers one of these revisions, and there is always a watcher that needs an earlier
    // one.
    for _ in 0..4 {
        others.watch(&from(48, key("x")));
        fixture.turn();
    }
    assert_eq!(first.next().map(|response| response.events[0].event.revision.main), Some(50));
}

#[test]
fn a_compacted_start_revision_cancels_the_watcher() {
    let fixture = Fixture::new();
    for value in ["1", "2", "3", "4"] {
        fixture.put("a", value);
    }
    fixture.log.compact(4);
    let mut client = fixture.client();
    client.watch(&from(3, key("a")));
    client.watch(&from(4, key("a")));
    fixture.settle();
    assert_eq!(client.read(), ["0 @0: canceled compacted 4", "1 @5: a=3@4 a=4@5"]);
    assert_eq!(fixture.hub.watchers(), 1);
    // The client may still cancel it, once, and the id is in use until then.
    assert_eq!(client.stream.request_progress(), Ok(true));
    client.stream.cancel(0).unwrap();
    client.stream.cancel(0).unwrap();
    assert_eq!(client.read(), ["-1 @5:", "0 @5: canceled"]);
}

#[test]
fn a_bounded_number_of_canceled_ids_is_remembered() {
    let fixture = Fixture::bounded(|limits| limits.canceled_ids = 1);
    fixture.put("a", "1");
    fixture.log.compact(2);
    let mut client = fixture.client();
    for _ in 0..2 {
        client.watch(&from(1, key("a")));
    }
    fixture.settle();
    assert_eq!(client.read().len(), 2);
    (0..2).for_each(|id| client.stream.cancel(id).unwrap());
    assert_eq!(client.read(), ["0 @2: canceled"]);
}

#[test]
fn compaction_does_not_cancel_synced_watchers() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&key("a"));
    client.watch(&from(2, key("a")));
    for _ in 0..10 {
        fixture.put("b", "1");
    }
    fixture.log.compact(10);
    fixture.settle();
    fixture.put("a", "1");
    assert_eq!(client.read(), ["0 @12: a=1@12", "1 @12: a=1@12"]);
}

#[test]
fn compaction_during_a_walk_cancels_the_watchers_it_overtakes() {
    let fixture = Fixture::new();
    for value in ["1", "2", "3", "4"] {
        fixture.put("a", value);
    }
    let mut client = fixture.client();
    client.watch(&from(2, key("a")));
    client.watch(&from(4, key("a")));
    // The compaction happens between reading the compacted revision and the walk.
    let late = InterceptedHistory(&fixture.log, |step| {
        if step == ReadStep::Compacted {
            fixture.log.compact(3);
        }
    });
    assert_eq!(fixture.hub.turn(&late), Ok(HubTurn::Again));
    assert_eq!(client.read(), ["0 @0: canceled compacted 3"]);
    assert_eq!(fixture.turn(), HubTurn::Idle);
    assert_eq!(client.read(), ["1 @5: a=3@4 a=4@5"]);
}

/// A history that cannot be read.
struct Damaged;

impl History for Damaged {
    fn current(&self) -> i64 {
        i64::MAX
    }

    fn compacted(&self) -> i64 {
        -1
    }

    fn changes(
        &self,
        _: i64,
        _: i64,
        _: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        Err(ReadError::malformed(Bucket::Key, b"k", "torn").into())
    }

    fn value_at(&self, _: &[u8], _: i64) -> Result<Option<Bytes>, HistoryError> {
        Err(ReadError::malformed(Bucket::Key, b"k", "torn").into())
    }
}

#[test]
fn a_read_error_is_returned_and_no_watcher_is_lost() {
    let fixture = Fixture::new();
    fixture.write(&[put("a", "1"), delete("b")]);
    let mut client = fixture.client();
    client.watch(&from(2, everything()));
    let error = fixture.hub.turn(&Damaged).unwrap_err();
    assert_eq!(error.to_string(), "bucket key, key k: torn");
    fixture.settle();
    assert_eq!(client.read(), ["0 @2: a=1@2 b-@2"]);
}

#[test]
fn a_read_error_of_a_previous_value_is_returned() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&CreateRequest { prev_kv: true, ..key("a") });
    fixture.put("a", "1");
    fixture.put("a", "2");
    assert!(client.stream.next(&Damaged).is_ok(), "the key was just created");
    assert!(client.stream.next(&Damaged).is_err());
}
