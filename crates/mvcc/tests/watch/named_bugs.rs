//! Bugs that etcd's robustness tests found in watch, by their issue numbers.

use std::time::Duration;

use mvcc::watch::CreateRequest;
use testkit::waiting::step_until;

use crate::model::{Client, Fixture, delete, everything, from, key, put};

/// etcd announced progress before it delivered the events it covers.
#[test]
fn etcd_15220_a_progress_response_follows_the_events_it_covers() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 4);
    let mut client = fixture.client();
    client.watch(&CreateRequest { progress_notify: true, ..everything() });
    let mut seen = 1;
    for count in 1u32..200 {
        fixture.put("a", "1");
        client.stream.request_progress().unwrap();
        fixture.hub.tick_progress(Duration::from_secs(600) * count);
        if count % 7 == 0 {
            fixture.settle();
            while let Some(response) = client.next() {
                match response.events.last() {
                    Some(last) => seen = last.event.revision.main,
                    None => assert_eq!(response.revision, seen, "{response:?}"),
                }
            }
        }
    }
}

/// After a snapshot, etcd delivered events a second time.
#[test]
fn etcd_15271_a_snapshot_does_not_repeat_events() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&from(2, key("a")));
    for value in ["1", "2", "3"] {
        fixture.put("a", value);
    }
    fixture.receive_snapshot(&[&[put("a", "4")]]);
    fixture.settle();
    let read: Vec<_> =
        std::iter::from_fn(|| client.next()).flat_map(|response| response.events).collect();
    let revisions: Vec<_> = read.iter().map(|watched| watched.event.revision.main).collect();
    assert_eq!(revisions, [2, 3, 4, 5]);
}

/// Many watchers in a stream that is not read: a compaction overtook one of them, its cancellation
/// could not be sent, and it continued as if nothing were missing.
#[test]
fn etcd_17529_a_starved_watcher_is_canceled_after_losing_events() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 2);
    fixture.put("a", "0");
    let mut client = fixture.client();
    let watchers: Vec<_> = (0..10).map(|_| client.watch(&from(2, key("a")))).collect();
    fixture.settle();
    for count in 1..20 {
        fixture.put("a", &count.to_string());
    }
    fixture.log.compact(15);
    fixture.settle();
    let mut next = [2; 10];
    let mut ended = Vec::new();
    step_until("all watchers are canceled", || {
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
        fixture.settle();
        ended.len() == watchers.len()
    });
}

/// etcd did not deliver a tombstone at the compacted revision to watchers that start there.
#[test]
fn etcd_18089_a_delete_at_the_compacted_revision_is_delivered() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    let deleted = fixture.delete("a");
    fixture.put("b", "1");
    fixture.log.compact(deleted);
    let mut client = fixture.client();
    client.watch(&from(deleted, key("a")));
    fixture.settle();
    assert_eq!(client.read(), ["0 @4: a-@3"]);
}

/// Issue 18089 again, for a key deleted in a transaction among others, with previous values.
#[test]
fn etcd_19179_deletes_of_a_transaction_at_the_compacted_revision_are_delivered() {
    let fixture = Fixture::new();
    fixture.write(&[put("a", "1"), put("b", "1"), put("c", "1")]);
    let deleted = fixture.write(&[delete("a"), put("b", "2"), delete("c")]);
    fixture.log.compact(deleted);
    let mut client = fixture.client();
    client.watch(&CreateRequest { prev_kv: true, ..from(deleted, everything()) });
    fixture.settle();
    // The previous values are compacted, the deletes are not.
    assert_eq!(client.read(), ["0 @3: a-@3 b=2@3 c-@3"]);
}

/// After a snapshot, etcd delivered progress and events before the start revision of a watcher.
#[test]
fn etcd_20221_a_watcher_of_a_future_revision_gets_nothing_before_it() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&CreateRequest { progress_notify: true, ..from(6, key("a")) });
    fixture.put("a", "1");
    fixture.receive_snapshot(&[&[put("a", "2")]]);
    fixture.settle();
    fixture.put("a", "3");
    fixture.hub.tick_progress(Duration::from_secs(600));
    assert_eq!(client.stream.request_progress(), Ok(false));
    fixture.put("a", "4");
    assert_eq!(client.read(), [""; 0]);
    fixture.put("a", "5");
    assert_eq!(client.stream.request_progress(), Ok(true));
    assert_eq!(client.read(), ["0 @6: a=5@6", "-1 @6:"]);
}

/// Watchers created in quick succession missed events.
#[test]
fn etcd_20655_no_event_is_dropped_when_watchers_are_created_fast() {
    let fixture = Fixture::new();
    let mut clients: Vec<_> = (0..40).map(|_| (fixture.client(), Vec::new())).collect();
    for round in 0..15 {
        for (i, (client, starts)) in clients.iter_mut().enumerate() {
            let current = fixture.log.current();
            let start = if i % 2 == 0 { 0 } else { (current - round).max(2) };
            client.stream.create(&from(start, key("a"))).unwrap();
            starts.push(if start == 0 { current + 1 } else { start });
            fixture.put("a", "1");
        }
        fixture.turn();
    }
    step_until("all events are delivered", || {
        fixture.settle();
        clients.iter_mut().for_each(|(client, next)| read_all(client, next));
        fixture.hub.slow_watchers() + fixture.hub.pending_events() == 0
    });
    for (_, next) in clients {
        assert!(next.iter().all(|&next| next == fixture.log.current() + 1), "{next:?}");
    }
}

/// A watch at revision -1 was accepted and broke the sync of the unsynced watchers, of which etcd
/// takes 512 at a time: they missed events.
#[test]
fn etcd_20655_a_watch_at_a_negative_revision_does_not_disturb_unsynced_watchers() {
    let fixture = Fixture::new();
    for _ in 0..30 {
        fixture.put("a", "1");
    }
    let mut clients: Vec<_> = (0..40).map(|_| (fixture.client(), Vec::new())).collect();
    for start in 2..22 {
        for (client, starts) in &mut clients {
            assert_eq!(client.stream.create(&from(-1, key("a"))), Ok(None), "refused");
            client.stream.create(&from(start, key("a"))).unwrap();
            starts.push(start);
            // Unread answers would block further requests.
            read_all(client, starts);
        }
    }
    assert_eq!(fixture.hub.slow_watchers(), 800, "more than one turn takes");
    fixture.turn();
    fixture.put("a", "2");
    step_until("all events are delivered", || {
        fixture.settle();
        clients.iter_mut().for_each(|(client, next)| read_all(client, next));
        fixture.hub.slow_watchers() + fixture.hub.pending_events() == 0
    });
    for (_, next) in clients {
        assert!(next.iter().all(|&next| next == fixture.log.current() + 1), "{next:?}");
    }
}

/// Reads all responses, and checks that each watcher gets its next event.
fn read_all(client: &mut Client, next: &mut [i64]) {
    while let Some(response) = client.next() {
        for watched in &response.events {
            let next = &mut next[usize::try_from(response.watch_id).unwrap()];
            assert_eq!(watched.event.revision.main, *next);
            *next += 1;
        }
    }
}
