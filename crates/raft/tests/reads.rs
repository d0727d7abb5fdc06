//! Linearizable reads where Bowline differs from etcd on purpose.

use bytes::Bytes;
use raft::{
    ConfChange, ConfChangeType, ConfState, Config, MemoryStorage, Message, MessageType, RawNode,
    ReadState, Ready,
};
use types::{Index, MemberId};

fn save(node: &mut RawNode<MemoryStorage>) -> Ready {
    let ready = node.ready();
    node.storage_mut().append(&ready.entries).unwrap();
    node.advance();
    ready
}

fn from_two(node: &mut RawNode<MemoryStorage>, message: Message) {
    let term = node.basic_status().hard_state.term;
    node.step(Message { from: MemberId(2), term, ..message }).unwrap();
}

fn to_one(kind: MessageType) -> Message {
    Message::new(kind, MemberId(1))
}

/// A leader of two that has committed in its term.
fn leader() -> RawNode<MemoryStorage> {
    let members = ConfState::of_voters([MemberId(1), MemberId(2)]);
    let storage = MemoryStorage::with_conf_state(members);
    let mut node = RawNode::new(Config::new(MemberId(1)), storage).unwrap();
    node.campaign();
    save(&mut node);
    from_two(&mut node, to_one(MessageType::MsgVoteResp));
    save(&mut node);
    from_two(&mut node, Message { index: Index(1), ..to_one(MessageType::MsgAppResp) });
    save(&mut node);
    node
}

#[test]
fn a_removed_leader_asks_the_last_voter_before_it_answers() {
    let mut node = leader();
    let kind = ConfChangeType::RemoveNode;
    let removal = ConfChange { kind, node_id: MemberId(1), ..ConfChange::default() };
    node.apply_conf_change(&removal.into()).unwrap();
    node.read_index(Bytes::from_static(b"read"));
    let ready = save(&mut node);
    // One voter is left, and it is not this leader: it may lead by now.
    assert_eq!(ready.read_states, []);
    let heartbeat = ready.messages.iter().find(|m| m.kind == MessageType::MsgHeartbeat).unwrap();
    assert_eq!(heartbeat.to, MemberId(2));
    let context = heartbeat.context.clone();
    from_two(&mut node, Message { context, ..to_one(MessageType::MsgHeartbeatResp) });
    let answer = ReadState { index: Index(1), request_context: Bytes::from_static(b"read") };
    assert_eq!(save(&mut node).read_states, [answer]);
}

#[test]
fn reads_that_wait_are_bounded() {
    const LIMIT: usize = 1 << 16;
    let mut node = leader();
    for _ in 0..LIMIT + 10 {
        node.read_index(Bytes::new());
        // Heartbeats are handed out as they come, or they would fill the memory of this test.
        save(&mut node);
    }
    let newest = (LIMIT as u64).to_le_bytes();
    let context = Bytes::copy_from_slice(&newest);
    from_two(&mut node, Message { context, ..to_one(MessageType::MsgHeartbeatResp) });
    assert_eq!(save(&mut node).read_states.len(), LIMIT);
}
