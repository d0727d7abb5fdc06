//! Decodes arbitrary bytes as values of the membership. The first byte selects the decoder:
//!
//! ```text
//!   0   the v2 store in a snapshot
//!   1   the JSON of a member, in the database and between members
//!   2   a conf change of the log, with its JSON context
//!   3   a request to the v2 store, in the logs of older members
//! ```
//!
//! Invariant besides no panic: a decoded value can be encoded and decoded again, without a change.

#![no_main]

use libfuzzer_sys::fuzz_target;
use membership::{Change, Member, Membership, v2};
use prost::Message as _;
use proto::etcdserverpb::Request;
use proto::raftpb::{ConfChange, ConfChangeV2};
use raft::EntryType;
use raft::wire::decode_conf_change;

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0, image)) => check_image(image),
        Some((1, member)) => check_member(member),
        Some((2, change)) => check_change(change),
        Some((3, request)) => check_request(request),
        _ => {}
    }
});

fn check_image(image: &[u8]) {
    let Ok(membership) = v2::decode(image) else { return };
    let image = v2::encode(&membership);
    let again: Membership = v2::decode(&image).expect("just encoded");
    assert_eq!(v2::encode(&again), image);
    assert!(again.ids().eq(membership.ids()) && again.removed().eq(membership.removed()));
    // Compat: as in etcd, the image has no attributes of a member without client URLs.
    let is_named =
        |id| membership.member(id).is_some_and(|it| !it.attributes.client_urls.is_empty());
    for member in again.members().filter(|member| is_named(member.id)) {
        assert_eq!(membership.member(member.id), Some(member));
    }
}

fn check_member(text: &[u8]) {
    let Ok(member) = Member::from_json(text) else { return };
    assert_eq!(Member::from_json(member.to_json().as_bytes()).expect("just encoded"), member);
}

fn check_change(bytes: &[u8]) {
    // As Raft decodes it, in both encodings, and as the cluster does.
    for kind in [EntryType::ConfChange, EntryType::ConfChangeV2] {
        if let Ok(change) = decode_conf_change(kind, &bytes.to_vec().into()) {
            let again = ConfChangeV2::from(change.clone()).encode_to_vec().into();
            assert_eq!(decode_conf_change(EntryType::ConfChangeV2, &again), Ok(change));
        }
    }
    let Ok(entry) = ConfChange::decode(bytes) else { return };
    let Ok(change) = Change::decode(&entry) else { return };
    assert_eq!(change.member().0, entry.node_id());
    let again = change.to_conf_change(entry.id);
    assert_eq!(Change::decode(&again).expect("just encoded"), change);
}

fn check_request(bytes: &[u8]) {
    let Ok(request) = Request::decode(bytes) else { return };
    if let Ok(converted) = v2::to_raft_request(&request) {
        assert_eq!(converted.request_id(), request.id());
    }
}
