//! Linearizable reads where Bowline differs from etcd on purpose.

use bytes::Bytes;
use raft::{ConfChange, ConfChangeType, Message, MessageType, ReadState};
use types::{Index, MemberId};

mod pair;

use pair::{from_two, leader, save, to_one};

#[test]
fn a_removed_leader_asks_the_last_voter_before_it_answers() {
    let mut node = leader(|_| {});
    let kind = ConfChangeType::RemoveNode;
    let removal = ConfChange { kind, node_id: MemberId(1), ..ConfChange::default() };
    node.apply_conf_change(Index(2), &removal.into()).unwrap();
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
    let mut node = leader(|_| {});
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
