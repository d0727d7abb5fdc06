//! The messages that would make etcd panic or misbehave, one by one.

use bytes::Bytes;
use raft::{
    ConfState, Config, Entry, EntryType, HardState, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD,
    MemoryStorage, Message, MessageType, RawNode, ReadState, RoleKind, Snapshot, SnapshotMetadata,
    StepError,
};
use testkit::waiting::step_until;
use types::{Index, MemberId, Term};

use super::member::{COMMIT, KNOWN_LOG, LAST, ME, Member, Setup, Situation, TERM, from};

const TWO: MemberId = MemberId(2);
const THREE: MemberId = MemberId(3);

fn member(situation: Situation) -> Member {
    Member::new(&Setup::plain(situation))
}

/// Checks that the message is refused for this reason and changes nothing.
#[track_caller]
fn assert_malformed(member: &mut Member, message: &Message, reason: &'static str) {
    let error = StepError::Malformed { kind: message.kind, from: message.from, reason };
    assert_refused(member, message, &error);
}

#[track_caller]
fn assert_refused(member: &mut Member, message: &Message, error: &StepError) {
    let before = member.view();
    assert_eq!(member.step(message.clone()).as_ref(), Err(error), "{message:?}");
    assert_eq!(member.view(), before);
}

/// Steps a valid message and returns the messages that the member sends afterwards.
#[track_caller]
fn answers(member: &mut Member, message: Message) -> Vec<Message> {
    member.step(message).expect("accepted");
    let mut messages = Vec::new();
    step_until("the member has nothing left to do", || {
        let Some(ready) = member.take_ready() else { return true };
        messages.extend(ready.messages);
        member.work();
        false
    });
    messages
}

fn entry(term: u64, index: u64) -> Entry {
    Entry { term: Term(term), index: Index(index), ..Entry::default() }
}

fn unreadable(kind: EntryType) -> Entry {
    Entry { kind, ..Entry::normal(Bytes::from_static(b"\xff")) }
}

/// etcd panics: `tocommit(…) is out of range [lastIndex(…)]`.
#[test]
fn a_heartbeat_that_commits_beyond_the_log_is_refused() {
    let mut follower = member(Situation::Follower);
    for term in [TERM, TERM.next()] {
        let heartbeat = from(TWO, MessageType::MsgHeartbeat);
        let heartbeat = Message { term, commit: LAST.next(), ..heartbeat };
        let error = StepError::LogLost { commit: LAST.next(), last: LAST };
        assert_refused(&mut follower, &heartbeat, &error);
    }
}

/// etcd responds in the same way; accepting the entries would panic (`entry … conflict with
/// committed entry`).
#[test]
fn an_append_over_committed_entries_is_answered_with_the_commit_index() {
    for prev in KNOWN_LOG.iter().filter(|id| id.index < COMMIT) {
        let mut follower = member(Situation::Follower);
        let before = follower.view();
        // The existing entry has an older term and is committed.
        let entries = vec![entry(4, prev.index.0 + 1)];
        let append = from(TWO, MessageType::MsgApp);
        let append = Message { index: prev.index, log_term: prev.term, entries, ..append };
        let answer = answers(&mut follower, append);
        assert_eq!(answer.len(), 1);
        assert_eq!((answer[0].kind, answer[0].index), (MessageType::MsgAppResp, COMMIT));
        assert!(!answer[0].reject);
        assert_eq!(follower.view(), before);
    }
}

#[test]
fn an_append_after_a_committed_entry_of_another_term_is_rejected() {
    let mut follower = member(Situation::Follower);
    let before = follower.view();
    let append = from(TWO, MessageType::MsgApp);
    let append = Message { index: COMMIT, log_term: TERM, entries: vec![entry(4, 6)], ..append };
    let answer = answers(&mut follower, append);
    assert_eq!(answer.len(), 1);
    assert!(answer[0].reject);
    assert_eq!(follower.view(), before);
}

/// etcd panics: `stepped empty MsgProp`.
#[test]
fn an_empty_proposal_is_refused() {
    for situation in [Situation::Leader, Situation::Follower, Situation::Campaigning] {
        let proposal = Message { term: Term::ZERO, ..from(TWO, MessageType::MsgProp) };
        assert_malformed(&mut member(situation), &proposal, "has no entries");
    }
}

/// etcd panics while decoding.
#[test]
fn an_invalid_conf_change_is_not_proposed() {
    for kind in [EntryType::ConfChange, EntryType::ConfChangeV2] {
        let entries = vec![Entry::normal(Bytes::from_static(b"put a")), unreadable(kind)];
        let proposal = Message { entries, term: Term::ZERO, ..from(TWO, MessageType::MsgProp) };
        for situation in [Situation::Leader, Situation::Follower] {
            let reason = "has an invalid conf change";
            assert_malformed(&mut member(situation), &proposal, reason);
        }
    }
}

