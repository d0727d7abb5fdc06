//! A leader of two members; the test simulates the other member.

use raft::{ConfState, Config, MemoryStorage, Message, MessageType, RawNode, Ready, RoleKind};
use types::{Index, MemberId};

/// Returns a leader of 1 and 2 that has committed the first entry of its term, at index 1.
pub(crate) fn leader(change: impl FnOnce(&mut Config)) -> RawNode<MemoryStorage> {
    let members = ConfState::of_voters([MemberId(1), MemberId(2)]);
    let mut config = Config::new(MemberId(1));
    change(&mut config);
    let mut node =
        RawNode::new(config, MemoryStorage::with_conf_state(members)).expect("valid configuration");
    node.campaign();
    save(&mut node);
    from_two(&mut node, to_one(MessageType::MsgVoteResp));
    save(&mut node);
    assert_eq!(node.basic_status().soft_state.role, RoleKind::Leader);
    acknowledge(&mut node, 1);
    save(&mut node);
    node
}

/// Processes a `Ready` and returns it.
pub(crate) fn save(node: &mut RawNode<MemoryStorage>) -> Ready {
    let ready = node.ready();
    node.storage_mut().append(&ready.entries).expect("no gap");
    node.advance();
    ready
}

/// Returns a message to 1.
pub(crate) fn to_one(kind: MessageType) -> Message {
    Message::new(kind, MemberId(1))
}

/// Steps a message from 2, in the term of 1.
pub(crate) fn from_two(node: &mut RawNode<MemoryStorage>, message: Message) {
    let term = node.basic_status().hard_state.term;
    node.step(Message { from: MemberId(2), term, ..message }).expect("accepted");
}

/// Acknowledges all entries up to an index on behalf of 2.
pub(crate) fn acknowledge(node: &mut RawNode<MemoryStorage>, index: u64) {
    from_two(node, Message { index: Index(index), ..to_one(MessageType::MsgAppResp) });
}
