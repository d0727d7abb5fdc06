//! A snapshot replaces the store.

use mvcc::watch::Next;

use crate::model::{Meddled, Moment, World, everything, from, key, put};

#[test]
fn watchers_read_the_new_revisions_of_a_snapshot() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&everything());
    world.put("a", "1");
    world.receive_snapshot(&[&[put("a", "2")], &[put("b", "3")]]);
    assert_eq!(world.hub.slow_watchers(), 1);
    assert!(world.wakes() > 0);
    world.settle();
    world.put("c", "4");
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @4: a=2@3 b=3@4", "0 @5: c=4@5"]);
}

#[test]
fn only_watchers_with_compacted_revisions_are_canceled() {
    let world = World::new();
    let (mut synced, mut behind) = (world.client(), world.client());
    synced.watch(&key("quiet"));
    for _ in 0..9 {
        world.put("a", "1");
    }
    behind.watch(&from(5, key("quiet")));
    world.log.compact(11);
    world.receive_snapshot(&[&[put("a", "1")], &[put("a", "1")]]);
    world.settle();
    assert_eq!(synced.read(), [""; 0], "the watcher had all up to 10, and 11 is not compacted");
    assert_eq!(behind.read(), ["0 @0: canceled compacted 11"]);
    world.log.compact(14);
    world.receive_snapshot(&[&[put("a", "1")], &[put("a", "1")]]);
    world.settle();
    assert_eq!(synced.read(), ["0 @0: canceled compacted 14"]);
}

#[test]
fn a_snapshot_at_the_same_revision_changes_nothing() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&key("a"));
    world.put("a", "1");
    world.hub.restore(2, || ());
    assert_eq!(world.hub.slow_watchers(), 0);
    world.put("a", "2");
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @3: a=2@3"]);
}

#[test]
fn history_read_from_the_old_store_is_discarded() {
    let world = World::new();
    world.put("a", "1");
    let mut client = world.client();
    client.watch(&from(2, key("a")));
    let replaced = Meddled(&world.log, |moment| {
        if moment == Moment::Walked {
            world.receive_snapshot(&[&[put("a", "2")]]);
        }
    });
    assert_eq!(world.hub.turn(&replaced), Ok(Next::Again));
    assert_eq!(client.read(), [""; 0]);
    world.settle();
    assert_eq!(client.read(), ["0 @3: a=1@2 a=2@3"]);
}
