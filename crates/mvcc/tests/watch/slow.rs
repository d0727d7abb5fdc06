//! Clients that do not read.

use mvcc::watch::{HubTurn, Limits};
use testkit::waiting::step_until;

use crate::model::{Fixture, everything, from, key};

#[test]
fn a_victim_continues_when_there_is_room() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 2);
    let mut client = fixture.client();
    assert_eq!(fixture.wakes(), 1, "a new stream schedules progress notifications");
    client.watch(&key("a"));
    for value in ["1", "2", "3", "4", "5"] {
        fixture.put("a", value);
    }
    assert_eq!((fixture.hub.slow_watchers(), fixture.hub.pending_events()), (1, 2));
    assert_eq!(fixture.turn(), HubTurn::Idle, "nothing can be done while the stream is full");
    assert_eq!(fixture.wakes(), 0);
    // The victim held revision 3; the rest is read from history.
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @3: a=2@3"]);
    assert_eq!(fixture.wakes(), 1);
    fixture.settle();
    assert_eq!(client.read(), ["0 @4: a=3@4", "0 @6: a=4@5 a=5@6"]);
    fixture.put("a", "6");
    assert_eq!(client.read(), ["0 @7: a=6@7"]);
    assert_eq!(fixture.hub.slow_watchers(), 0);
}

#[test]
fn a_victim_without_further_events_is_synced_at_once() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 1);
    let mut client = fixture.client();
    client.watch(&key("a"));
    fixture.put("a", "1");
    fixture.put("a", "2");
    assert_eq!(client.read(), ["0 @2: a=1@2"]);
    assert_eq!(fixture.turn(), HubTurn::Idle);
    assert_eq!(fixture.hub.slow_watchers(), 0);
    fixture.put("b", "1");
    assert_eq!(client.read(), ["0 @3: a=2@3"]);
}

#[test]
fn a_stream_holds_128_responses() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&key("a"));
    for count in 0..300 {
        fixture.put("a", &count.to_string());
    }
    assert_eq!((fixture.hub.slow_watchers(), fixture.hub.pending_events()), (1, 128));
    assert_eq!(client.read().len(), 128);
    fixture.settle();
    assert_eq!(client.read().len(), 2);
}

#[test]
fn the_memory_of_a_slow_stream_is_bounded() {
    let limits = Limits {
        stream_bytes: 10_000,
        victim_bytes: 5000,
        catch_up_bytes: 2000,
        ..Limits::default()
    };
    let fixture = Fixture::bounded(|l| *l = limits);
    let mut client = fixture.client();
    let watchers = 100;
    for i in 0..watchers {
        client.watch(&key(&format!("k{i}")));
    }
    // The values are referenced by the stream alone, so their count is its memory.
    let value = "x".repeat(1000);
    let mut live = Vec::new();
    for round in 0..3 {
        for i in 0..watchers {
            let (revision, events) =
                fixture.log.write(&[crate::model::put(&format!("k{i}"), &value)]);
            let shared = bytes::Bytes::from(events[0].kv.to_vec());
            let event =
                mvcc::Event::from_stored(events[0].revision, false, shared.clone()).unwrap();
            fixture.hub.publish(revision, &[event], || fixture.log.show(revision));
            live.push(shared);
        }
        fixture.settle();
        let held = live.iter().filter(|value| !value.is_unique()).count();
        assert!(held <= 15, "round {round}: {held} values of 1000 bytes held");
    }
    // No event is lost.
    let mut read = Vec::new();
    step_until("all events are delivered", || {
        read.extend(client.read());
        fixture.settle();
        fixture.hub.slow_watchers() == 0 && fixture.hub.pending_events() == 0
    });
    let events: usize = read.iter().map(|line| line.matches("=x").count()).sum();
    assert_eq!(events, 300);
}

#[test]
fn a_response_of_any_size_fits_into_an_empty_queue() {
    let fixture = Fixture::bounded(|limits| {
        limits.stream_bytes = 1;
        limits.victim_bytes = 0;
        limits.turn_bytes = 1;
        limits.catch_up_bytes = 1;
        limits.tail_bytes = 0;
    });
    let mut client = fixture.client();
    client.watch(&everything());
    fixture.put("a", "1");
    fixture.put("a", "2");
    fixture.put("a", "3");
    let mut read = Vec::new();
    for _ in 0..5 {
        read.extend(client.read());
        fixture.settle();
    }
    assert_eq!(read, ["0 @2: a=1@2", "0 @4: a=2@3", "0 @4: a=3@4"]);
}

#[test]
fn a_slow_client_does_not_delay_others() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 1);
    let (mut slow, mut quick) = (fixture.client(), fixture.client());
    slow.watch(&key("a"));
    quick.watch(&key("a"));
    for count in 0..10 {
        let revision = fixture.put("a", "1");
        assert_eq!(quick.read(), [format!("0 @{revision}: a=1@{revision}")], "{count}");
    }
    assert_eq!(fixture.hub.slow_watchers(), 1);
}

#[test]
fn unsynced_watchers_of_a_full_stream_do_not_read_history() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 1);
    fixture.put("a", "1");
    let mut client = fixture.client();
    client.watch(&key("a"));
    client.watch(&from(2, key("a")));
    fixture.put("a", "2");
    assert_eq!(fixture.turn(), HubTurn::Idle);
    assert_eq!((fixture.hub.slow_watchers(), fixture.hub.pending_events()), (1, 1));
    assert_eq!(client.read(), ["0 @3: a=2@3"]);
    assert_eq!(fixture.turn(), HubTurn::Idle);
    assert_eq!(client.read(), ["1 @3: a=1@2 a=2@3"]);
}

#[test]
fn a_victim_overtaken_by_compaction_gets_its_held_response_and_is_canceled() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 1);
    let mut client = fixture.client();
    client.watch(&key("a"));
    for count in 0..9 {
        fixture.put("a", &count.to_string());
    }
    fixture.log.compact(9);
    let mut read = Vec::new();
    for _ in 0..3 {
        read.extend(client.read());
        fixture.settle();
    }
    assert_eq!(read, ["0 @2: a=0@2", "0 @3: a=1@3", "0 @0: canceled compacted 9"]);
}
