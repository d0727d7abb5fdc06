//! A member publishes what it is, until it is heard.

use super::super::BackgroundTask as _;
use super::super::corruption::Others;
use super::super::publish::Publish;
use super::*;
use sync::oneshot;

fn publish(rig: &Rig) -> Publish {
    Publish::new(rig.server.clone(), Arc::new(Others(rig.server.clone())))
}

#[test]
fn name_and_client_urls_are_published() {
    let mut rig = Rig::with(|config| config.name = "m1".to_owned());
    let mut publish = publish(&rig);
    let mut waiting = publish.published().wait();
    let now = rig.now();
    publish.turn(now);
    rig.complete_all();
    assert_eq!(publish.turn(now), Duration::MAX, "nothing is left to do");
    assert_eq!(waiting.try_recv(), Ok(Some(())));
    let members = rig.server.state().cluster.now();
    let attributes = &members.member(LOCAL).unwrap().attributes;
    assert_eq!(attributes.name, "m1");
    assert_eq!(attributes.client_urls, ["http://localhost:2379"]);
}

#[test]
fn a_publication_that_fails_is_tried_again() {
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
fn a_publication_that_the_leader_may_not_have_heard_of_is_made_again_at_once() {
    let mut rig = Rig::new();
    let mut publish = publish(&rig);
    let now = rig.now();
    publish.turn(now);
    assert_eq!(rig.take_proposed().len(), 1, "nobody leads: it may be lost");
    publish.turn(now);
    assert!(rig.take_proposed().is_empty());
    rig.follow();
    assert_eq!(publish.turn(now), now);
    publish.turn(now);
    assert_eq!(rig.take_proposed().len(), 1);
    publish.turn(now);
    assert!(rig.take_proposed().is_empty(), "once");
}

#[test]
fn a_publication_that_a_snapshot_may_have_is_made_again_at_once() {
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
fn a_member_that_stops_leaves_nobody_waiting() {
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
fn a_thread_that_ends_leaves_nobody_waiting() {
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
fn with_the_gate_hashes_are_compared_first() {
    let mut rig = Rig::with(|config| config.features.initial_corrupt_check = true);
    let mut publish = publish(&rig);
    let now = rig.now();
    publish.turn(now);
    assert!(rig.take_proposed().is_empty(), "not before");
    // Nobody works in the pool of this member: without a hash of its own it must not start.
    rig.server.inner.pools.close();
    publish.turn(now);
    assert!(rig.server.is_stopping());
    assert!(rig.take_proposed().is_empty());
}
