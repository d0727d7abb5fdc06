//! Bugs of etcd's robustness record that need a whole member, by the numbers of their reports.

use std::collections::BTreeSet;

use env::{SeededRandom, SimClock, SimDisk};
use prost::Message as _;
use proto::authpb::{Permission, UserAddOptions, permission};
use proto::etcdserverpb as pb;
use raft::{Entry, Message, MessageType};
use server::stages::Stage;
use server::{Error, Propose};
use simkit::poll_once;
use types::{Index, Term};

use crate::scenario::small;
use crate::single_member::{SimPlatform, SingleMember};
use crate::with_peers::{MemberWithPeers, heartbeat};

/// The most rounds until a member leads or a request is applied.
const ROUNDS_MAX: usize = 1000;
/// The stages that a put needs.
const PUT: [Stage; 3] = [Stage::Raft, Stage::Log, Stage::Apply];

/// Returns a single member that leads and is idle.
fn single_member(platform: &SimPlatform) -> SingleMember {
    let mut stages = SingleMember::boot(platform, small()).unwrap();
    for _ in 0..ROUNDS_MAX {
        if stages.is_settled() {
            return stages;
        }
        platform.clock.advance(stages.server().config().heartbeat);
        stages.turn_all();
    }
    panic!("the member does not lead after {ROUNDS_MAX} rounds");
}

fn put() -> pb::PutRequest {
    pb::PutRequest { key: "k".into(), value: "v".into(), ..Default::default() }
}

/// A single member acknowledged a write before its log was synced.
#[test]
fn an_acknowledged_write_of_a_single_member_survives_a_crash_14370() {
    for seed in 0..20 {
        let platform = SimPlatform { disk: SimDisk::new(seed), clock: SimClock::default() };
        let (mut random, mut stages) = (SeededRandom::new(seed), single_member(&platform));
        let mut put = stages.server().propose(put()).unwrap();
        let acknowledged = (0..ROUNDS_MAX).any(|_| {
            stages.turn(PUT[usize::try_from(random.below(3)).unwrap()]);
            poll_once(&mut put).map(|applied| applied.unwrap().result.unwrap()).is_some()
        });
        assert!(acknowledged, "the put is pending after {ROUNDS_MAX} turns");
        for cut in 0..8 {
            let disk = platform.disk.power_cut(cut);
            let stages = single_member(&SimPlatform { disk, clock: SimClock::default() });
            assert_eq!(stages.server().state().store().keys(), 1, "seed {seed}, cut {cut}");
        }
    }
}

/// Lets a leader commit a request.
fn commit<P: Propose>(leader: &mut MemberWithPeers, request: P) {
    let mut proposal = leader.server().propose(request).unwrap();
    let committed = (0..ROUNDS_MAX).any(|_| {
        leader.tick_agreeing(|_| true);
        poll_once(&mut proposal).map(|applied| applied.unwrap().result.unwrap()).is_some()
    });
    assert!(committed, "the request is pending after {ROUNDS_MAX} ticks");
}

/// Sends the database of a leader to a member. Returns its index.
fn send_snapshot(leader: &MemberWithPeers, member: &MemberWithPeers) -> Index {
    let (snapshot, image) = leader.snapshot();
    let index = snapshot.snapshot.as_ref().unwrap().metadata.index;
    let (from, to) = (leader.server().local(), member.server().local());
    let snapshot = Message { from, to, ..snapshot };
    member.server().receive_snapshot(snapshot, &mut &image[..]).unwrap();
    index
}

/// Returns a leader and a follower that has received nothing.
fn leader_and_follower() -> (MemberWithPeers, MemberWithPeers) {
    let mut leader = MemberWithPeers::new(1, 3, |_| {});
    leader.lead();
    let mut member = MemberWithPeers::new(2, 3, |_| {});
    member.follow(leader.server().local(), leader.server().term());
    (leader, member)
}

