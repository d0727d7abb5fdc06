//! Creating and canceling watchers.

use mvcc::watch::{Busy, CreateRequest, NO_WATCH_ID};

use crate::model::{Fixture, everything, from, key, range};

#[test]
fn a_creation_is_answered_with_the_current_revision() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    assert_eq!(client.stream.create(&key("a")), Ok(Some(0)));
    fixture.put("a", "1");
    assert_eq!(client.stream.create(&key("a")), Ok(Some(1)));
    assert_eq!(client.read(), ["0 @1: created", "0 @2: a=1@2", "1 @2: created"]);
}

#[test]
fn an_empty_key_means_the_smallest_key() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&key(""));
    fixture.put("\0", "1");
    fixture.put("a", "1");
    assert_eq!(client.read(), ["0 @2: \0=1@2"]);
}

#[test]
fn a_range_is_half_open_or_unbounded() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&range("b", "d"));
    client.watch(&range("c", "\0"));
    client.watch(&everything());
    for name in ["a", "b", "c", "d"] {
        fixture.put(name, "1");
    }
    let mut read = client.read();
    read.sort();
    let expected = [
        "0 @3: b=1@3",
        "0 @4: c=1@4",
        "1 @4: c=1@4",
        "1 @5: d=1@5",
        "2 @2: a=1@2",
        "2 @3: b=1@3",
        "2 @4: c=1@4",
        "2 @5: d=1@5",
    ];
    assert_eq!(read, expected);
}

#[test]
fn an_empty_range_is_refused() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for request in [range("b", "a"), range("b", "b")] {
        assert_eq!(client.stream.create(&request), Ok(None));
        assert_eq!(client.read(), ["-1 @1: created canceled (mvcc: watcher range is empty)"]);
    }
    assert_eq!(fixture.hub.watchers(), 0);
}

#[test]
fn a_negative_start_revision_is_refused_as_compacted() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    assert_eq!(client.stream.create(&from(-1, range("b", "a"))), Ok(None));
    let refused =
        "-1 @1: created canceled (etcdserver: mvcc: required revision has been compacted)";
    assert_eq!(client.read(), [refused]);
}

#[test]
fn a_refusal_of_the_caller_is_queued_in_order() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.stream.create(&key("a")).unwrap();
    client.stream.refuse("etcdserver: permission denied").unwrap();
    let expected = ["0 @1: created", "-1 @1: created canceled (etcdserver: permission denied)"];
    assert_eq!(client.read(), expected);
}

#[test]
fn allocated_ids_skip_ids_in_use() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let named = |watch_id| CreateRequest { watch_id, ..key("a") };
    assert_eq!(client.watch(&named(1)), 1);
    assert_eq!(client.watch(&key("a")), 0);
    assert_eq!(client.watch(&key("a")), 2);
    assert_eq!(client.watch(&named(7)), 7);
    client.stream.cancel(2).unwrap();
    assert_eq!(client.read(), ["2 @1: canceled"]);
    // An allocated id is not allocated again, but the client can choose it.
    assert_eq!(client.watch(&key("a")), 3);
    assert_eq!(client.watch(&named(2)), 2);
    // Ids belong to the stream.
    assert_eq!(fixture.client().watch(&key("a")), 0);
}

#[test]
fn an_id_in_use_is_refused() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let named = CreateRequest { watch_id: 5, ..key("a") };
    client.watch(&named);
    assert_eq!(client.stream.create(&named), Ok(None));
    let text = "mvcc: duplicate watch ID provided on the WatchStream";
    assert_eq!(client.read(), [format!("-1 @1: created canceled ({text})")]);
    fixture.put("a", "1");
    assert_eq!(client.read(), ["5 @2: a=1@2"]);
}

#[test]
fn a_cancel_is_answered_after_queued_events() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&key("a"));
    fixture.put("a", "1");
    client.stream.cancel(0).unwrap();
    fixture.put("a", "2");
    assert_eq!(client.read(), ["0 @2: a=1@2", "0 @2: canceled"]);
    assert_eq!(fixture.hub.watchers(), 0);
}

#[test]
fn cancel_of_an_unknown_id_is_not_answered() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.stream.cancel(0).unwrap();
    client.stream.cancel(NO_WATCH_ID).unwrap();
    client.watch(&key("a"));
    client.stream.cancel(0).unwrap();
    client.stream.cancel(0).unwrap();
    assert_eq!(client.read(), ["0 @1: canceled"]);
}

#[test]
fn a_watcher_can_be_canceled_in_any_group() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 1);
    for count in 0..3 {
        fixture.put("a", &count.to_string());
    }
    let mut client = fixture.client();
    client.watch(&key("a")); // synced
    client.watch(&from(2, key("a"))); // unsynced
    client.watch(&key("a"));
    fixture.put("a", "3"); // watcher 0 receives it, 2 becomes a victim
    assert_eq!((fixture.hub.watchers(), fixture.hub.slow_watchers()), (3, 2));
    for id in [2, 1, 0] {
        client.stream.cancel(id).unwrap();
    }
    assert_eq!((fixture.hub.watchers(), fixture.hub.slow_watchers()), (0, 0));
    fixture.settle();
    fixture.put("a", "4");
    let expected = ["0 @5: a=3@5", "2 @5: canceled", "1 @5: canceled", "0 @5: canceled"];
    assert_eq!(client.read(), expected);
}

#[test]
fn dropping_a_stream_removes_its_watchers() {
    let fixture = Fixture::bounded(|limits| {
        limits.stream_responses = 2;
        limits.drop_watchers = 2;
    });
    fixture.put("a", "0");
    let mut client = fixture.client();
    for _ in 0..5 {
        client.watch(&key("a"));
        client.watch(&from(2, everything()));
    }
    fixture.put("a", "1");
    assert_eq!((fixture.hub.streams(), fixture.hub.watchers()), (1, 10));
    assert_eq!((fixture.hub.slow_watchers(), fixture.hub.pending_events()), (8, 2));
    drop(client);
    assert_eq!((fixture.hub.streams(), fixture.hub.watchers()), (0, 0));
    assert_eq!((fixture.hub.slow_watchers(), fixture.hub.pending_events()), (0, 0));
    fixture.put("a", "2");
    fixture.settle();
}

#[test]
fn requests_are_refused_until_answers_are_read() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for _ in 0..16 {
        assert!(client.stream.accepts_requests());
        client.stream.create(&key("a")).unwrap();
    }
    assert!(!client.stream.accepts_requests());
    assert_eq!(client.stream.create(&key("a")), Err(Busy));
    assert_eq!(client.stream.cancel(0), Err(Busy));
    assert_eq!(client.stream.request_progress(), Err(Busy));
    assert_eq!(client.stream.refuse("no"), Err(Busy));
    assert_eq!(fixture.hub.watchers(), 16);
    assert_eq!(client.next().map(|answer| answer.watch_id), Some(0));
    assert_eq!(client.stream.create(&key("a")), Ok(Some(16)));
}
