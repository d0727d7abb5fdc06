//! A snapshot replaces the store.

use mvcc::watch::HubTurn;

use crate::model::{Fixture, InterceptedHistory, ReadStep, everything, from, key, put};

#[test]
fn watchers_read_the_new_revisions_of_a_snapshot() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&everything());
    fixture.put("a", "1");
    fixture.receive_snapshot(&[&[put("a", "2")], &[put("b", "3")]]);
    assert_eq!(fixture.hub.slow_watchers(), 1);
    assert!(fixture.wakes() > 0);
    fixture.settle();
    fixture.put("c", "4");
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @4: a=2@3 b=3@4", "0 @5: c=4@5"]);
}

#[test]
fn only_watchers_with_compacted_revisions_are_canceled() {
    let fixture = Fixture::new();
    let (mut synced, mut unsynced) = (fixture.client(), fixture.client());
    synced.watch(&key("quiet"));
    for _ in 0..9 {
        fixture.put("a", "1");
    }
    unsynced.watch(&from(5, key("quiet")));
    fixture.log.compact(11);
    fixture.receive_snapshot(&[&[put("a", "1")], &[put("a", "1")]]);
    fixture.settle();
    assert_eq!(synced.read(), [""; 0], "the watcher had all up to 10, and 11 is not compacted");
    assert_eq!(unsynced.read(), ["0 @0: canceled compacted 11"]);
    fixture.log.compact(14);
    fixture.receive_snapshot(&[&[put("a", "1")], &[put("a", "1")]]);
    fixture.settle();
    assert_eq!(synced.read(), ["0 @0: canceled compacted 14"]);
}

#[test]
fn a_snapshot_at_the_same_revision_changes_nothing() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&key("a"));
    fixture.put("a", "1");
    fixture.hub.restore(2, || ());
    assert_eq!(fixture.hub.slow_watchers(), 0);
    fixture.put("a", "2");
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @3: a=2@3"]);
}

#[test]
fn history_read_from_the_old_store_is_discarded() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    let mut client = fixture.client();
    client.watch(&from(2, key("a")));
    let replaced = InterceptedHistory(&fixture.log, |step| {
        if step == ReadStep::End {
            fixture.receive_snapshot(&[&[put("a", "2")]]);
        }
    });
    assert_eq!(fixture.hub.turn(&replaced), Ok(HubTurn::Again));
    assert_eq!(client.read(), [""; 0]);
    fixture.settle();
    assert_eq!(client.read(), ["0 @3: a=1@2 a=2@3"]);
}
