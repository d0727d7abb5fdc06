//! A member retries its publication until it is applied.

use super::super::BackgroundTask as _;
use super::super::corruption::ClusterPeers;
use super::super::publish::Publish;
use super::*;
use sync::oneshot;

fn publish(rig: &Rig) -> Publish {
    Publish::new(rig.server.clone(), Arc::new(ClusterPeers(rig.server.clone())))
}

#[test]
fn name_and_client_urls_are_published() {
    let mut rig = Rig::with(|config| config.name = "m1".to_owned());
    let mut publish = publish(&rig);
    let mut waiting = publish.published().wait();
    let now = rig.now();
    publish.turn(now);
    rig.complete_all();
    assert_eq!(publish.turn(now), Duration::MAX, "the task is done");
    assert_eq!(waiting.try_recv(), Ok(Some(())));
    let members = rig.server.state().cluster.now();
    let attributes = &members.member(LOCAL).unwrap().attributes;
    assert_eq!(attributes.name, "m1");
    assert_eq!(attributes.client_urls, ["http://localhost:2379"]);
}

#[test]
fn a_failed_publication_is_retried() {
    let mut rig = Rig::new();
    let mut publish = publish(&rig);
    let mut waiting = publish.published().wait();
    for _ in 0..3 {
        let now = rig.advance(SECOND);
        publish.turn(now);
        rig.fail_all(&Error::Timeout);
        publish.turn(now);
        assert_eq!(waiting.try_recv(), Ok(None));
    }
    let now = rig.advance(SECOND);
    publish.turn(now);
    rig.complete_all();
    publish.turn(now);
    assert_eq!(waiting.try_recv(), Ok(Some(())));
}

#[test]
fn a_publication_is_repeated_at_once_under_a_new_leader() {
    let mut rig = Rig::new();
    let mut publish = publish(&rig);
    let now = rig.now();
    publish.turn(now);
    assert_eq!(rig.take_proposed().len(), 1, "no leader: the proposal may be lost");
    publish.turn(now);
    assert!(rig.take_proposed().is_empty());
    rig.follow();
    assert_eq!(publish.turn(now), now);
    publish.turn(now);
    assert_eq!(rig.take_proposed().len(), 1);
    publish.turn(now);
    assert!(rig.take_proposed().is_empty(), "proposed once only");
}

#[test]
fn a_publication_is_repeated_at_once_after_a_snapshot() {
    let mut rig = Rig::new();
    rig.follow();
    let mut publish = publish(&rig);
    let mut waiting = publish.published().wait();
    let now = rig.now();
    publish.turn(now);
    assert_eq!(rig.take_proposed().len(), 1);
    let config = ServerConfig::new("default", "/data");
    let sent = state(&SimDisk::new(1), &SimClock::default(), &config);
    rig.server.inner.state.replace(sent.into());
    assert_eq!(publish.turn(now), now);
    publish.turn(now);
    rig.complete_all();
    publish.turn(now);
    assert_eq!(waiting.try_recv(), Ok(Some(())));
}

#[test]
fn a_stopping_member_cancels_the_waiters() {
    let mut rig = Rig::new();
    let mut publish = publish(&rig);
    let published = publish.published();
    let before = published.wait();
    let now = rig.now();
    publish.turn(now);
    rig.fail_all(&Error::Stopped);
    assert_eq!(publish.turn(now), Duration::MAX);
    for mut waiting in [before, published.wait()] {
        assert_eq!(waiting.try_recv(), Err(oneshot::Canceled));
    }
}

#[test]
fn dropping_the_task_cancels_the_waiters() {
    let rig = Rig::new();
    let publish = publish(&rig);
    let published = publish.published();
    let before = published.wait();
    drop(publish);
    for mut waiting in [before, published.wait()] {
        assert_eq!(waiting.try_recv(), Err(oneshot::Canceled));
    }
}

#[test]
fn the_initial_corruption_check_runs_before_the_publication() {
    let mut rig = Rig::with(|config| config.features.initial_corrupt_check = true);
    let mut publish = publish(&rig);
    let now = rig.now();
    publish.turn(now);
    assert!(rig.take_proposed().is_empty(), "not before the check");
    // The pool has no threads, so the hash fails when it is closed, and the member must not start.
    rig.server.inner.pools.close();
    publish.turn(now);
    assert!(rig.server.is_stopping());
    assert!(rig.take_proposed().is_empty());
}
