//! Malformed input: decoding returns a value or an error and never panics.

use backend::schema::Bucket;
use bytes::Bytes;
use membership::{AlarmStore, Change, Member, Membership, v2};
use proptest::prelude::*;
use proto::command::Command;
use proto::etcdserverpb::Request;
use proto::raftpb::ConfChange;
use types::MemberId;

use crate::{cluster, database, member};

const BUCKETS: [Bucket; 4] =
    [Bucket::Members, Bucket::MembersRemoved, Bucket::Cluster, Bucket::Alarm];
const KEYS: [&str; 3] = ["7", "clusterVersion", "downgrade"];

/// Generates pieces of the JSON of members, contexts and images, in any order.
fn nearly_json() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "null",
        "true",
        "7",
        "-1",
        "1e999",
        "\"id\":",
        "\"peerURLs\":",
        "[\"http://a:1\"]",
        "\"isLearner\":",
        "\"name\":",
        "\"clientURLs\":",
        "\"isPromote\":",
        "\"Root\":",
        "\"Children\":{",
        "\"0\":{",
        "\"members\":{",
        "\"a\":{",
        "\"raftAttributes\":{",
        "\"Value\":\"{}\"",
        "\"removed_members\":{",
        "\"version\":{",
        "\\u0000",
        "\u{2028}",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

/// Generates valid input with a few bytes changed, possibly truncated.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = Membership::of([member(7, true), member(0xab, false)]);
    let texts = vec![
        member(7, true).to_json().into_bytes(),
        Change::Promote(MemberId(7)).to_conf_change(None).context.unwrap().to_vec(),
        v2::encode(&whole),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let end = prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    (prop::sample::select(texts), changes, end).prop_map(|(mut text, changes, end)| {
        for (at, byte) in changes {
            // Near the beginning: the end of a long image is mostly empty events.
            let at = at.index(text.len().min(1200));
            text[at] = byte;
        }
        text.truncate(end.map_or(text.len(), |end| end.index(text.len())));
        text
    })
}

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        nearly_json().prop_map(String::into_bytes),
        damaged(),
        // Inside an object, so that its fields are decoded.
        nearly_json().prop_map(|text| format!("{{{text}}}").into_bytes()),
    ]
}

pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn members_are_read_or_refused(text in hostile()) {
        if let Ok(member) = Member::from_json(&text) {
            prop_assert_eq!(Member::from_json(member.to_json().as_bytes()).unwrap(), member);
        }
    }

    #[test]
    fn changes_are_read_or_refused(
        context in hostile(),
        kind in prop::option::of(-1..6i32),
        node_id in prop::option::of(prop_oneof![Just(0), Just(7), any::<u64>()]),
    ) {
        let context = Some(Bytes::from(context));
        let entry = ConfChange { id: None, r#type: kind, node_id, context };
        if let Ok(change) = Change::decode(&entry) {
            let again = change.to_conf_change(None);
            prop_assert_eq!(Change::decode(&again).unwrap(), change);
        }
    }

    #[test]
    fn images_are_read_or_refused(image in hostile()) {
        if let Ok(membership) = v2::decode(&image) {
            let again = v2::decode(&v2::encode(&membership)).unwrap();
            prop_assert_eq!(again.removed().count(), membership.removed().count());
            prop_assert!(again.ids().eq(membership.ids()));
        }
    }

    #[test]
    fn v2_requests_convert_or_are_refused(
        method in "PUT|GET",
        path in "/0/(members/)?[0-9a-f]{0,17}(/attributes|version)?",
        val in nearly_json(),
    ) {
        let path_is_version = path == "/0/version";
        let (method, path, val) = (Some(method), Some(path), Some(val));
        let request = Request { method, path, val, ..Request::default() };
        if let Ok(request) = v2::to_raft_request(&request) {
            let sets_version = matches!(request.command, Command::ClusterVersionSet(_));
            prop_assert_eq!(sets_version, path_is_version);
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn buckets_are_read_or_refused(
        bucket in prop::sample::select(&BUCKETS[..]),
        key in prop_oneof![
            prop::collection::vec(any::<u8>(), 1..20),
            prop::sample::select(&KEYS[..]).prop_map(|key| key.as_bytes().to_vec()),
        ],
        value in hostile(),
    ) {
        let backend = database();
        let mut tx = backend.begin();
        tx.put(bucket, key, value).unwrap();
        tx.commit().unwrap();
        let (view, cluster) = (backend.view(), cluster());
        match cluster.restore(&view) {
            Ok(()) => prop_assert_eq!(&membership::store::read(&view).unwrap(), &*cluster.now()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        if bucket != Bucket::Alarm {
            prop_assert!(AlarmStore::restore(&view).unwrap().get(0).is_empty());
        } else if let Ok(alarms) = AlarmStore::restore(&view) {
            prop_assert_eq!(alarms.get(0).len(), 1);
        }
    }
}

#[test]
fn json_nested_too_deep_is_refused() {
    let image =
        format!(r#"{{"Root":{{"Children":{{"0":{}"#, r#"{"Children":{"a":"#.repeat(100_000));
    assert!(v2::decode(image.as_bytes()).is_err());
    let context = format!(r#"{{"new":{}"#, "[".repeat(100_000));
    assert!(Member::from_json(context.as_bytes()).is_err());
}