/// etcd panics later, when it applies the entry.
#[test]
fn an_invalid_conf_change_is_not_appended() {
    let entries = vec![
        entry(4, 8),
        Entry { term: TERM, index: Index(9), ..unreadable(EntryType::ConfChange) },
    ];
    let append = Message { index: LAST, log_term: TERM, entries, ..from(TWO, MessageType::MsgApp) };
    let reason = "has an invalid conf change";
    assert_malformed(&mut member(Situation::Follower), &append, reason);
}

/// etcd panics: it reads eight bytes without checking the length.
#[test]
fn a_read_context_of_invalid_length_confirms_nothing() {
    let mut leader = member(Situation::BusyLeader);
    leader.settle();
    for length in [0, 1, 7, 9, 16] {
        let context = Bytes::from(vec![1; length]);
        let answer = from(TWO, MessageType::MsgHeartbeatResp);
        leader.step(Message { term: TERM.next(), context, ..answer }).unwrap();
        let ready = leader.take_ready();
        assert!(ready.is_none_or(|ready| ready.read_states.is_empty()), "{length}");
        leader.settle();
    }
}

/// etcd panics: it has no read at that position.
#[test]
fn a_read_position_beyond_the_last_read_confirms_all_reads() {
    let mut leader = member(Situation::BusyLeader);
    leader.settle();
    let confirm = |by, position: u64| Message {
        term: TERM.next(),
        context: Bytes::copy_from_slice(&position.to_le_bytes()),
        ..from(by, MessageType::MsgHeartbeatResp)
    };
    leader.step(confirm(TWO, u64::MAX)).unwrap();
    let read = ReadState { index: LAST.next(), request_context: Bytes::from_static(b"read") };
    assert_eq!(leader.take_ready().unwrap().read_states, [read]);
    leader.settle();

    // A later read was not confirmed in advance: it needs its own response.
    leader.node.read_index(Bytes::from_static(b"later"));
    leader.settle();
    leader.step(confirm(THREE, 1)).unwrap();
    assert!(leader.take_ready().is_none_or(|ready| ready.read_states.is_empty()));
    leader.settle();
    leader.step(confirm(THREE, 2)).unwrap();
    assert_eq!(leader.take_ready().unwrap().read_states[0].request_context, "later");
}

/// etcd panics: `unable to restore config`.
#[test]
fn a_snapshot_with_an_inconsistent_configuration_is_refused() {
    let ids = |ids: &[u64]| ids.iter().copied().map(MemberId).collect::<Vec<_>>();
    let plain = ConfState::of_voters([ME, TWO]);
    let joint = ConfState { voters_outgoing: ids(&[1, 3]), ..plain.clone() };
    for (what, conf_state) in [
        ("the same voter twice", ConfState::of_voters([ME, TWO, TWO])),
        ("voter with id zero", ConfState::of_voters([ME, MemberId(0)])),
        ("a storage thread as a voter", ConfState::of_voters([ME, LOCAL_APPEND_THREAD])),
        ("no voters", ConfState { learners: vec![ME], ..ConfState::default() }),
        ("a learner that is also a voter", ConfState { learners: ids(&[2]), ..plain.clone() }),
        (
            "a learner that is also an outgoing voter",
            ConfState { learners: ids(&[3]), ..joint.clone() },
        ),
        (
            "a next learner that is no outgoing voter",
            ConfState { learners_next: ids(&[4]), ..joint.clone() },
        ),
        ("a next learner that stays a voter", ConfState { learners_next: ids(&[1]), ..joint }),
        (
            "next learners outside a joint configuration",
            ConfState { learners_next: ids(&[3]), ..plain.clone() },
        ),
        ("auto leave outside a joint configuration", ConfState { auto_leave: true, ..plain }),
    ] {
        println!("{what}");
        let message = snapshot(Index(20), TERM, conf_state);
        for situation in [Situation::Follower, Situation::Campaigning, Situation::Leaderless] {
            let reason = "has an inconsistent configuration";
            assert_malformed(&mut member(situation), &message, reason);
        }
    }
}

fn snapshot(index: Index, term: Term, conf_state: ConfState) -> Message {
    let metadata = SnapshotMetadata { conf_state, index, term };
    let snapshot = Some(Box::new(Snapshot { data: Bytes::new(), metadata }));
    Message { term: TERM.next(), snapshot, ..from(TWO, MessageType::MsgSnap) }
}

