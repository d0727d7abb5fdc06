//! The hub with threads: one writes, one takes the turns, and each client has its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mvcc::watch::HubTurn;
use testkit::waiting::{SetOnDrop, wait_until};

use crate::model::{Client, Fixture, everything, from, key};

const WRITES: i64 = 20_000;
const CLIENTS: usize = 3;

#[test]
fn no_event_is_lost_between_threads() {
    let fixture = Fixture::bounded(|limits| {
        limits.stream_responses = 16;
        limits.tail_events = 8;
    });
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| take_turns(&fixture, &done));
        let _done = SetOnDrop(&done);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|i| {
                scope.spawn({
                    let fixture = &fixture;
                    move || follow(fixture, i)
                })
            })
            .collect();
        for count in 0..WRITES {
            fixture.put(if count % 3 == 0 { "a" } else { "b" }, "1");
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    assert_eq!((fixture.hub.watchers(), fixture.hub.pending_events()), (0, 0));
}

fn take_turns(fixture: &Fixture, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        if fixture.turn() == HubTurn::Idle {
            thread::yield_now();
        }
    }
}

/// Watches in several ways until the last write arrives in all of them.
fn follow(fixture: &Fixture, i: usize) {
    let mut client = fixture.client();
    let last = WRITES + 1;
    let mut next = [2, 2 + 3 * i64::try_from(i).unwrap()];
    // Events of the first watcher may arrive before the second is confirmed.
    let create = |request| client.stream.create(&request).unwrap().expect("it is accepted");
    let ids = [create(from(next[0], everything())), create(from(next[1], key("a")))];
    let mut created = Vec::new();
    wait_until("the last write arrives", || {
        created.extend(read(&mut client, &mut next, ids));
        next[0] > last && next[1] + 3 > last
    });
    assert_eq!(created, ids);
}

/// Every revision has an event of the first watcher, and every third one an event of the second.
/// Returns the watcher whose creation a response confirms.
fn read(client: &mut Client, next: &mut [i64; 2], ids: [i64; 2]) -> Option<i64> {
    let response = client.next()?;
    let which = usize::from(response.watch_id == ids[1]);
    for watched in &response.events {
        assert_eq!(watched.event.revision.main, next[which], "watcher {which}");
        next[which] += if which == 0 { 1 } else { 3 };
    }
    response.created.then_some(response.watch_id)
}
