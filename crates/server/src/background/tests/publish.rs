//! A member retries its publication until it is applied.

use super::super::BackgroundTask as _;
use super::super::corruption::ClusterPeers;
use super::super::publish::Publish;
use super::*;
use sync::oneshot;

fn publish(member: &ManualMember) -> Publish {
    Publish::new(member.server.clone(), Arc::new(ClusterPeers(member.server.clone())))
}

#[test]
fn name_and_client_urls_are_published() {
    let mut member = ManualMember::with(|config| config.name = "m1".to_owned());
    let mut publish = publish(&member);
    let mut waiting = publish.published().wait();
    let now = member.now();
    publish.turn(now);
    member.complete_all();
    assert_eq!(publish.turn(now), Duration::MAX, "the task is done");
    assert_eq!(waiting.try_recv(), Ok(Some(())));
    let members = member.server.state().cluster.now();
    let attributes = &members.member(LOCAL).unwrap().attributes;
    assert_eq!(attributes.name, "m1");
    assert_eq!(attributes.client_urls, ["http://localhost:2379"]);
}

#[test]
fn a_failed_publication_is_retried() {
    let mut member = ManualMember::new();
    let mut publish = publish(&member);
    let mut waiting = publish.published().wait();
    for _ in 0..3 {
        let now = member.advance(SECOND);
        publish.turn(now);
        member.fail_all(&Error::Timeout);
        publish.turn(now);
        assert_eq!(waiting.try_recv(), Ok(None));
    }
    let now = member.advance(SECOND);
    publish.turn(now);
    member.complete_all();
    publish.turn(now);
    assert_eq!(waiting.try_recv(), Ok(Some(())));
}

#[test]
fn a_publication_is_repeated_at_once_under_a_new_leader() {
    let mut member = ManualMember::new();
    member.follow();
    let mut publish = publish(&member);
    let now = member.now();
    publish.turn(now);
    assert_eq!(member.take_proposed().len(), 1);
    publish.turn(now);
    assert!(member.take_proposed().is_empty());
    member.lead();
    assert_eq!(publish.turn(now), now);
    publish.turn(now);
    assert_eq!(member.take_proposed().len(), 1);
    publish.turn(now);
    assert!(member.take_proposed().is_empty(), "proposed once only");
}

/// The raft loop holds a proposal until there is a leader. A second one would be applied as well,
/// and the first would count as failed.
#[test]
fn a_publication_before_the_first_leader_is_not_repeated() {
    let mut member = ManualMember::new();
    let mut publish = publish(&member);
    let mut waiting = publish.published().wait();
    let now = member.now();
    publish.turn(now);
    member.follow();
    let polled_again = publish.turn(now);
    assert!(polled_again > now, "the proposal is not given up");
    member.complete_all();
    publish.turn(now);
    assert_eq!(waiting.try_recv(), Ok(Some(())));
    assert!(member.take_proposed().is_empty(), "proposed once only");
    assert_eq!(member.server.inner.context.metrics.proposals_failed.get(), 0);
}

#[test]
fn the_first_leader_may_be_replaced_by_another() {
    let mut member = ManualMember::new();
    let mut publish = publish(&member);
    let now = member.now();
    publish.turn(now);
    member.follow();
    publish.turn(now);
    assert_eq!(member.take_proposed().len(), 1);
    member.lead();
    publish.turn(now);
    publish.turn(now);
    assert_eq!(member.take_proposed().len(), 1, "the other leader may not have it");
}

#[test]
fn a_publication_is_repeated_at_once_after_a_snapshot() {
    let mut member = ManualMember::new();
    member.follow();
    let mut publish = publish(&member);
    let mut waiting = publish.published().wait();
    let now = member.now();
    publish.turn(now);
    assert_eq!(member.take_proposed().len(), 1);
    let config = ServerConfig::new("default", "/data");
    let sent = state(&SimDisk::new(1), &SimClock::default(), &config);
    member.server.inner.state.replace(sent.into());
    assert_eq!(publish.turn(now), now);
    publish.turn(now);
    member.complete_all();
    publish.turn(now);
    assert_eq!(waiting.try_recv(), Ok(Some(())));
}

#[test]
fn a_stopping_member_cancels_the_waiters() {
    let mut member = ManualMember::new();
    let mut publish = publish(&member);
    let published = publish.published();
    let before = published.wait();
    let now = member.now();
    publish.turn(now);
    member.fail_all(&Error::Stopped);
    assert_eq!(publish.turn(now), Duration::MAX);
    for mut waiting in [before, published.wait()] {
        assert_eq!(waiting.try_recv(), Err(oneshot::Canceled));
    }
}

#[test]
fn dropping_the_task_cancels_the_waiters() {
    let member = ManualMember::new();
    let publish = publish(&member);
    let published = publish.published();
    let before = published.wait();
    drop(publish);
    for mut waiting in [before, published.wait()] {
        assert_eq!(waiting.try_recv(), Err(oneshot::Canceled));
    }
}

#[test]
fn the_initial_corruption_check_runs_before_the_publication() {
    let mut member = ManualMember::with(|config| config.features.initial_corrupt_check = true);
    let mut publish = publish(&member);
    let now = member.now();
    publish.turn(now);
    assert!(member.take_proposed().is_empty(), "not before the check");
    // The pool has no threads, so the hash fails when it is closed, and the member must not start.
    member.server.inner.pools.close();
    publish.turn(now);
    assert!(member.server.is_stopping());
    assert!(member.take_proposed().is_empty());
}
