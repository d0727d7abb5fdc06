//! The leader, and only the leader, revokes expired leases.

use super::super::BackgroundTask as _;
use super::super::leases::Leases;
use super::*;

fn grant(rig: &mut Rig, id: i64, ttl: i64) {
    let lease_grant = Some(pb::LeaseGrantRequest { id, ttl });
    rig.apply_ok(&InternalRaftRequest { lease_grant, ..header() });
}

fn revoked(requests: &[InternalRaftRequest]) -> Vec<i64> {
    requests.iter().filter_map(|it| it.lease_revoke.as_ref()).map(|it| it.id).collect()
}

#[test]
fn an_expired_lease_is_revoked_and_counted() {
    let mut rig = Rig::new();
    rig.lead();
    grant(&mut rig, 7, 10);
    let mut leases = Leases::new(rig.server.clone());
    let now = rig.advance(9 * SECOND);
    let next = leases.turn(now);
    assert_eq!(next, now + lease::TURN_INTERVAL);
    assert!(rig.take_proposed().is_empty());
    let now = rig.advance(SECOND);
    assert!(leases.turn(now) < now + SECOND / 10, "polls soon");
    assert_eq!(revoked(&rig.complete_all()), [7]);
    leases.turn(now);
    assert_eq!(rig.server.metrics().lease_expired.get(), 1);
    assert!(rig.server.state().lessor.is_empty());
}

#[test]
fn a_follower_revokes_no_leases() {
    let mut rig = Rig::new();
    rig.lead();
    grant(&mut rig, 7, 10);
    let mut leases = Leases::new(rig.server.clone());
    rig.follow();
    let now = rig.advance(60 * SECOND);
    leases.turn(now);
    assert!(rig.take_proposed().is_empty());
}

/// A member that was paused believes that it leads, so it asks its peers first.
#[test]
fn leadership_is_confirmed_before_anything_is_revoked() {
    let mut rig = Rig::new();
    rig.lead();
    rig.server.inner.raft.progress.set_sole_leader(false);
    grant(&mut rig, 7, 10);
    let mut leases = Leases::new(rig.server.clone());
    let now = rig.advance(60 * SECOND);
    leases.turn(now);
    rig.take_events();
    assert_eq!((rig.proposed.len(), rig.reads.len()), (0, 1));
    rig.reads.pop().unwrap().send(Err(Error::LeaderChanged)).unwrap();
    leases.turn(now);
    assert!(rig.take_proposed().is_empty(), "leadership was not confirmed");
    // The lessor hands the lease out again, and this time leadership is confirmed.
    let now = rig.advance(10 * SECOND);
    leases.turn(now);
    rig.take_events();
    rig.reads.pop().unwrap().send(Ok(())).unwrap();
    leases.turn(now);
    assert_eq!(revoked(&rig.take_proposed()), [7]);
}

#[test]
fn no_lease_is_revoked_if_leadership_is_lost_during_confirmation() {
    let mut rig = Rig::new();
    rig.lead();
    rig.server.inner.raft.progress.set_sole_leader(false);
    grant(&mut rig, 7, 10);
    let mut leases = Leases::new(rig.server.clone());
    let now = rig.advance(60 * SECOND);
    leases.turn(now);
    rig.take_events();
    rig.follow();
    rig.reads.pop().unwrap().send(Ok(())).unwrap();
    leases.turn(now);
    assert!(rig.take_proposed().is_empty());
}

#[test]
fn pending_revokes_are_bounded() {
    let mut rig = Rig::new();
    rig.lead();
    (1..=200).for_each(|id| grant(&mut rig, id, 10));
    let mut leases = Leases::new(rig.server.clone());
    let now = rig.advance(10 * SECOND);
    let mut sizes = Vec::new();
    for _ in 0..5 {
        leases.turn(now);
        sizes.push(rig.complete_all().len());
    }
    assert_eq!(sizes, [64, 64, 64, 8, 0]);
    assert_eq!(rig.server.metrics().lease_expired.get(), 200);
}

#[test]
fn a_failed_revoke_is_retried_and_never_proposed_twice_at_once() {
    let mut rig = Rig::new();
    rig.lead();
    grant(&mut rig, 7, 10);
    let mut leases = Leases::new(rig.server.clone());
    let now = rig.advance(10 * SECOND);
    leases.turn(now);
    rig.take_events();
    assert_eq!(rig.proposed.len(), 1);
    let now = rig.advance(10 * SECOND);
    leases.turn(now);
    rig.take_events();
    assert_eq!(rig.proposed.len(), 1, "the first revoke is still pending");
    rig.fail_all(&Error::Timeout);
    leases.turn(now);
    let now = rig.advance(10 * SECOND);
    leases.turn(now);
    assert_eq!(revoked(&rig.take_proposed()), [7]);
    assert_eq!(rig.server.metrics().lease_expired.get(), 0);
}

#[test]
fn long_leases_are_checkpointed() {
    let mut rig = Rig::with(|config| config.features.lease_checkpoint = true);
    rig.lead();
    grant(&mut rig, 7, 3600);
    let mut leases = Leases::new(rig.server.clone());
    let now = rig.advance(300 * SECOND);
    leases.turn(now);
    let requests = rig.complete_all();
    let checkpoints = &requests[0].lease_checkpoint.as_ref().unwrap().checkpoints;
    assert_eq!((checkpoints[0].id, checkpoints[0].remaining_ttl), (7, 3300));
}

#[test]
fn expired_leases_are_revoked_as_root() {
    let mut rig = Rig::new();
    rig.lead();
    enable_auth(&mut rig);
    grant_as_root(&mut rig, 7, 10);
    let mut leases = Leases::new(rig.server.clone());
    let now = rig.advance(10 * SECOND);
    leases.turn(now);
    let requests = rig.complete_all();
    let header = requests[0].header.as_ref().unwrap();
    assert_eq!(header.username, "root");
    assert_eq!(header.auth_revision, rig.server.state().auth.revision());
    leases.turn(now);
    assert_eq!(rig.server.metrics().lease_expired.get(), 1);
}

fn enable_auth(rig: &mut Rig) {
    let name = || "root".to_owned();
    let options = Some(proto::authpb::UserAddOptions { no_password: true });
    let user = pb::AuthUserAddRequest { name: name(), options, ..Default::default() };
    rig.apply_ok(&InternalRaftRequest { auth_user_add: Some(user), ..header() });
    let role = pb::AuthRoleAddRequest { name: name() };
    rig.apply_ok(&InternalRaftRequest { auth_role_add: Some(role), ..header() });
    let granted = pb::AuthUserGrantRoleRequest { user: name(), role: name() };
    rig.apply_ok(&InternalRaftRequest { auth_user_grant_role: Some(granted), ..header() });
    let auth_enable = Some(pb::AuthEnableRequest {});
    rig.apply_ok(&InternalRaftRequest { auth_enable, ..header() });
}

fn grant_as_root(rig: &mut Rig, id: i64, ttl: i64) {
    let mut request = header();
    request.lease_grant = Some(pb::LeaseGrantRequest { id, ttl });
    let root = rig.server.state().auth.root_info();
    root.write_to(request.header.as_mut().unwrap());
    rig.apply_ok(&request);
}
