//! The bugs that etcd's robustness tests found in its watches, by the numbers they have there.

use std::time::Duration;

use mvcc::watch::CreateRequest;

use crate::model::{Client, World, delete, everything, from, key, put};

/// Progress was announced past the events that were still on their way.
#[test]
fn etcd_15220_progress_is_behind_the_events_it_promises() {
    let world = World::bounded(|limits| limits.stream_responses = 4);
    let mut client = world.client();
    client.watch(&CreateRequest { progress_notify: true, ..everything() });
    let mut seen = 1;
    for count in 1u32..200 {
        world.put("a", "1");
        client.stream.request_progress().unwrap();
        world.hub.tick_progress(Duration::from_secs(600) * count);
        if count % 7 == 0 {
            world.settle();
            while let Some(response) = client.next() {
                match response.events.last() {
                    Some(last) => seen = last.event.revision.main,
                    None => assert_eq!(response.revision, seen, "{response:?}"),
                }
            }
        }
    }
}

/// After a member had received a snapshot, its watchers were told again what they knew.
#[test]
fn etcd_15271_a_snapshot_does_not_take_watchers_back_in_time() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&from(2, key("a")));
    for value in ["1", "2", "3"] {
        world.put("a", value);
    }
    world.receive_snapshot(&[&[put("a", "4")]]);
    world.settle();
    let read: Vec<_> =
        std::iter::from_fn(|| client.next()).flat_map(|response| response.events).collect();
    let revisions: Vec<_> = read.iter().map(|watched| watched.event.revision.main).collect();
    assert_eq!(revisions, [2, 3, 4, 5]);
}

/// Many watchers in one stream that was not read: one of them was overtaken by compaction, could not be told, and went on as if nothing were
/// missing.
#[test]
fn etcd_17529_a_starved_watcher_is_told_that_it_lost_events() {
    let world = World::bounded(|limits| limits.stream_responses = 2);
    world.put("a", "0");
    let mut client = world.client();
    let watchers: Vec<_> = (0..10).map(|_| client.watch(&from(2, key("a")))).collect();
    world.settle();
    for count in 1..20 {
        world.put("a", &count.to_string());
    }
    world.log.compact(15);
    world.settle();
    let mut next = [2; 10];
    let mut ended = Vec::new();
    while ended.len() < watchers.len() {
        while let Some(response) = client.next() {
            let id = usize::try_from(response.watch_id).unwrap();
            for watched in &response.events {
                assert_eq!(watched.event.revision.main, next[id], "watcher {id}");
                next[id] += 1;
            }
            if response.canceled {
                assert_eq!(response.compact_revision, 15);
                assert!(next[id] < 15, "watcher {id} missed nothing");
                ended.push(id);
            }
        }
        world.settle();
    }
}

/// A delete at the very revision that was compacted was not shown to watchers that start there.
#[test]
fn etcd_18089_a_delete_at_the_compacted_revision_is_seen() {
    let world = World::new();
    world.put("a", "1");
    let deleted = world.delete("a");
    world.put("b", "1");
    world.log.compact(deleted);
    let mut client = world.client();
    client.watch(&from(deleted, key("a")));
    world.settle();
    assert_eq!(client.read(), ["0 @4: a-@3"]);
}

/// The same when the key was deleted in a transaction, among others, with the value before asked for.
#[test]
fn etcd_19179_deletes_of_a_transaction_at_the_compacted_revision_are_seen() {
    let world = World::new();
    world.write(&[put("a", "1"), put("b", "1"), put("c", "1")]);
    let deleted = world.write(&[delete("a"), put("b", "2"), delete("c")]);
    world.log.compact(deleted);
    let mut client = world.client();
    client.watch(&CreateRequest { prev_kv: true, ..from(deleted, everything()) });
    world.settle();
    // The values before are compacted, the deletes are not.
    assert_eq!(client.read(), ["0 @3: a-@3 b=2@3 c-@3"]);
}

/// A watcher of a future revision was told of progress, and of events, before that revision, after the member had received a snapshot.
#[test]
fn etcd_20221_a_watch_on_a_future_revision_gets_nothing_before_it() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&CreateRequest { progress_notify: true, ..from(6, key("a")) });
    world.put("a", "1");
    world.receive_snapshot(&[&[put("a", "2")]]);
    world.settle();
    world.put("a", "3");
    world.hub.tick_progress(Duration::from_secs(600));
    assert_eq!(client.stream.request_progress(), Ok(false));
    world.put("a", "4");
    assert_eq!(client.read(), [""; 0]);
    world.put("a", "5");
    assert_eq!(client.stream.request_progress(), Ok(true));
    assert_eq!(client.read(), ["0 @6: a=5@6", "-1 @6:"]);
}

/// Watchers that were created in quick succession, while events came in, missed some.
#[test]
fn etcd_20655_no_event_is_dropped_when_watches_are_created_fast() {
    let world = World::new();
    let mut clients: Vec<_> = (0..40).map(|_| (world.client(), Vec::new())).collect();
    for round in 0..15 {
        for (i, (client, starts)) in clients.iter_mut().enumerate() {
            let current = world.log.current();
            let start = if i % 2 == 0 { 0 } else { (current - round).max(2) };
            client.stream.create(&from(start, key("a"))).unwrap();
            starts.push(if start == 0 { current + 1 } else { start });
            world.put("a", "1");
        }
        world.turn();
    }
    while world.hub.slow_watchers() + world.hub.pending_events() > 0 {
        world.settle();
        clients.iter_mut().for_each(|(client, next)| read_all(client, next));
    }
    for (_, next) in clients {
        assert!(next.iter().all(|&next| next == world.log.current() + 1), "{next:?}");
    }
}

/// Reads what there is, and checks for each watcher that it is what comes next.
fn read_all(client: &mut Client, next: &mut [i64]) {
    while let Some(response) = client.next() {
        let next = &mut next[usize::try_from(response.watch_id).unwrap()];
        for watched in &response.events {
            assert_eq!(watched.event.revision.main, *next);
            *next += 1;
        }
    }
}
