//! The limits of what a leader accepts and sends.

use bytes::Bytes;
use raft::{
    ConfState, Config, DropReason, Entry, MemoryStorage, Message, MessageType, RawNode, Ready,
};
use testkit::waiting::step_until;
use types::MemberId;

mod pair;

use pair::{acknowledge, leader, save};

fn payload(bytes: usize) -> Bytes {
    Bytes::from(vec![b'x'; bytes])
}

/// Saves until nothing is ready.
fn settle(node: &mut RawNode<MemoryStorage>) {
    step_until("nothing is ready", || {
        let has_ready = node.has_ready();
        if has_ready {
            save(node);
        }
        !has_ready
    });
}

#[test]
fn a_leader_limits_its_uncommitted_bytes() {
    let mut node = leader(|config| config.max_uncommitted_bytes = 1000);
    // The first proposal is accepted whatever its size, because nothing else is uncommitted.
    node.propose(payload(5000)).unwrap();
    let error = node.propose(payload(1)).unwrap_err();
    assert_eq!(error.reason, DropReason::TooMuchUncommitted);
    assert_eq!(error.to_string(), "raft proposal dropped");
    // Entries without payload are always accepted.
    node.propose(Bytes::new()).unwrap();
    // After commit and application there is room again.
    save(&mut node);
    acknowledge(&mut node, 3);
    settle(&mut node);
    node.propose(payload(600)).unwrap();
    assert!(node.propose(payload(600)).is_err());
}

#[test]
fn a_dropped_conf_change_does_not_block_the_next_one() {
    let mut node = leader(|config| config.max_uncommitted_bytes = 10);
    node.propose(payload(11)).unwrap();
    let learner = |id| raft::ConfChange {
        kind: raft::ConfChangeType::AddLearnerNode,
        node_id: MemberId(id),
        context: payload(100),
        ..raft::ConfChange::default()
    };
    assert!(node.propose_conf_change(learner(3)).is_err());
    save(&mut node);
    acknowledge(&mut node, 2);
    settle(&mut node);
    node.propose_conf_change(learner(4)).unwrap();
    let ready = save(&mut node);
    assert!(ready.entries[0].kind.is_conf_change(), "{:?}", ready.entries);
}

fn appends(ready: &Ready) -> Vec<Vec<u64>> {
    let indexes = |entries: &[Entry]| entries.iter().map(|entry| entry.index.0).collect();
    let append = |message: &&Message| message.kind == MessageType::MsgApp;
    ready.messages.iter().filter(append).map(|message| indexes(&message.entries)).collect()
}

#[test]
fn the_bytes_of_a_message_are_limited() {
    let mut node = leader(|config| config.max_message_bytes = 250);
    node.propose_batch((0..5).map(|_| payload(100))).unwrap();
    // The first append is sent with the proposal; the others follow its acknowledgement.
    assert_eq!(appends(&save(&mut node)), [vec![2, 3]]);
    acknowledge(&mut node, 3);
    assert_eq!(appends(&save(&mut node))[..2], [vec![4, 5], vec![6]]);
}

#[test]
fn an_entry_larger_than_the_message_limit_is_sent_alone() {
    let mut node = leader(|config| config.max_message_bytes = 10);
    node.propose(payload(100)).unwrap();
    assert_eq!(appends(&save(&mut node)), [vec![2]]);
}

#[test]
fn the_bytes_in_flight_are_limited() {
    let mut node = leader(|config| {
        config.max_message_bytes = 150;
        config.max_inflight_bytes = 200;
    });
    for _ in 0..4 {
        node.propose(payload(100)).unwrap();
    }
    assert_eq!(appends(&save(&mut node)), [vec![2], vec![3]]);
    acknowledge(&mut node, 2);
    assert_eq!(appends(&save(&mut node)), [vec![4]]);
}

#[test]
fn a_follower_drops_proposals_if_forwarding_is_disabled() {
    let members = ConfState::of_voters([MemberId(1), MemberId(2)]);
    let config = Config { disable_proposal_forwarding: true, ..Config::new(MemberId(1)) };
    let mut node = RawNode::new(config, MemoryStorage::with_conf_state(members)).unwrap();
    assert_eq!(node.propose(payload(1)).unwrap_err().reason, DropReason::NoLeader);
    let heartbeat = Message::new(MessageType::MsgHeartbeat, MemberId(1));
    node.step(Message { from: MemberId(2), term: types::Term(1), ..heartbeat }).unwrap();
    assert_eq!(node.propose(payload(1)).unwrap_err().reason, DropReason::ForwardingDisabled);
}

#[test]
fn a_conf_change_of_a_local_thread_id_is_dropped() {
    let mut node = leader(|_| {});
    let kind = raft::ConfChangeType::AddLearnerNode;
    let node_id = raft::LOCAL_APPEND_THREAD;
    let change = raft::ConfChange { kind, node_id, ..raft::ConfChange::default() };
    let error = node.propose_conf_change(change).unwrap_err();
    assert_eq!(error.reason, DropReason::ReservedId);
    assert!(!node.has_ready());
}

#[test]
fn an_empty_batch_proposes_nothing() {
    let mut node = leader(|_| {});
    node.propose_batch([]).unwrap();
    assert!(!node.has_ready());
}

#[test]
fn the_status_prints_etcds_json() {
    let node = leader(|_| {});
    assert_eq!(
        node.status().to_string(),
        r#"{"id":"1","term":1,"vote":"1","commit":1,"lead":"1","raftState":"StateLeader","applied":1,"progress":{"1":{"match":1,"next":2,"state":"StateReplicate"},"2":{"match":1,"next":2,"state":"StateReplicate"}},"leadtransferee":"0"}"#
    );
}
