//! The events of synced watchers.

use mvcc::watch::CreateRequest;

use crate::model::{Fixture, delete, everything, from, key, no_delete, no_put, put, range, short};

#[test]
fn a_transaction_is_one_response_in_order_of_its_changes() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&everything());
    fixture.put("b", "0");
    fixture.write(&[put("c", "1"), delete("b"), put("a", "2")]);
    assert_eq!(client.read(), ["0 @2: b=0@2", "0 @3: c=1@3 b-@3 a=2@3"]);
}

#[test]
fn a_watcher_gets_only_the_events_of_its_keys() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&range("a", "c"));
    client.watch(&key("c"));
    client.watch(&key("d"));
    fixture.write(&[put("c", "1"), put("b", "2"), put("a", "3")]);
    assert_eq!(client.read(), ["0 @2: b=2@2 a=3@2", "1 @2: c=1@2"]);
}

#[test]
fn watchers_share_the_bytes_of_a_transaction() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&key("a"));
    client.watch(&range("a", "b"));
    let (revision, events) = fixture.log.write(&[put("a", "1"), put("b", "1")]);
    fixture.hub.publish(revision, &events, || fixture.log.show(revision));
    for _ in 0..2 {
        let response = client.next().unwrap();
        assert_eq!(response.events[0].event.kv.as_ptr(), events[0].kv.as_ptr());
    }
}

#[test]
fn a_delete_event_has_only_a_key_and_a_revision() {
    use prost::Message as _;
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&key("a"));
    fixture.put("a", "1");
    fixture.delete("a");
    client.next();
    let deleted = client.next().unwrap().events.remove(0).event;
    let kv = proto::mvccpb::KeyValue::decode(deleted.kv).unwrap();
    let expected =
        proto::mvccpb::KeyValue { key: "a".into(), mod_revision: 3, ..Default::default() };
    assert_eq!(kv, expected);
}

#[test]
fn an_event_has_the_previous_value_if_wanted() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&CreateRequest { prev_kv: true, ..key("a") });
    client.watch(&key("a"));
    fixture.put("a", "1");
    fixture.put("a", "2");
    fixture.delete("a");
    fixture.put("a", "3");
    let read = client.read();
    let with: Vec<_> = read.iter().filter(|line| line.starts_with('0')).collect();
    let without: Vec<_> = read.iter().filter(|line| line.starts_with('1')).collect();
    let expected = ["0 @2: a=1@2", "0 @3: a=2@3 (was 1)", "0 @4: a-@4 (was 2)", "0 @5: a=3@5"];
    assert_eq!(with, expected);
    assert_eq!(without, ["1 @2: a=1@2", "1 @3: a=2@3", "1 @4: a-@4", "1 @5: a=3@5"]);
}

#[test]
fn a_compacted_previous_value_is_left_out() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&CreateRequest { prev_kv: true, ..key("a") });
    for value in ["1", "2", "3"] {
        fixture.put("a", value);
    }
    // Revision 3 is readable, 2 is not.
    fixture.log.compact(3);
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @3: a=2@3", "0 @4: a=3@4 (was 2)"]);
}

#[test]
fn filters_drop_events_and_send_no_empty_response() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&CreateRequest { filters: no_put(), ..everything() });
    client.watch(&CreateRequest { filters: no_delete(), ..everything() });
    fixture.put("a", "1");
    fixture.write(&[delete("a"), put("b", "2")]);
    fixture.delete("b");
    let mut read = client.read();
    read.sort();
    assert_eq!(read, ["0 @3: a-@3", "0 @4: b-@4", "1 @2: a=1@2", "1 @3: b=2@3"]);
}

#[test]
fn filters_apply_to_history() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    fixture.write(&[delete("a"), put("b", "2")]);
    let mut client = fixture.client();
    client.watch(&CreateRequest { filters: no_put(), ..from(1, everything()) });
    client.watch(&CreateRequest { filters: no_delete(), ..from(1, everything()) });
    client.watch(&CreateRequest { filters: no_put(), ..from(1, key("b")) });
    fixture.settle();
    assert_eq!(client.read(), ["0 @3: a-@3", "1 @3: a=1@2 b=2@3"]);
}

#[test]
fn a_client_is_notified_when_an_empty_stream_gets_a_response() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.stream.create(&key("a")).unwrap();
    assert_eq!(client.notified(), 1);
    fixture.put("a", "1");
    assert_eq!(client.notified(), 0, "the client has not read since the last notification");
    client.read();
    fixture.put("b", "1");
    assert_eq!(client.notified(), 0, "no event for this client");
    fixture.put("a", "2");
    assert_eq!(client.notified(), 1);
    assert_eq!(client.next().as_ref().map(short), Some("0 @4: a=2@4".into()));
}

#[test]
fn queued_events_are_counted() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&everything());
    client.watch(&key("a"));
    fixture.write(&[put("a", "1"), put("b", "1")]);
    assert_eq!(fixture.hub.pending_events(), 3);
    client.next();
    assert_eq!(fixture.hub.pending_events(), 1);
    client.next();
    assert_eq!(fixture.hub.pending_events(), 0);
}

#[test]
#[should_panic(expected = "published revision 2 after 2")]
fn publishing_a_revision_twice_panics() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    fixture.hub.publish(2, &[], || ());
}
