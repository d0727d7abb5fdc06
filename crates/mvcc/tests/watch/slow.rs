//! Clients that do not read.

use mvcc::watch::{Limits, Next};

use crate::model::{World, everything, from, key};

#[test]
fn a_victim_continues_when_there_is_room() {
    let world = World::bounded(|limits| limits.stream_responses = 2);
    let mut client = world.client();
    assert_eq!(world.wakes(), 1, "a new stream schedules progress notifications");
    client.watch(&key("a"));
    for value in ["1", "2", "3", "4", "5"] {
        world.put("a", value);
    }
    assert_eq!((world.hub.slow_watchers(), world.hub.pending_events()), (1, 2));
    assert_eq!(world.turn(), Next::Idle, "nothing can be done while the stream is full");
    assert_eq!(world.wakes(), 0);
    // The victim held revision 3; the rest is read from history.
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @3: a=2@3"]);
    assert_eq!(world.wakes(), 1);
    world.settle();
    assert_eq!(client.read(), ["0 @4: a=3@4", "0 @6: a=4@5 a=5@6"]);
    world.put("a", "6");
    assert_eq!(client.read(), ["0 @7: a=6@7"]);
    assert_eq!(world.hub.slow_watchers(), 0);
}

#[test]
fn a_victim_without_further_events_is_synced_at_once() {
    let world = World::bounded(|limits| limits.stream_responses = 1);
    let mut client = world.client();
    client.watch(&key("a"));
    world.put("a", "1");
    world.put("a", "2");
    assert_eq!(client.read(), ["0 @2: a=1@2"]);
    assert_eq!(world.turn(), Next::Idle);
    assert_eq!(world.hub.slow_watchers(), 0);
    world.put("b", "1");
    assert_eq!(client.read(), ["0 @3: a=2@3"]);
}

#[test]
fn a_stream_holds_128_responses() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&key("a"));
    for count in 0..300 {
        world.put("a", &count.to_string());
    }
    assert_eq!((world.hub.slow_watchers(), world.hub.pending_events()), (1, 128));
    assert_eq!(client.read().len(), 128);
    world.settle();
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
    let world = World::bounded(|l| *l = limits);
    let mut client = world.client();
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
                world.log.write(&[crate::model::put(&format!("k{i}"), &value)]);
            let shared = bytes::Bytes::from(events[0].kv.to_vec());
            let event =
                mvcc::Event::from_stored(events[0].revision, false, shared.clone()).unwrap();
            world.hub.publish(revision, &[event], || world.log.show(revision));
            live.push(shared);
        }
        world.settle();
        let held = live.iter().filter(|value| !value.is_unique()).count();
        assert!(held <= 15, "round {round}: {held} values of 1000 bytes held");
    }
    // No event is lost.
    let mut read = Vec::new();
    while world.hub.slow_watchers() > 0 || world.hub.pending_events() > 0 {
        read.extend(client.read());
        world.settle();
    }
    let events: usize = read.iter().map(|line| line.matches("=x").count()).sum();
    assert_eq!(events, 300);
}

#[test]
fn a_response_of_any_size_fits_into_an_empty_queue() {
    let world = World::bounded(|limits| {
        limits.stream_bytes = 1;
        limits.victim_bytes = 0;
        limits.turn_bytes = 1;
        limits.catch_up_bytes = 1;
        limits.tail_bytes = 0;
    });
    let mut client = world.client();
    client.watch(&everything());
    world.put("a", "1");
    world.put("a", "2");
    world.put("a", "3");
    let mut read = Vec::new();
    for _ in 0..5 {
        read.extend(client.read());
        world.settle();
    }
    assert_eq!(read, ["0 @2: a=1@2", "0 @4: a=2@3", "0 @4: a=3@4"]);
}

#[test]
fn a_slow_client_does_not_delay_others() {
    let world = World::bounded(|limits| limits.stream_responses = 1);
    let (mut slow, mut quick) = (world.client(), world.client());
    slow.watch(&key("a"));
    quick.watch(&key("a"));
    for count in 0..10 {
        let revision = world.put("a", "1");
        assert_eq!(quick.read(), [format!("0 @{revision}: a=1@{revision}")], "{count}");
    }
    assert_eq!(world.hub.slow_watchers(), 1);
}

#[test]
fn unsynced_watchers_of_a_full_stream_do_not_read_history() {
    let world = World::bounded(|limits| limits.stream_responses = 1);
    world.put("a", "1");
    let mut client = world.client();
    client.watch(&key("a"));
    client.watch(&from(2, key("a")));
    world.put("a", "2");
    assert_eq!(world.turn(), Next::Idle);
    assert_eq!((world.hub.slow_watchers(), world.hub.pending_events()), (1, 1));
    assert_eq!(client.read(), ["0 @3: a=2@3"]);
    assert_eq!(world.turn(), Next::Idle);
    assert_eq!(client.read(), ["1 @3: a=1@2 a=2@3"]);
}

#[test]
fn a_victim_overtaken_by_compaction_gets_its_held_response_and_is_canceled() {
    let world = World::bounded(|limits| limits.stream_responses = 1);
    let mut client = world.client();
    client.watch(&key("a"));
    for count in 0..9 {
        world.put("a", &count.to_string());
    }
    world.log.compact(9);
    let mut read = Vec::new();
    for _ in 0..3 {
        read.extend(client.read());
        world.settle();
    }
    assert_eq!(read, ["0 @2: a=0@2", "0 @3: a=1@3", "0 @0: canceled compacted 9"]);
}
