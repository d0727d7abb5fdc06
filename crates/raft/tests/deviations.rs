//! Deliberate deviations from etcd: reads, and members that cannot campaign.

use bytes::Bytes;
use raft::{
    ConfChange, ConfChangeType, ConfState, Config, HardState, MemoryStorage, Message, MessageType,
    RawNode, ReadState, RoleKind,
};
use types::{Index, MemberId, Term};

mod pair;

use pair::{from_two, leader, save, to_one};

#[test]
fn a_removed_leader_confirms_reads_with_the_last_voter() {
    let mut node = leader(|_| {});
    let kind = ConfChangeType::RemoveNode;
    let removal = ConfChange { kind, node_id: MemberId(1), ..ConfChange::default() };
    node.apply_conf_change(Index(2), &removal.into()).unwrap();
    node.read_index(Bytes::from_static(b"read"));
    let ready = save(&mut node);
    // The only remaining voter is another member, which may be leader by now.
    assert_eq!(ready.read_states, []);
    let heartbeat = ready.messages.iter().find(|m| m.kind == MessageType::MsgHeartbeat).unwrap();
    assert_eq!(heartbeat.to, MemberId(2));
    let context = heartbeat.context.clone();
    from_two(&mut node, Message { context, ..to_one(MessageType::MsgHeartbeatResp) });
    let answer = ReadState { index: Index(1), request_context: Bytes::from_static(b"read") };
    assert_eq!(save(&mut node).read_states, [answer]);
}

#[test]
fn waiting_reads_are_bounded() {
    const LIMIT: usize = 1 << 16;
    let mut node = leader(|_| {});
    for _ in 0..LIMIT + 10 {
        node.read_index(Bytes::new());
        // Take the heartbeats out as they come, or they would fill the memory of this test.
        save(&mut node);
    }
    let newest = (LIMIT as u64).to_le_bytes();
    let context = Bytes::copy_from_slice(&newest);
    from_two(&mut node, Message { context, ..to_one(MessageType::MsgHeartbeatResp) });
    assert_eq!(save(&mut node).read_states.len(), LIMIT);
}

#[test]
fn a_single_voter_answers_reads_after_its_first_commit_in_the_term() {
    let storage = MemoryStorage::with_conf_state(ConfState::of_voters([MemberId(1)]));
    let mut node = RawNode::new(Config::new(MemberId(1)), storage).unwrap();
    node.campaign();
    save(&mut node);
    assert_eq!(node.basic_status().soft_state.role, RoleKind::Leader);
    node.read_index(Bytes::from_static(b"early"));
    // This Ready saves the first entry of the term, and the next one commits it.
    assert_eq!(save(&mut node).read_states, []);
    let answer = ReadState { index: Index(1), request_context: Bytes::from_static(b"early") };
    assert_eq!(save(&mut node).read_states, [answer]);
}

#[test]
fn a_learner_responds_to_a_leader_of_an_older_term() {
    let members = ConfState {
        learners: vec![MemberId(1)],
        ..ConfState::of_voters([MemberId(2), MemberId(3)])
    };
    let mut storage = MemoryStorage::with_conf_state(members);
    storage.set_hard_state(HardState { term: Term(5), vote: None, commit: Index::ZERO });
    let mut node = RawNode::new(Config::new(MemberId(1)), storage).unwrap();
    // It cannot depose the leader by campaigning itself.
    let heartbeat = to_one(MessageType::MsgHeartbeat);
    node.step(Message { from: MemberId(2), term: Term(4), ..heartbeat }).unwrap();
    let sent = save(&mut node).messages;
    let answer = Message::new(MessageType::MsgAppResp, MemberId(2));
    assert_eq!(sent, [Message { from: MemberId(1), term: Term(5), ..answer }]);
}
