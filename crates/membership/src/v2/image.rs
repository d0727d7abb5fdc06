//! Encodes the tree with everything else that a v2 store saves.
//!
//! ```text
//!   {"Root": {"Path":"/", …, "Children": {"0": {…}, "1": {…}}},
//!    "WatcherHub": {"EventHistory": {"Queue": {"Events": [{"action":"create", …}, …, null],
//!                                              "Size":8, …}, …}},
//!    "CurrentIndex": 8, "Stats": {…}, "CurrentVersion": 2}
//! ```
//!
//! Older members restore all of it. Without the events, a ring of 1000 slots, their ring would have
//! no slots. The events are those of an empty store in which each file was written once, and each
//! write increments the index. etcd writes the members in the order of a hash map, Bowline sorted;
//! that is the only difference.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ATTRIBUTES, MEMBERS, RAFT_ATTRIBUTES, REMOVED_MEMBERS, VERSION};
use crate::json;
use crate::member::Member;
use crate::membership::Membership;

/// The capacity of the event ring.
const EVENTS_MAX: usize = 1000;
/// The expiry time of a permanent file.
const NEVER: &str = "0001-01-01T00:00:00Z";
/// The version of the store format.
const FORMAT: u32 = 2;

/// Encodes the data of a raft snapshot.
#[must_use]
pub fn encode(membership: &Membership) -> Vec<u8> {
    let mut image = Image::new();
    for member in membership.members() {
        image.add_member(member);
    }
    for id in membership.removed() {
        image.create(&["0", REMOVED_MEMBERS, &id.to_string()], String::new());
    }
    if let Some(version) = membership.version() {
        image.set(&["0", VERSION], version.to_string());
    }
    json::encode(&image).into_bytes()
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Image {
    root: Node,
    watcher_hub: WatcherHub,
    current_index: u64,
    stats: Stats,
    current_version: u32,
}

impl Image {
    /// Creates a store with its two directories, both empty.
    fn new() -> Image {
        let mut root = Node::directory("/".to_owned(), 0);
        root.enter("0", 0);
        root.enter("1", 0);
        Image {
            root,
            watcher_hub: WatcherHub::default(),
            current_index: 0,
            // etcd reads once to check that the store is empty.
            stats: Stats { gets_fail: 1, ..Stats::default() },
            current_version: FORMAT,
        }
    }

    /// Compat: as in etcd, a member without client URLs has no attributes here, even with a name.
    fn add_member(&mut self, member: &Member) {
        let id = member.id.to_string();
        self.create(&["0", MEMBERS, &id, RAFT_ATTRIBUTES], json::encode(&member.raft));
        if !member.attributes.client_urls.is_empty() {
            self.set(&["0", MEMBERS, &id, ATTRIBUTES], json::encode(&member.attributes));
        }
    }

    fn create(&mut self, path: &[&str], value: String) {
        self.stats.create_success += 1;
        self.write("create", path, value);
    }

    fn set(&mut self, path: &[&str], value: String) {
        self.stats.sets_success += 1;
        self.write("set", path, value);
    }

    /// Creates a file and the directories above it.
    fn write(&mut self, action: &'static str, path: &[&str], value: String) {
        self.current_index += 1;
        let index = self.current_index;
        let mut node = &mut self.root;
        for name in path {
            node = node.enter(name, index);
        }
        node.value.clone_from(&value);
        node.children = None;
        let event = Event::new(action, node.path.clone(), value, index);
        self.watcher_hub.event_history.add(event, index);
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    path: String,
    created_index: u64,
    modified_index: u64,
    expire_time: &'static str,
    value: String,
    /// `None` for a file.
    children: Option<BTreeMap<String, Node>>,
}

impl Node {
    fn directory(path: String, index: u64) -> Node {
        Node {
            path,
            created_index: index,
            modified_index: index,
            expire_time: NEVER,
            value: String::new(),
            children: Some(BTreeMap::new()),
        }
    }

    /// Returns the child of a name, a new directory if it does not exist.
    fn enter(&mut self, name: &str, index: u64) -> &mut Node {
        let path = format!("{}/{name}", self.path.trim_end_matches('/'));
        let children = self.children.get_or_insert_default();
        children.entry(name.to_owned()).or_insert_with(|| Node::directory(path, index))
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct WatcherHub {
    event_history: EventHistory,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct EventHistory {
    queue: Queue,
    start_index: u64,
    last_index: u64,
}

impl EventHistory {
    fn add(&mut self, event: Event, index: u64) {
        self.queue.insert(event);
        self.last_index = index;
        self.start_index = self.queue.events[self.queue.front]
            .as_ref()
            .map_or(0, |event| event.node.modified_index);
    }
}

/// A ring: the oldest event is at `front`, the newest before `back`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Queue {
    events: Vec<Option<Event>>,
    size: usize,
    front: usize,
    back: usize,
    capacity: usize,
}

impl Default for Queue {
    fn default() -> Queue {
        let events = (0..EVENTS_MAX).map(|_| None).collect();
        Queue { events, size: 0, front: 0, back: 0, capacity: EVENTS_MAX }
    }
}

impl Queue {
    fn insert(&mut self, event: Event) {
        self.events[self.back] = Some(event);
        self.back = (self.back + 1) % EVENTS_MAX;
        if self.size == EVENTS_MAX {
            self.front = (self.front + 1) % EVENTS_MAX;
        } else {
            self.size += 1;
        }
    }
}

#[derive(Serialize)]
struct Event {
    action: &'static str,
    node: EventNode,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventNode {
    key: String,
    value: String,
    modified_index: u64,
    created_index: u64,
}

impl Event {
    fn new(action: &'static str, key: String, value: String, index: u64) -> Event {
        Event {
            action,
            node: EventNode { key, value, modified_index: index, created_index: index },
        }
    }
}

/// Request counters, in etcd's order.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    gets_success: u64,
    gets_fail: u64,
    sets_success: u64,
    sets_fail: u64,
    delete_success: u64,
    delete_fail: u64,
    update_success: u64,
    update_fail: u64,
    create_success: u64,
    create_fail: u64,
    compare_and_swap_success: u64,
    compare_and_swap_fail: u64,
    compare_and_delete_success: u64,
    compare_and_delete_fail: u64,
    expire_count: u64,
    watchers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2::decode;
    use crate::v2::read::tests::captured;
    use types::MemberId;

    /// The order in which etcd wrote the members of the captured image.
    const ORDER: [u64; 3] = [0x8dc8_ef3e_2ca2_e1f3, 0x004e_3975_59fb_5829, 0x2cf5_102a_8ad6_e80d];

    #[test]
    fn an_image_of_etcd_is_reproduced_byte_for_byte() {
        let written = captured(types::ETCD_VERSION);
        let membership = decode(&written).unwrap();
        let mut image = Image::new();
        for id in ORDER {
            image.add_member(membership.member(MemberId(id)).unwrap());
        }
        for id in membership.removed() {
            image.create(&["0", REMOVED_MEMBERS, &id.to_string()], String::new());
        }
        image.set(&["0", VERSION], "3.7.0".to_owned());
        assert_eq!(json::encode(&image), String::from_utf8(written).unwrap());
    }

    #[test]
    fn an_empty_membership_round_trips() {
        let image = encode(&Membership::default());
        assert_eq!(decode(&image).unwrap(), Membership::default());
    }

    #[test]
    fn a_member_without_client_urls_has_no_attributes() {
        let named = Member::at_bootstrap("m1", vec!["http://a:1".to_owned()], "t");
        let back = decode(&encode(&Membership::of([named.clone()]))).unwrap();
        let back = back.member(named.id).unwrap();
        assert_eq!((&back.raft, back.is_started()), (&named.raft, false));
    }

    #[test]
    fn the_event_ring_keeps_the_newest_events() {
        let removed = (1..=1003).map(MemberId).collect();
        let image = encode(&Membership { removed, ..Membership::default() });
        let json: serde_json::Value = serde_json::from_slice(&image).unwrap();
        let history = &json["WatcherHub"]["EventHistory"];
        assert_eq!((&history["StartIndex"], &history["LastIndex"]), (&4.into(), &1003.into()));
        let queue = &history["Queue"];
        assert_eq!((&queue["Front"], &queue["Back"]), (&3.into(), &3.into()));
        assert_eq!(queue["Events"].as_array().unwrap().len(), EVENTS_MAX);
    }
}
