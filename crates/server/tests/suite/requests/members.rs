//! Requests about members: list, add, promote, update, remove, leader transfer.

use std::sync::Arc;

use membership::ConfChangeRefusal;
use membership::reconfig::UnsafeReconfig;
use proto::etcdserverpb as pb;
use server::{Error, NoPeers, Server, StartError};
use simkit::poll_once;

use super::{
    ANONYMOUS, TestMember, block_on, put, put_request, start_fast, start_with_clock, wait_until,
};

fn add(server: &Server, url: &str, is_learner: bool) -> Result<pb::MemberAddResponse, Error> {
    let peer_urls = vec![url.to_owned()];
    block_on(server.member_add(ANONYMOUS, pb::MemberAddRequest { peer_urls, is_learner }))
}

fn remove(server: &Server, id: u64) -> Result<pb::MemberRemoveResponse, Error> {
    block_on(server.member_remove(ANONYMOUS, pb::MemberRemoveRequest { id }))
}

fn promote(server: &Server, id: u64) -> Result<pb::MemberPromoteResponse, Error> {
    block_on(server.member_promote(ANONYMOUS, pb::MemberPromoteRequest { id }))
}

fn update(server: &Server, id: u64, url: &str) -> Result<pb::MemberUpdateResponse, Error> {
    let peer_urls = vec![url.to_owned()];
    block_on(server.member_update(ANONYMOUS, pb::MemberUpdateRequest { id, peer_urls }))
}

fn list(server: &Server) -> pb::MemberListResponse {
    let request = pb::MemberListRequest { linearizable: true };
    block_on(server.member_list(ANONYMOUS, request)).unwrap()
}

#[test]
fn the_member_list_contains_the_local_member() {
    let running = TestMember::builder().start();
    let server = running.server();
    put(&server, "a", "1");
    let response = list(&server);
    let [member] = &response.members[..] else { panic!("{response:?}") };
    assert_eq!((member.id, member.name.as_str()), (server.local().0, "default"));
    assert_eq!(member.peer_urls, ["http://localhost:2380"]);
    let header = response.header.unwrap();
    assert_eq!(header.revision, 0, "as in etcd");
    assert_eq!((header.cluster_id, header.member_id), (server.cluster_id().0, server.local().0));
    assert!(header.raft_term > 0);
}

#[test]
fn a_learner_is_added_and_removed() {
    let running = TestMember::builder().start();
    let server = running.server();
    let added = add(&server, "http://b:2380", true).unwrap();
    let learner = added.member.unwrap();
    assert!(learner.is_learner && learner.name.is_empty());
    assert_eq!(added.members.len(), 2);
    assert!(added.members.is_sorted_by_key(|member| member.id));
    assert_eq!(added.members, list(&server).members);
    let another = add(&server, "http://c:2380", true).unwrap_err();
    assert_eq!(another, Error::Members(ConfChangeRefusal::TooManyLearners));
    assert_eq!(put(&server, "a", "1"), 2, "a learner does not count toward the quorum");
    let left = remove(&server, learner.id).unwrap();
    assert_eq!(left.members.len(), 1);
    assert_eq!(
        remove(&server, learner.id).unwrap_err(),
        Error::Members(ConfChangeRefusal::IdRemoved)
    );
}

#[test]
fn a_member_with_too_many_learners_does_not_start() {
    let mut running = TestMember::builder().start();
    add(&running.server(), "http://b:2380", true).unwrap();
    let refused = running.restart(|config| config.max_learners = 0).unwrap_err();
    assert_eq!(refused.to_string(), "membership: too many learner members in cluster");
    running.restart(|config| config.max_learners = 1).unwrap();
    assert_eq!(list(&running.server()).members.len(), 2);
}

#[test]
fn a_learner_that_lags_is_not_promoted() {
    let running = TestMember::builder().start();
    let server = running.server();
    let learner = add(&server, "http://b:2380", true).unwrap().member.unwrap().id;
    let lags = promote(&server, learner).unwrap_err();
    assert_eq!(lags, Error::Unsafe(UnsafeReconfig::LearnerNotReady));
    assert_eq!(promote(&server, 1).unwrap_err(), Error::Members(ConfChangeRefusal::IdNotFound));
    let votes = promote(&server, server.local().0).unwrap_err();
    assert_eq!(votes, Error::Members(ConfChangeRefusal::MemberNotLearner));
}

#[test]
fn unsafe_and_invalid_conf_changes_are_refused() {
    let running = TestMember::builder().start();
    let server = running.server();
    let last = remove(&server, server.local().0).unwrap_err();
    assert_eq!(last, Error::Unsafe(UnsafeReconfig::NotEnoughStarted));
    assert_eq!(remove(&server, 1).unwrap_err(), Error::Members(ConfChangeRefusal::IdNotFound));
    let taken = add(&server, "http://localhost:2380", true).unwrap_err();
    assert_eq!(taken, Error::Members(ConfChangeRefusal::PeerUrlExists));
    let unknown = update(&server, 1, "http://b:2380").unwrap_err();
    assert_eq!(unknown, Error::Members(ConfChangeRefusal::IdNotFound));
    assert_eq!(list(&server).members.len(), 1);
}

