//! Asynchronous storage writes: responses that come when the world has moved on.

use bytes::Bytes;
use raft::{ConfState, Config, Entry, MemoryStorage, Message, MessageType, RawNode, RoleKind};
use types::{Index, MemberId, Term};

fn follower() -> RawNode<MemoryStorage> {
    let members = ConfState::of_voters([MemberId(1), MemberId(2), MemberId(3)]);
    let config = Config { async_storage_writes: true, ..Config::new(MemberId(1)) };
    RawNode::new(config, MemoryStorage::with_conf_state(members)).expect("a sound start")
}

/// The leader of a term appends one entry, of that or an older term, at index 1.
fn append_from(node: &mut RawNode<MemoryStorage>, leader: u64, term: u64, entry_term: u64) {
    let entry = Entry {
        term: Term(entry_term),
        index: Index(1),
        ..Entry::normal(Bytes::from(format!("of term {entry_term}")))
    };
    let append = Message::new(MessageType::MsgApp, MemberId(1));
    let (from, term) = (MemberId(leader), Term(term));
    node.step(Message { from, term, entries: vec![entry], ..append }).expect("taken");
}

/// The work for the append thread that there is now.
fn append_work(node: &mut RawNode<MemoryStorage>) -> Message {
    let is_append = |message: &Message| message.kind == MessageType::MsgStorageAppend;
    node.ready().messages.into_iter().find(is_append).expect("something to append")
}

/// The report that the work is durable.
fn report(work: &Message) -> Message {
    let is_report = |message: &&Message| message.kind == MessageType::MsgStorageAppendResp;
    work.responses.iter().find(is_report).expect("it reports").clone()
}

/// Whether the follower holds the entry of term 1 at index 1: it then accepts an append behind it.
fn holds_the_first_entry(node: &mut RawNode<MemoryStorage>) -> bool {
    let append = Message::new(MessageType::MsgApp, MemberId(1));
    let (from, term) = (MemberId(2), Term(3));
    node.step(Message { from, term, index: Index(1), log_term: Term(1), ..append }).expect("taken");
    let work = append_work(node);
    let answer = work.responses.iter().find(|message| message.kind == MessageType::MsgAppResp);
    !answer.expect("every append is answered").reject
}

/// An entry is replaced and put back while the first write of it is under way. The report of that write names the
/// entry that is there again, but the write of the other one is still to come and would take its place in storage.
#[test]
fn a_report_of_an_older_term_does_not_count() {
    let mut node = follower();
    append_from(&mut node, 2, 1, 1);
    let first = append_work(&mut node);
    append_from(&mut node, 3, 2, 2);
    let second = append_work(&mut node);
    append_from(&mut node, 2, 3, 1);
    let third = append_work(&mut node);

    // The first two writes are done, and only the first is reported.
    for work in [&first, &second] {
        node.storage_mut().append(&work.entries).expect("no gap");
    }
    node.step_local(report(&first)).expect("taken");
    assert!(
        holds_the_first_entry(&mut node),
        "it looked into storage, which has another entry there"
    );

    // Once the third is durable, storage may be believed.
    node.storage_mut().append(&third.entries).expect("no gap");
    node.step_local(report(&third)).expect("taken");
    assert!(holds_the_first_entry(&mut node));
}

/// What was reported in an older term is reported again, so that it does not stay in memory for ever.
#[test]
fn what_was_not_believed_is_reported_again() {
    let mut node = follower();
    append_from(&mut node, 2, 1, 1);
    let first = append_work(&mut node);
    // A new term, without new entries.
    let heartbeat = Message::new(MessageType::MsgHeartbeat, MemberId(1));
    node.step(Message { from: MemberId(3), term: Term(2), ..heartbeat }).expect("taken");
    let second = append_work(&mut node);
    assert!(second.entries.is_empty());
    let again = report(&second);
    assert_eq!((again.term, again.index, again.log_term), (Term(2), Index(1), Term(1)));
    assert_eq!(report(&first).index, again.index);
}

/// Were it to lead on the votes of others alone, a crash could take its term from it, and the same voters elect it a
/// second time in that term.
#[test]
fn a_candidate_leads_only_once_its_own_vote_is_durable() {
    let mut node = follower();
    node.campaign();
    let work = append_work(&mut node);
    let role = |node: &RawNode<MemoryStorage>| node.basic_status().soft_state.role;
    for voter in [2, 3] {
        let vote = Message::new(MessageType::MsgVoteResp, MemberId(1));
        node.step(Message { from: MemberId(voter), term: Term(1), ..vote }).expect("taken");
        assert_eq!(role(&node), RoleKind::Candidate);
    }
    let own = work.responses.iter().find(|message| message.kind == MessageType::MsgVoteResp);
    node.step_local(own.expect("its own vote").clone()).expect("taken");
    assert_eq!(role(&node), RoleKind::Leader);
}
