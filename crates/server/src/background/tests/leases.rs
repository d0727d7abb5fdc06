//! The leader, and only the leader, revokes expired leases.

use super::super::BackgroundTask as _;
use super::super::leases::Leases;
use super::*;

fn grant(member: &mut ManualMember, id: i64, ttl: i64) {
    let lease_grant = Some(pb::LeaseGrantRequest { id, ttl });
    member.apply_ok(&InternalRaftRequest { lease_grant, ..header() });
}

fn revoked(requests: &[InternalRaftRequest]) -> Vec<i64> {
    requests.iter().filter_map(|it| it.lease_revoke.as_ref()).map(|it| it.id).collect()
}

#[test]
fn an_expired_lease_is_revoked_and_counted() {
    let mut member = ManualMember::new();
    member.lead();
    grant(&mut member, 7, 10);
    let mut leases = Leases::new(member.server.clone());
    let now = member.advance(9 * SECOND);
    let next = leases.turn(now);
    assert_eq!(next, now + lease::TURN_INTERVAL);
    assert!(member.take_proposed().is_empty());
    let now = member.advance(SECOND);
    assert!(leases.turn(now) < now + SECOND / 10, "polls soon");
    assert_eq!(revoked(&member.complete_all()), [7]);
    leases.turn(now);
    assert_eq!(member.server.metrics().lease_expired.get(), 1);
    assert!(member.server.state().lessor.is_empty());
}

#[test]
fn a_follower_revokes_no_leases() {
    let mut member = ManualMember::new();
    member.lead();
    grant(&mut member, 7, 10);
    let mut leases = Leases::new(member.server.clone());
    member.follow();
    let now = member.advance(60 * SECOND);
    leases.turn(now);
    assert!(member.take_proposed().is_empty());
}

/// A member that was paused may no longer lead, so it confirms its leadership first.
#[test]
fn leadership_is_confirmed_before_anything_is_revoked() {
    let mut member = ManualMember::new();
    member.lead();
    member.server.inner.raft.progress.set_sole_leader(false);
    grant(&mut member, 7, 10);
    let mut leases = Leases::new(member.server.clone());
    let now = member.advance(60 * SECOND);
    leases.turn(now);
    member.take_events();
    assert_eq!((member.proposed.len(), member.reads.len()), (0, 1));
    member.reads.pop().unwrap().send(Err(Error::LeaderChanged)).unwrap();
    leases.turn(now);
    assert!(member.take_proposed().is_empty(), "leadership was not confirmed");
    // The lessor hands the lease out again, and this time leadership is confirmed.
    let now = member.advance(10 * SECOND);
    leases.turn(now);
    member.take_events();
    member.reads.pop().unwrap().send(Ok(())).unwrap();
    leases.turn(now);
    assert_eq!(revoked(&member.take_proposed()), [7]);
}

#[test]
fn no_lease_is_revoked_if_leadership_is_lost_during_confirmation() {
    let mut member = ManualMember::new();
    member.lead();
    member.server.inner.raft.progress.set_sole_leader(false);
    grant(&mut member, 7, 10);
    let mut leases = Leases::new(member.server.clone());
    let now = member.advance(60 * SECOND);
    leases.turn(now);
    member.take_events();
    member.follow();
    member.reads.pop().unwrap().send(Ok(())).unwrap();
    leases.turn(now);
    assert!(member.take_proposed().is_empty());
}

#[test]
fn pending_revokes_are_bounded() {
    let mut member = ManualMember::new();
    member.lead();
    (1..=200).for_each(|id| grant(&mut member, id, 10));
    let mut leases = Leases::new(member.server.clone());
    let now = member.advance(10 * SECOND);
    let mut sizes = Vec::new();
    for _ in 0..5 {
        leases.turn(now);
        sizes.push(member.complete_all().len());
    }
    assert_eq!(sizes, [64, 64, 64, 8, 0]);
    assert_eq!(member.server.metrics().lease_expired.get(), 200);
}

#[test]
fn a_failed_revoke_is_retried_and_never_proposed_twice_at_once() {
    let mut member = ManualMember::new();
    member.lead();
    grant(&mut member, 7, 10);
    let mut leases = Leases::new(member.server.clone());
    let now = member.advance(10 * SECOND);
    leases.turn(now);
    member.take_events();
    assert_eq!(member.proposed.len(), 1);
    let now = member.advance(10 * SECOND);
    leases.turn(now);
    member.take_events();
    assert_eq!(member.proposed.len(), 1, "the first revoke is still pending");
    member.fail_all(&Error::Timeout);
    leases.turn(now);
    let now = member.advance(10 * SECOND);
    leases.turn(now);
    assert_eq!(revoked(&member.take_proposed()), [7]);
    assert_eq!(member.server.metrics().lease_expired.get(), 0);
}

#[test]
fn long_leases_are_checkpointed() {
    let mut member = ManualMember::with(|config| config.features.lease_checkpoint = true);
    member.lead();
    grant(&mut member, 7, 3600);
    let mut leases = Leases::new(member.server.clone());
    let now = member.advance(300 * SECOND);
    leases.turn(now);
    let requests = member.complete_all();
    let checkpoints = &requests[0].lease_checkpoint.as_ref().unwrap().checkpoints;
    assert_eq!((checkpoints[0].id, checkpoints[0].remaining_ttl), (7, 3300));
}

#[test]
fn expired_leases_are_revoked_as_root() {
    let mut member = ManualMember::new();
    member.lead();
    enable_auth(&mut member);
    grant_as_root(&mut member, 7, 10);
    let mut leases = Leases::new(member.server.clone());
    let now = member.advance(10 * SECOND);
    leases.turn(now);
    let requests = member.complete_all();
    let header = requests[0].header.as_ref().unwrap();
    assert_eq!(header.username, "root");
    assert_eq!(header.auth_revision, member.server.state().auth.revision());
    leases.turn(now);
    assert_eq!(member.server.metrics().lease_expired.get(), 1);
}

fn enable_auth(member: &mut ManualMember) {
    let name = || "root".to_owned();
    let options = Some(proto::authpb::UserAddOptions { no_password: true });
    let user = pb::AuthUserAddRequest { name: name(), options, ..Default::default() };
    member.apply_ok(&InternalRaftRequest { auth_user_add: Some(user), ..header() });
    let role = pb::AuthRoleAddRequest { name: name() };
    member.apply_ok(&InternalRaftRequest { auth_role_add: Some(role), ..header() });
    let granted = pb::AuthUserGrantRoleRequest { user: name(), role: name() };
    member.apply_ok(&InternalRaftRequest { auth_user_grant_role: Some(granted), ..header() });
    let auth_enable = Some(pb::AuthEnableRequest {});
    member.apply_ok(&InternalRaftRequest { auth_enable, ..header() });
}

fn grant_as_root(member: &mut ManualMember, id: i64, ttl: i64) {
    let mut request = header();
    request.lease_grant = Some(pb::LeaseGrantRequest { id, ttl });
    let root = member.server.state().auth.root_info();
    root.write_to(request.header.as_mut().unwrap());
    member.apply_ok(&request);
}