/// Adds the user alice, which may write a key, and enables authentication.
fn enable_auth(leader: &mut MemberWithPeers) {
    for (user, role) in [("root", "root"), ("alice", "web")] {
        let options = Some(UserAddOptions { no_password: true });
        commit(leader, pb::AuthUserAddRequest { name: user.into(), options, ..Default::default() });
        commit(leader, pb::AuthRoleAddRequest { name: role.into() });
        let (user, role) = (user.into(), role.into());
        commit(leader, pb::AuthUserGrantRoleRequest { user, role });
    }
    let perm_type = permission::Type::Write.into();
    let perm = Permission { perm_type, key: put().key, ..Default::default() };
    let grant = pb::AuthRoleGrantPermissionRequest { name: "web".into(), perm: Some(perm) };
    commit(leader, grant);
    commit(leader, pb::AuthEnableRequest {});
}

/// Returns the log data of a put by alice.
fn put_by_alice(leader: &MemberWithPeers, key: &'static str) -> bytes::Bytes {
    let auth_revision = leader.server().state().auth().revision();
    let header = pb::RequestHeader { id: 77, username: "alice".into(), auth_revision };
    let put = Some(pb::PutRequest { key: key.into(), ..put() });
    let request = pb::InternalRaftRequest { header: Some(header), put, ..Default::default() };
    request.encode_to_vec().into()
}

/// A member that received a snapshot did not know its users, refused what other members applied,
/// and so had other data.
#[test]
fn a_member_applies_with_the_permissions_of_a_received_snapshot_14571() {
    let (mut leader, mut member) = leader_and_follower();
    enable_auth(&mut leader);
    let index = send_snapshot(&leader, &member);
    member.tick();
    assert_eq!(member.server().applied(), index);
    let (term, log_term) = (leader.server().term(), leader.server().state().applied().unwrap().1);
    let entries: Vec<Entry> = [(index.next(), "k"), (index.next().next(), "other")]
        .map(|(index, key)| Entry {
            term,
            index,
            data: put_by_alice(&leader, key),
            ..Entry::default()
        })
        .into();
    let last = entries[1].index;
    let append = Message::new(MessageType::MsgApp, member.server().local());
    let append = Message { term, index, log_term, entries, commit: last, ..append };
    member.deliver(leader.server().local(), append);
    member.tick();
    assert_eq!(member.server().applied(), last);
    // Alice may write one of the keys.
    let state = member.server().state();
    let store = state.store();
    let key = |key: &'static str| pb::RangeRequest { key: key.into(), ..Default::default() };
    let count = |name| store.range(&key(name)).unwrap().count;
    assert_eq!((count("k"), count("other")), (1, 0));
}

/// The second snapshot arrived before the first was applied, and removed its database.
#[test]
fn two_snapshots_in_a_short_time_are_both_applied_18055() {
    const LOG: [Stage; 4] = [Stage::Raft, Stage::Log, Stage::Raft, Stage::Snapshot];
    let (mut leader, mut member) = leader_and_follower();
    let first = send_snapshot(&leader, &member);
    LOG.into_iter().for_each(|stage| member.stages.turn(stage));
    commit(&mut leader, put());
    let second = send_snapshot(&leader, &member);
    LOG.into_iter().for_each(|stage| member.stages.turn(stage));
    assert!(second > first && member.server().applied() < first, "nothing is applied yet");
    member.tick();
    assert!(!member.stages.is_over());
    assert_eq!(member.server().applied(), second);
    assert_eq!(member.server().state().store().keys(), 1);
}

/// Returns the read contexts of the heartbeats, by which peers confirm that this member still
/// leads.
fn read_contexts(sent: &[Message]) -> BTreeSet<bytes::Bytes> {
    let heartbeats = sent.iter().filter(|message| message.kind == MessageType::MsgHeartbeat);
    heartbeats.map(|it| it.context.clone()).filter(|context| !context.is_empty()).collect()
}

