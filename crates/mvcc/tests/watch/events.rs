//! What live watchers are told.

use mvcc::watch::CreateRequest;

use crate::model::{World, delete, everything, from, key, no_delete, no_put, put, range, short};

#[test]
fn a_transaction_is_one_response_in_order_of_its_changes() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&everything());
    world.put("b", "0");
    world.write(&[put("c", "1"), delete("b"), put("a", "2")]);
    assert_eq!(client.read(), ["0 @2: b=0@2", "0 @3: c=1@3 b-@3 a=2@3"]);
}

#[test]
fn a_watcher_gets_only_its_keys_of_a_transaction() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&range("a", "c"));
    client.watch(&key("c"));
    client.watch(&key("d"));
    world.write(&[put("c", "1"), put("b", "2"), put("a", "3")]);
    assert_eq!(client.read(), ["0 @2: b=2@2 a=3@2", "1 @2: c=1@2"]);
}

#[test]
fn all_watchers_of_a_transaction_share_its_bytes() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&key("a"));
    client.watch(&range("a", "b"));
    let (revision, events) = world.log.write(&[put("a", "1"), put("b", "1")]);
    world.hub.publish(revision, &events, || world.log.show(revision));
    for _ in 0..2 {
        let response = client.next().unwrap();
        assert_eq!(response.events[0].event.kv.as_ptr(), events[0].kv.as_ptr());
    }
}

#[test]
fn a_deletion_has_its_key_and_its_revision_alone() {
    use prost::Message as _;
    let world = World::new();
    let mut client = world.client();
    client.watch(&key("a"));
    world.put("a", "1");
    world.delete("a");
    client.next();
    let deleted = client.next().unwrap().events.remove(0).event;
    let kv = proto::mvccpb::KeyValue::decode(deleted.kv).unwrap();
    let expected =
        proto::mvccpb::KeyValue { key: "a".into(), mod_revision: 3, ..Default::default() };
    assert_eq!(kv, expected);
}

#[test]
fn the_value_before_comes_with_it_if_asked_for() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&CreateRequest { prev_kv: true, ..key("a") });
    client.watch(&key("a"));
    world.put("a", "1");
    world.put("a", "2");
    world.delete("a");
    world.put("a", "3");
    let read = client.read();
    let with: Vec<_> = read.iter().filter(|line| line.starts_with('0')).collect();
    let without: Vec<_> = read.iter().filter(|line| line.starts_with('1')).collect();
    let expected = ["0 @2: a=1@2", "0 @3: a=2@3 (was 1)", "0 @4: a-@4 (was 2)", "0 @5: a=3@5"];
    assert_eq!(with, expected);
    assert_eq!(without, ["1 @2: a=1@2", "1 @3: a=2@3", "1 @4: a-@4", "1 @5: a=3@5"]);
}

#[test]
fn the_value_before_is_left_out_if_it_is_compacted() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&CreateRequest { prev_kv: true, ..key("a") });
    for value in ["1", "2", "3"] {
        world.put("a", value);
    }
    // Revision 3 can still be read, and 2 cannot.
    world.log.compact(3);
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @3: a=2@3", "0 @4: a=3@4 (was 2)"]);
}

#[test]
fn filters_drop_events_and_nothing_is_said_if_none_is_left() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&CreateRequest { filters: no_put(), ..everything() });
    client.watch(&CreateRequest { filters: no_delete(), ..everything() });
    world.put("a", "1");
    world.write(&[delete("a"), put("b", "2")]);
    world.delete("b");
    let mut read = client.read();
    read.sort();
    assert_eq!(read, ["0 @3: a-@3", "0 @4: b-@4", "1 @2: a=1@2", "1 @3: b=2@3"]);
}

#[test]
fn filters_hold_for_history_too() {
    let world = World::new();
    world.put("a", "1");
    world.write(&[delete("a"), put("b", "2")]);
    let mut client = world.client();
    client.watch(&CreateRequest { filters: no_put(), ..from(1, everything()) });
    client.watch(&CreateRequest { filters: no_delete(), ..from(1, everything()) });
    client.watch(&CreateRequest { filters: no_put(), ..from(1, key("b")) });
    world.settle();
    assert_eq!(client.read(), ["0 @3: a-@3", "1 @3: a=1@2 b=2@3"]);
}

#[test]
fn a_client_is_notified_when_there_is_something_after_there_was_nothing() {
    let world = World::new();
    let mut client = world.client();
    client.stream.create(&key("a")).unwrap();
    assert_eq!(client.notified(), 1);
    world.put("a", "1");
    assert_eq!(client.notified(), 0, "it has not read what it was told of");
    client.read();
    world.put("b", "1");
    assert_eq!(client.notified(), 0, "nothing for it");
    world.put("a", "2");
    assert_eq!(client.notified(), 1);
    assert_eq!(client.next().as_ref().map(short), Some("0 @4: a=2@4".into()));
}

#[test]
fn what_is_pending_is_counted() {
    let world = World::new();
    let mut client = world.client();
    client.watch(&everything());
    client.watch(&key("a"));
    world.write(&[put("a", "1"), put("b", "1")]);
    assert_eq!(world.hub.pending_events(), 3);
    client.next();
    assert_eq!(world.hub.pending_events(), 1);
    client.next();
    assert_eq!(world.hub.pending_events(), 0);
}

#[test]
#[should_panic(expected = "revisions grow: 2 after 2")]
fn a_revision_is_published_once() {
    let world = World::new();
    world.put("a", "1");
    world.hub.publish(2, &[], || ());
}
