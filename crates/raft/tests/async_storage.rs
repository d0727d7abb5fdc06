//! Asynchronous storage writes: responses that arrive after the state has changed.

use bytes::Bytes;
use raft::{ConfState, Config, Entry, MemoryStorage, Message, MessageType, RawNode, RoleKind};
use types::{Index, MemberId, Term};

fn follower() -> RawNode<MemoryStorage> {
    let members = ConfState::of_voters([MemberId(1), MemberId(2), MemberId(3)]);
    let config = Config { async_storage_writes: true, ..Config::new(MemberId(1)) };
    RawNode::new(config, MemoryStorage::with_conf_state(members)).expect("valid configuration")
}

/// Steps an append of one entry at index 1 from the leader of `term`.
fn append_from(node: &mut RawNode<MemoryStorage>, leader: u64, term: u64, entry_term: u64) {
    let entry = Entry {
        term: Term(entry_term),
        index: Index(1),
        ..Entry::normal(Bytes::from(format!("of term {entry_term}")))
    };
    let append = Message::new(MessageType::MsgApp, MemberId(1));
    let (from, term) = (MemberId(leader), Term(term));
    node.step(Message { from, term, entries: vec![entry], ..append }).expect("accepted");
}

/// Returns the pending job of the append thread.
fn append_job(node: &mut RawNode<MemoryStorage>) -> Message {
    let is_append = |message: &Message| message.kind == MessageType::MsgStorageAppend;
    node.ready().messages.into_iter().find(is_append).expect("an append message")
}

/// Returns the response that reports the job as durable.
fn storage_response(work: &Message) -> Message {
    let is_report = |message: &&Message| message.kind == MessageType::MsgStorageAppendResp;
    work.responses.iter().find(is_report).expect("a storage response").clone()
}

/// Reports whether the follower has the entry of term 1 at index 1, by appending after it.
fn has_the_first_entry(node: &mut RawNode<MemoryStorage>) -> bool {
    let append = Message::new(MessageType::MsgApp, MemberId(1));
    let (from, term) = (MemberId(2), Term(3));
    node.step(Message { from, term, index: Index(1), log_term: Term(1), ..append })
        .expect("accepted");
    let work = append_job(node);
    let answer = work.responses.iter().find(|message| message.kind == MessageType::MsgAppResp);
    !answer.expect("an append response").reject
}

/// An entry is replaced and restored while its first write is in progress. The response to that
/// write names the entry that is in the log again, but the write of the other entry is still
/// pending and would replace it in storage.
#[test]
fn a_storage_response_of_an_older_term_is_ignored() {
    let mut node = follower();
    append_from(&mut node, 2, 1, 1);
    let first = append_job(&mut node);
    append_from(&mut node, 3, 2, 2);
    let second = append_job(&mut node);
    append_from(&mut node, 2, 3, 1);
    let third = append_job(&mut node);

    // The first two writes are done, and only the first is reported.
    for work in [&first, &second] {
        node.storage_mut().append(&work.entries).expect("no gap");
    }
    node.step_local(storage_response(&first)).expect("accepted");
    assert!(has_the_first_entry(&mut node), "the stale entry in storage was read");

    // After the third write storage has the right entry.
    node.storage_mut().append(&third.entries).expect("no gap");
    node.step_local(storage_response(&third)).expect("accepted");
    assert!(has_the_first_entry(&mut node));
}

/// A response dropped for its term is repeated, so that the entry does not stay in memory forever.
#[test]
fn an_ignored_storage_response_is_repeated_in_the_next_term() {
    let mut node = follower();
    append_from(&mut node, 2, 1, 1);
    let first = append_job(&mut node);
    // A new term without new entries.
    let heartbeat = Message::new(MessageType::MsgHeartbeat, MemberId(1));
    node.step(Message { from: MemberId(3), term: Term(2), ..heartbeat }).expect("accepted");
    let second = append_job(&mut node);
    assert!(second.entries.is_empty());
    let again = storage_response(&second);
    assert_eq!((again.term, again.index, again.log_term), (Term(2), Index(1), Term(1)));
    assert_eq!(storage_response(&first).index, again.index);
}

/// A candidate that led on its peers' votes alone could lose its term in a crash and be elected
/// twice in it.
#[test]
fn a_candidate_becomes_leader_only_after_its_own_vote_is_durable() {
    let mut node = follower();
    node.campaign();
    let work = append_job(&mut node);
    let role = |node: &RawNode<MemoryStorage>| node.basic_status().soft_state.role;
    for voter in [2, 3] {
        let vote = Message::new(MessageType::MsgVoteResp, MemberId(1));
        node.step(Message { from: MemberId(voter), term: Term(1), ..vote }).expect("accepted");
        assert_eq!(role(&node), RoleKind::Candidate);
    }
    let own = work.responses.iter().find(|message| message.kind == MessageType::MsgVoteResp);
    node.step_local(own.expect("the member's own vote").clone()).expect("accepted");
    assert_eq!(role(&node), RoleKind::Leader);
}