#[test]
fn a_snapshot_with_thousands_of_members_is_refused() {
    let conf_state = ConfState::of_voters((1..=5000).map(MemberId));
    let message = snapshot(Index(20), TERM, conf_state);
    assert_malformed(&mut member(Situation::Follower), &message, "has too many members");
}

#[test]
fn a_snapshot_with_an_invalid_position_is_refused() {
    let members = ConfState::of_voters([ME, TWO]);
    let mut follower = member(Situation::Follower);
    for term in [Term::ZERO, TERM.next().next(), Term(u64::MAX)] {
        let message = snapshot(Index(20), term, members.clone());
        assert_malformed(&mut follower, &message, "has a snapshot with an invalid term");
    }
    let message = snapshot(Index::MAX, TERM, members);
    assert_malformed(&mut follower, &message, "has a term or index that is too large");
}

#[test]
fn a_snapshot_message_without_a_snapshot_is_answered_with_the_commit_index() {
    let mut follower = member(Situation::Follower);
    let answer = answers(&mut follower, from(TWO, MessageType::MsgSnap));
    assert_eq!((answer[0].kind, answer[0].index), (MessageType::MsgAppResp, COMMIT));
}

/// etcd panics: `term should be set when sending MsgPreVoteResp`.
#[test]
fn a_pre_vote_before_the_first_term_gets_no_response() {
    let mut storage = MemoryStorage::with_conf_state(ConfState::of_voters([ME, TWO]));
    storage.append(&[entry(1, 1)]).unwrap();
    assert_eq!(storage.hard_state(), HardState::default());
    let mut node = RawNode::new(Config::new(ME), storage).unwrap();
    // The candidate's log is shorter, so it gets no vote.
    node.step(Message { term: Term(1), ..from(TWO, MessageType::MsgPreVote) }).unwrap();
    assert!(!node.has_ready());
    assert_eq!(node.basic_status().hard_state.term, Term::ZERO);
}

/// etcd panics: its own progress was removed.
#[test]
fn a_member_removed_during_its_campaign_does_not_become_leader() {
    let mut member = member(Situation::Campaigning);
    member.settle();
    let remove = raft::ConfChange {
        kind: raft::ConfChangeType::RemoveNode,
        node_id: ME,
        ..raft::ConfChange::default()
    };
    member.node.apply_conf_change(LAST.next(), &remove.into()).unwrap();
    for voter in [TWO, THREE] {
        let vote = Message { term: TERM.next(), ..from(voter, MessageType::MsgVoteResp) };
        member.step(vote).unwrap();
        member.settle();
    }
    assert_eq!(member.node.basic_status().soft_state.role, RoleKind::Follower);
    assert_eq!(member.node.basic_status().soft_state.lead, None);
}

#[test]
fn local_messages_from_the_network_are_refused() {
    for kind in MessageType::ALL.iter().copied().filter(|kind| kind.is_local()) {
        for &situation in Situation::ALL {
            let error = StepError::LocalMessage;
            assert_refused(&mut member(situation), &from(TWO, kind), &error);
        }
    }
}

#[test]
fn responses_from_unknown_members_are_refused() {
    use MessageType::*;
    for kind in [MsgAppResp, MsgVoteResp, MsgHeartbeatResp, MsgReadIndexResp, MsgPreVoteResp] {
        for situation in [Situation::Leader, Situation::Campaigning, Situation::Follower] {
            let message = from(MemberId(99), kind);
            assert_refused(&mut member(situation), &message, &StepError::PeerNotFound);
        }
    }
}

#[test]
fn messages_with_a_wrong_address_are_refused() {
    let mut follower = member(Situation::Follower);
    let heartbeat = from(TWO, MessageType::MsgHeartbeat);
    let to = |to| Message { to, ..heartbeat.clone() };
    assert_malformed(&mut follower, &to(THREE), "is addressed to another member");
    assert_malformed(&mut follower, &to(LOCAL_APPEND_THREAD), "is addressed to another member");
    let by = |from| Message { from, ..heartbeat.clone() };
    assert_malformed(&mut follower, &by(ME), "claims to be from this member");
    for reserved in [MemberId(0), LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD] {
        assert_malformed(&mut follower, &by(reserved), "has no sender");
    }
}