/// Delivers the late responses of all peers to heartbeats.
fn respond(leader: &mut MemberWithPeers, sent: &[Message]) {
    for message in sent.iter().filter(|message| message.kind == MessageType::MsgHeartbeat) {
        let (term, context) = (message.term, message.context.clone());
        let response = Message::new(MessageType::MsgHeartbeatResp, message.from);
        leader.deliver(message.to, Message { term, context, ..response });
    }
    PUT.into_iter().for_each(|stage| leader.stages.turn(stage));
}

/// A leader that was paused took late responses for responses to its latest request, while another
/// member led.
#[test]
fn a_read_after_a_pause_is_not_confirmed_by_earlier_responses_20418() {
    let (mut leader, _) = leader_and_follower();
    leader.sent();
    let server = leader.server();
    let mut before = Box::pin(server.linearizable());
    assert!(poll_once(&mut before).is_none());
    let mut sent = Vec::new();
    // Long enough for a retry, and shorter than an election timeout.
    for _ in 0..7 {
        leader.tick();
        sent.extend(leader.sent());
    }
    assert_eq!(read_contexts(&sent).len(), 2, "a retry has its own context");
    // Meanwhile another member leads, and has committed writes.
    let mut after = Box::pin(server.linearizable());
    assert!(poll_once(&mut after).is_none());
    respond(&mut leader, &sent);
    assert_eq!(poll_once(&mut before), Some(Ok(())), "it began before the pause");
    let next = leader.sent();
    let contexts = read_contexts(&next);
    assert!(contexts.is_disjoint(&read_contexts(&sent)) && !contexts.is_empty());
    respond(&mut leader, &sent);
    assert!(poll_once(&mut after).is_none(), "no peer has confirmed this read");
    let term = Term(leader.server().term().0 + 1);
    leader.follow(leader.peers[0], term);
    assert_eq!(poll_once(&mut after), Some(Err(Error::LeaderChanged)));
}

/// Returns the contexts of the read index requests that a follower has forwarded to the leader.
fn forwarded(sent: &[Message]) -> Vec<bytes::Bytes> {
    let requests = sent.iter().filter(|message| message.kind == MessageType::MsgReadIndex);
    requests.map(|message| message.entries[0].data.clone()).collect()
}

/// A follower retried its request with the same context, so that a late response to an earlier one
/// confirmed a later read.
#[test]
fn a_late_response_to_a_follower_confirms_no_later_read_20418() {
    let mut member = MemberWithPeers::new(2, 3, |_| {});
    let (leader, term) = (member.peers[0], Term(5));
    member.follow(leader, term);
    member.sent();
    let server = member.server();
    let mut before = Box::pin(server.linearizable());
    assert!(poll_once(&mut before).is_none());
    let mut contexts = Vec::new();
    for _ in 0..7 {
        member.deliver(leader, heartbeat(term, Index::ZERO));
        member.tick();
        contexts.extend(forwarded(&member.sent()));
    }
    assert_eq!(contexts.iter().collect::<BTreeSet<_>>().len(), 2, "{contexts:?}");
    // The leader changes, and later reads are forwarded to the new one.
    let (leader, term) = (member.peers[1], Term(6));
    member.follow(leader, term);
    assert_eq!(poll_once(&mut before), Some(Err(Error::LeaderChanged)));
    let mut after = Box::pin(server.linearizable());
    assert!(poll_once(&mut after).is_none());
    member.tick();
    let next = forwarded(&member.sent());
    assert_eq!(next.len(), 1);
    let mut respond = |context: bytes::Bytes| {
        let (entries, index) = (vec![Entry::normal(context)], server.applied());
        let response = Message::new(MessageType::MsgReadIndexResp, server.local());
        member.deliver(leader, Message { term, index, entries, ..response });
        PUT.into_iter().for_each(|stage| member.stages.turn(stage));
    };
    contexts.into_iter().for_each(&mut respond);
    assert!(poll_once(&mut after).is_none(), "only earlier requests have responses");
    respond(next[0].clone());
    assert_eq!(poll_once(&mut after), Some(Ok(())));
}
