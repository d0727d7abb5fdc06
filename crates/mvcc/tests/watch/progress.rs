//! Progress notifications and requests.

use std::time::Duration;

use mvcc::watch::{Busy, Config, CreateRequest};

use crate::model::{Client, Fixture, everything, from, key, no_put};

const MINUTE: Duration = Duration::from_secs(60);

fn notified(request: CreateRequest) -> CreateRequest {
    CreateRequest { progress_notify: true, ..request }
}

/// A client whose only watcher, of "a", wants notifications every ten minutes.
fn notified_client(fixture: &Fixture) -> Client {
    let mut client = fixture.client();
    client.watch(&notified(key("a")));
    client
}

#[test]
fn a_quiet_watcher_is_notified_every_interval() {
    let fixture = Fixture::new();
    let mut client = notified_client(&fixture);
    client.watch(&key("b"));
    fixture.put("c", "1");
    assert_eq!(fixture.hub.tick_progress(9 * MINUTE), Some(10 * MINUTE));
    assert_eq!(client.read(), [""; 0]);
    assert_eq!(fixture.hub.tick_progress(10 * MINUTE), Some(20 * MINUTE));
    assert_eq!(client.read(), ["0 @2:"], "only the watcher that wants notifications");
    // A late tick keeps the phase and skips what was missed.
    assert_eq!(fixture.hub.tick_progress(45 * MINUTE), Some(50 * MINUTE));
    assert_eq!(client.read(), ["0 @2:"]);
}

#[test]
fn a_watcher_with_events_is_not_notified() {
    let fixture = Fixture::new();
    let mut client = notified_client(&fixture);
    fixture.put("a", "1");
    fixture.hub.tick_progress(10 * MINUTE);
    assert_eq!(client.read(), ["0 @2: a=1@2"]);
    fixture.hub.tick_progress(20 * MINUTE);
    assert_eq!(client.read(), ["0 @2:"]);
}

#[test]
fn filtered_events_do_not_suppress_a_notification() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.watch(&notified(CreateRequest { filters: no_put(), ..key("a") }));
    fixture.put("a", "1");
    fixture.hub.tick_progress(10 * MINUTE);
    assert_eq!(client.read(), ["0 @2:"]);
}

#[test]
fn an_unsynced_watcher_is_not_notified() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    let mut client = fixture.client();
    client.watch(&notified(from(2, key("b"))));
    fixture.hub.tick_progress(10 * MINUTE);
    assert_eq!(client.read(), [""; 0]);
    fixture.settle();
    fixture.hub.tick_progress(20 * MINUTE);
    assert_eq!(client.read(), ["0 @2:"]);
}

#[test]
fn the_interval_has_jitter_and_a_minimum() {
    let config = Config { progress_interval: Duration::from_millis(1), ..Config::default() };
    let fixture = Fixture::with(&config);
    let mut client = fixture.client_at(5 * MINUTE, Duration::from_millis(7));
    client.watch(&notified(key("a")));
    let due = 5 * MINUTE + Duration::from_millis(107);
    assert_eq!(fixture.hub.tick_progress(Duration::ZERO), Some(due));
    fixture.hub.tick_progress(due);
    assert_eq!(client.read(), ["0 @1:"]);
}

#[test]
fn a_full_stream_skips_notifications_and_continues_with_the_next_watcher() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 2);
    let mut client = fixture.client();
    for _ in 0..3 {
        client.watch(&notified(key("a")));
    }
    let mut notified_at = |minutes: u32| {
        fixture.hub.tick_progress(minutes * MINUTE);
        client.read()
    };
    assert_eq!(notified_at(10), ["0 @1:", "1 @1:"]);
    assert_eq!(notified_at(20), ["2 @1:", "0 @1:"]);
    assert_eq!(notified_at(30), ["1 @1:", "2 @1:"]);
}

#[test]
fn dropped_streams_are_not_scheduled() {
    let fixture = Fixture::new();
    let client = notified_client(&fixture);
    drop(client);
    assert_eq!(fixture.hub.tick_progress(10 * MINUTE), None);
}

#[test]
fn a_request_is_answered_for_the_whole_stream() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    assert_eq!(client.stream.request_progress(), Ok(false), "the stream has no watcher");
    client.watch(&key("a"));
    client.watch(&key("b"));
    fixture.put("a", "1");
    assert_eq!(client.stream.request_progress(), Ok(true));
    fixture.put("b", "1");
    assert_eq!(client.read(), ["0 @2: a=1@2", "-1 @2:", "1 @3: b=1@3"]);
}

#[test]
fn a_request_is_not_answered_while_a_watcher_is_unsynced() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    let mut client = fixture.client();
    client.watch(&key("a"));
    client.watch(&from(2, key("b")));
    assert_eq!(client.stream.request_progress(), Ok(false));
    fixture.settle();
    assert_eq!(client.stream.request_progress(), Ok(true));
    assert_eq!(client.read(), ["-1 @2:"]);
}

#[test]
fn a_request_is_not_answered_while_a_watcher_is_a_victim() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 1);
    let mut client = fixture.client();
    client.watch(&everything());
    fixture.put("a", "1");
    fixture.put("a", "2");
    assert_eq!(client.stream.request_progress(), Ok(false));
    client.read();
    fixture.settle();
    assert_eq!(client.stream.request_progress(), Ok(true));
    assert_eq!(client.read(), ["0 @3: a=2@3", "-1 @3:"]);
}

#[test]
fn a_request_is_answered_even_if_the_stream_is_full() {
    let fixture = Fixture::bounded(|limits| limits.stream_responses = 1);
    let mut client = fixture.client();
    client.watch(&everything());
    fixture.put("a", "1");
    assert_eq!(client.stream.request_progress(), Ok(true));
    assert_eq!(client.read(), ["0 @2: a=1@2", "-1 @2:"]);
}

#[test]
fn notifications_do_not_count_as_answers() {
    let fixture = Fixture::bounded(|limits| limits.stream_answers = 2);
    fixture.put("a", "1");
    let mut client = fixture.client();
    for _ in 0..3 {
        client.watch(&notified(key("b")));
    }
    fixture.hub.tick_progress(10 * MINUTE);
    assert!(client.stream.accepts_requests(), "notifications are not answers");
    for _ in 0..2 {
        assert_eq!(client.stream.request_progress(), Ok(true));
    }
    assert_eq!(client.stream.request_progress(), Err(Busy));
    assert_eq!(client.read(), ["0 @2:", "1 @2:", "2 @2:", "-1 @2:", "-1 @2:"]);
}