#[test]
fn messages_with_invalid_positions_are_refused() {
    let mut follower = member(Situation::Follower);
    let heartbeat = from(TWO, MessageType::MsgHeartbeat);
    for message in [
        Message { term: Term(u64::MAX), ..heartbeat.clone() },
        Message { log_term: Term(u64::MAX), ..heartbeat.clone() },
        Message { index: Index::MAX, ..heartbeat.clone() },
        Message { commit: Index(1 << 63), ..heartbeat.clone() },
        Message { reject_hint: Index::MAX, ..heartbeat.clone() },
    ] {
        assert_malformed(&mut follower, &message, "has a term or index that is too large");
    }
    let without_term = Message { term: Term::ZERO, ..heartbeat };
    assert_malformed(&mut follower, &without_term, "has a missing or unexpected term");
    let proposal = Message { entries: vec![Entry::default()], ..from(TWO, MessageType::MsgProp) };
    assert_malformed(&mut follower, &proposal, "has a missing or unexpected term");
}

#[test]
fn appends_of_non_consecutive_entries_are_refused() {
    let mut follower = member(Situation::Follower);
    let append = |entries: &[Entry]| Message {
        index: LAST,
        log_term: TERM,
        entries: entries.to_vec(),
        ..from(TWO, MessageType::MsgApp)
    };
    for entries in [
        &[entry(4, 9)][..],
        &[entry(4, 8), entry(4, 10)],
        &[entry(4, 8), entry(4, 8)],
        &[entry(4, 9), entry(4, 8)],
        &[entry(3, 8)],
        &[entry(0, 8)],
        &[entry(4, 0)],
    ] {
        let reason = "has entries that are not consecutive";
        assert_malformed(&mut follower, &append(entries), reason);
    }
    assert_malformed(&mut follower, &append(&[entry(5, 8)]), "has entries of a later term");
    for (log_term, index) in [(Term::ZERO, LAST), (TERM, Index::ZERO)] {
        let append = Message { log_term, index, ..append(&[]) };
        assert_malformed(&mut follower, &append, "names an invalid previous entry");
    }
}

#[test]
fn reads_without_exactly_one_context_are_refused() {
    let mut follower = member(Situation::Follower);
    for count in [0, 2] {
        let entries = vec![Entry::default(); count];
        let read = Message { entries, term: Term::ZERO, ..from(THREE, MessageType::MsgReadIndex) };
        assert_malformed(&mut follower, &read, "must have exactly one context");
        let kind = MessageType::MsgReadIndexResp;
        let answer = Message { term: TERM, kind, ..read };
        assert_malformed(&mut follower, &answer, "must have exactly one context");
    }
}

/// etcd accepts it, and can then only send that member snapshots, which may not exist.
#[test]
fn an_acknowledgement_beyond_the_leaders_log_is_refused() {
    let mut leader = member(Situation::Leader);
    let beyond =
        Message { term: TERM.next(), index: LAST + 3, ..from(TWO, MessageType::MsgAppResp) };
    let reason = "acknowledges entries beyond the leader's log";
    assert_malformed(&mut leader, &beyond, reason);
}

#[test]
fn a_rejection_hint_beyond_the_log_is_harmless() {
    let mut leader = member(Situation::Leader);
    let far = Index(u64::MAX >> 1);
    for (index, reject_hint, log_term) in
        [(LAST, far, TERM), (far, far, Term(1)), (far, far, Term(0))]
    {
        let refusal = from(THREE, MessageType::MsgAppResp);
        let term = TERM.next();
        let refusal = Message { term, reject: true, index, reject_hint, log_term, ..refusal };
        let sent = answers(&mut leader, refusal);
        assert!(sent.iter().all(|message| message.index <= LAST + 2), "{sent:?}");
    }
}

#[test]
fn only_local_storage_responses_are_stepped_locally() {
    use MessageType::{
        MsgAppResp, MsgPreVoteResp, MsgStorageAppendResp, MsgStorageApplyResp, MsgVoteResp,
    };
    let mut follower = member(Situation::Follower);
    let before = follower.view();
    for kind in MessageType::ALL.iter().copied() {
        for (to, from) in [
            (ME, TWO),
            (ME, ME),
            (ME, LOCAL_APPEND_THREAD),
            (ME, LOCAL_APPLY_THREAD),
            (TWO, ME),
            (TWO, LOCAL_APPEND_THREAD),
        ] {
            let stored = matches!(kind, MsgStorageAppendResp | MsgStorageApplyResp);
            let own = matches!(kind, MsgAppResp | MsgVoteResp | MsgPreVoteResp);
            if to == ME && ((stored && from != ME && from != TWO) || (own && from == ME)) {
                continue;
            }
            let message = Message { to, from, term: TERM, ..Message::new(kind, to) };
            let refused = follower.node.step_local(message);
            assert_eq!(refused, Err(StepError::NotFromStorage), "{kind:?} from {from} to {to}");
            assert_eq!(follower.view(), before);
        }
    }
}