/// Consensus accepts one conf change at a time, so a reply must not arrive before the next one is
/// possible.
#[test]
fn a_conf_change_may_follow_the_reply_of_another_at_once() {
    let running = TestMember::builder().start();
    let server = running.server();
    for n in 0..100 {
        let url = format!("http://moved{n}:2380");
        let moved = update(&server, server.local().0, &url).unwrap();
        assert_eq!(moved.members[0].peer_urls, [url]);
    }
}

#[test]
fn concurrent_conf_changes_are_applied_one_after_the_other() {
    let running = TestMember::builder().start();
    let server = running.server();
    let member = server.local().0;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for n in 0..10 {
                    update(server, member, &format!("http://moved{thread}-{n}:2380")).unwrap();
                }
            });
        }
    });
    assert_eq!(put(&server, "a", "1"), 2);
}

#[test]
fn an_update_changes_only_the_peer_urls() {
    let running = TestMember::builder().start();
    let server = running.server();
    let moved = update(&server, server.local().0, "http://moved:2380").unwrap();
    assert_eq!(moved.members[0].peer_urls, ["http://moved:2380"]);
    assert_eq!(moved.members[0].name, "default", "the name changed");
    assert_eq!(moved.header.unwrap().revision, 0);
}

#[test]
fn a_voter_may_be_added_while_all_voters_are_started() {
    let running = TestMember::builder().start();
    let server = running.server();
    let added = add(&server, "http://b:2380", false).unwrap();
    assert_eq!(added.members.iter().filter(|member| !member.is_learner).count(), 2);
    let third = add(&server, "http://c:2380", false).unwrap_err();
    assert_eq!(third, Error::Unsafe(UnsafeReconfig::NotEnoughStarted));
    let learner = add(&server, "http://c:2380", true).unwrap_err();
    assert_eq!(learner, Error::Unsafe(UnsafeReconfig::Unhealthy));
}

#[test]
fn without_a_transport_a_second_voter_is_refused() {
    let mut running = TestMember::builder().start();
    add(&running.server(), "http://b:2380", false).unwrap();
    running.stop();
    let without_transport = || TestMember::builder().transport(Arc::new(NoPeers));
    let refused = without_transport().data_dir(running.data_dir()).try_start().unwrap_err();
    assert!(matches!(refused, StartError::NoPeers { voters: 2 }), "{refused}");

    let alone = without_transport().start();
    let server = alone.server();
    assert_eq!(add(&server, "http://b:2380", false).unwrap_err(), Error::NoPeers);
    assert_eq!(add(&server, "http://b:2380", true).unwrap().members.len(), 2);
    assert_eq!(put(&server, "a", "1"), 2);
}

#[test]
fn leadership_moves_only_to_voters() {
    let running = TestMember::builder().start();
    let server = running.server();
    let learner = add(&server, "http://b:2380", true).unwrap().member.unwrap().id;
    let bad = Err(Error::BadLeaderTransferee);
    assert_eq!(block_on(server.move_leader(ANONYMOUS, learner)), bad);
    assert_eq!(block_on(server.move_leader(ANONYMOUS, 1)), bad);
    assert_eq!(
        block_on(server.move_leader(ANONYMOUS, server.local().0)),
        Ok(()),
        "the member leads already"
    );
}

#[test]
fn a_leader_transfer_to_an_unreachable_member_times_out() {
    let running = start_fast(20, |config| config.heartbeat *= 10);
    let server = running.server();
    let added = add(&server, "http://b:2380", false).unwrap().member.unwrap();
    let error = block_on(server.move_leader(ANONYMOUS, added.id)).unwrap_err();
    assert!(matches!(error, Error::TimeoutLeaderTransfer | Error::NotLeader), "{error}");
}

/// Compat: as in etcd, a conf change without a leader has no timeout of the server.
#[test]
fn a_conf_change_without_a_leader_waits_until_the_member_stops() {
    let (mut running, clock) = start_with_clock();
    let server = running.server();
    add(&server, "http://b:2380", false).unwrap();
    let peer_urls = vec!["http://moved:2380".to_owned()];
    let request = pb::MemberUpdateRequest { id: server.local().0, peer_urls };
    let mut moved = Box::pin(server.member_update(ANONYMOUS, request));
    assert!(poll_once(&mut moved).is_none());
    wait_until("the member has no leader", || server.leader().is_none());
    // A put times out meanwhile.
    let mut put = Box::pin(server.put(ANONYMOUS, put_request("a", "1")));
    assert!(poll_once(&mut put).is_none());
    clock.advance(3 * server.config().request_timeout());
    assert!(block_on(put).is_err(), "the put succeeded without a leader");
    assert!(poll_once(&mut moved).is_none(), "the conf change returned without a leader");
    running.stop();
    assert_eq!(block_on(moved).unwrap_err(), Error::Stopped);
}
