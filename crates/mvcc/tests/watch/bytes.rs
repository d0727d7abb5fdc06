//! The encoding of responses, and their fragments.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use mvcc::watch::{Config, CreateRequest, Response, WatchedEvent};
use mvcc::{Event, EventKind};
use proptest::prelude::*;
use prost::Message as _;
use proto::etcdserverpb::{ResponseHeader, WatchResponse};
use proto::mvccpb;
use types::Revision;

use crate::model::{Fixture, everything, put, short};

const HEADER: ResponseHeader =
    ResponseHeader { cluster_id: u64::MAX, member_id: 7, revision: 99, raft_term: 3 };

/// Returns a response as a message, field by field.
fn message(response: &Response) -> WatchResponse {
    let kv = |bytes: &Bytes| mvccpb::KeyValue::decode(&bytes[..]).unwrap();
    let event = |watched: &WatchedEvent| mvccpb::Event {
        r#type: match watched.event.kind {
            EventKind::Put => mvccpb::event::EventType::Put.into(),
            EventKind::Delete => mvccpb::event::EventType::Delete.into(),
        },
        kv: Some(kv(&watched.event.kv)),
        prev_kv: watched.prev_kv.as_ref().map(kv),
    };
    WatchResponse {
        header: Some(ResponseHeader { revision: response.revision, ..HEADER }),
        watch_id: response.watch_id,
        created: response.created,
        canceled: response.canceled,
        compact_revision: response.compact_revision,
        cancel_reason: response.cancel_reason.to_string(),
        fragment: response.fragment,
        events: response.events.iter().map(event).collect(),
    }
}

fn stored(key: &[u8], value: &[u8], revision: i64) -> Bytes {
    let kv = mvccpb::KeyValue {
        key: Bytes::copy_from_slice(key),
        value: Bytes::copy_from_slice(value),
        create_revision: 1,
        mod_revision: revision,
        version: 2,
        lease: 0,
    };
    kv.encode_to_vec().into()
}

fn events() -> impl Strategy<Value = WatchedEvent> {
    let bytes = || proptest::collection::vec(any::<u8>(), 1..200);
    let parts = (bytes(), bytes(), any::<bool>(), any::<bool>(), 1..i64::MAX);
    parts.prop_map(|(key, value, delete, prev, main)| {
        let revision = Revision::new(main, 0);
        let event = if delete {
            Event::delete(revision, &key)
        } else {
            Event::from_stored(revision, false, stored(&key, &value, main)).unwrap()
        };
        WatchedEvent { event, prev_kv: prev.then(|| stored(&key, &value, main - 1)) }
    })
}

proptest! {
    #[test]
    fn encoding_equals_prost(
        numbers in any::<[i64; 3]>(),
        zeros in any::<[bool; 3]>(),
        flags in any::<[bool; 3]>(),
        reason in "[a-z :]{0,200}",
        events in proptest::collection::vec(events(), 0..5),
    ) {
        let number = |i: usize| if zeros[i] { 0 } else { numbers[i] };
        let response = Response {
            watch_id: number(0),
            revision: number(1),
            compact_revision: number(2),
            created: flags[0],
            canceled: flags[1],
            fragment: flags[2],
            cancel_reason: Cow::Owned(reason),
            events,
        };
        let mut encoded = BytesMut::new();
        response.encode(&HEADER, &mut encoded);
        prop_assert_eq!(&encoded[..], &message(&response).encode_to_vec()[..]);
        prop_assert_eq!(WatchResponse::decode(&encoded[..]), Ok(message(&response)));
    }
}

/// Reads a transaction of ten puts of 100 bytes each, with a given fragment size.
fn read_split(fragment_bytes: usize, fragment: bool) -> Vec<Response> {
    let fixture = Fixture::with(&Config { fragment_bytes, ..Config::default() });
    let mut client = fixture.client();
    client.watch(&CreateRequest { fragment, ..everything() });
    let value = "x".repeat(100);
    let ops: Vec<_> = (0..10).map(|i| put(&format!("key{i}"), &value)).collect();
    fixture.write(&ops);
    std::iter::from_fn(|| client.next()).collect()
}

fn encoded_len(response: &Response) -> usize {
    let mut out = BytesMut::new();
    response.encode(&HEADER, &mut out);
    out.len()
}

#[test]
fn a_large_response_is_split_if_the_watcher_allows_it() {
    let pieces = read_split(400, true);
    assert!(pieces.len() > 3, "{}", pieces.len());
    assert!(pieces.iter().all(|piece| encoded_len(piece) < 400));
    let (last, others) = pieces.split_last().unwrap();
    assert!(!last.fragment && others.iter().all(|piece| piece.fragment));
    let keys: Vec<_> = pieces.iter().flat_map(|p| &p.events).map(|e| e.event.key.clone()).collect();
    assert_eq!(keys, (0..10).map(|i| format!("key{i}")).collect::<Vec<_>>());
    // Each fragment is as full as possible, apart from the reserve for a longer header.
    let event =
        encoded_len(&pieces[0]) - encoded_len(&Response { events: vec![], ..pieces[0].clone() });
    let event = event / pieces[0].events.len();
    assert!(others.iter().all(|piece| encoded_len(piece) + event + 46 >= 400));
}

#[test]
fn a_large_response_is_not_split_unless_the_watcher_allows_it() {
    let pieces = read_split(400, false);
    assert_eq!((pieces.len(), pieces[0].events.len()), (1, 10));
}

#[test]
fn an_event_above_the_fragment_size_is_sent_alone() {
    let pieces = read_split(50, true);
    assert_eq!(pieces.len(), 10);
    assert!(pieces.iter().all(|piece| piece.events.len() == 1));
    assert!(!pieces[9].fragment && pieces[8].fragment);
}

#[test]
fn a_response_below_the_limit_is_not_split() {
    let pieces = read_split(1 << 20, true);
    assert_eq!((pieces.len(), pieces[0].fragment), (1, false));
}

#[test]
fn fragments_of_a_response_are_consecutive() {
    let fixture = Fixture::with(&Config { fragment_bytes: 50, ..Config::default() });
    let mut client = fixture.client();
    client.watch(&CreateRequest { fragment: true, ..everything() });
    fixture.write(&[put("a", "1"), put("b", "2")]);
    assert_eq!(short(&client.next().unwrap()), "0 @2: a=1@2 fragment");
    fixture.put("c", "3");
    client.stream.request_progress().unwrap();
    assert_eq!(client.read(), ["0 @2: b=2@2", "0 @3: c=3@3", "-1 @3:"]);
}
