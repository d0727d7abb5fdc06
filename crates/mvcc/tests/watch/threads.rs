//! The hub with threads: one writes, one takes the turns, and each client has its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mvcc::watch::Next;

use crate::model::{Client, World, everything, from, key};

const WRITES: i64 = 20_000;
const CLIENTS: usize = 3;

#[test]
fn no_event_is_lost_between_threads() {
    let world = World::bounded(|limits| {
        limits.stream_responses = 16;
        limits.tail_events = 8;
    });
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let turns = scope.spawn(|| take_turns(&world, &done));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|i| {
                scope.spawn({
                    let world = &world;
                    move || follow(world, i)
                })
            })
            .collect();
        for count in 0..WRITES {
            world.put(if count % 3 == 0 { "a" } else { "b" }, "1");
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        done.store(true, Ordering::Relaxed);
        turns.join().unwrap();
    });
    assert_eq!((world.hub.watchers(), world.hub.pending_events()), (0, 0));
}

fn take_turns(world: &World, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        if world.turn() == Next::Idle {
            thread::yield_now();
        }
    }
}

/// Watches in several ways until the last write arrives in all of them.
fn follow(world: &World, i: usize) {
    let mut client = world.client();
    let last = WRITES + 1;
    let all = client.watch(&from(2, everything()));
    let some = client.watch(&from(2 + 3 * i64::try_from(i).unwrap(), key("a")));
    let mut next = [2, 2 + 3 * i64::try_from(i).unwrap()];
    while next[0] <= last || next[1] + 3 <= last {
        read(&mut client, &mut next, [all, some]);
        thread::yield_now();
    }
}

/// Every revision has an event of the first watcher, and every third one an event of the second.
fn read(client: &mut Client, next: &mut [i64; 2], ids: [i64; 2]) {
    let Some(response) = client.next() else { return };
    let which = usize::from(response.watch_id == ids[1]);
    for watched in &response.events {
        assert_eq!(watched.event.revision.main, next[which], "watcher {which}");
        next[which] += if which == 0 { 1 } else { 3 };
    }
}
