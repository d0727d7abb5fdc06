//! Requests to a member whose raft loop the test plays.

use std::time::Duration;

use proto::etcdserverpb::InternalRaftRequest;
use simkit::poll_once;
use testkit::waiting::step_until;
use types::Index;

use super::keys::COMMIT_RETRY;
use super::*;
use crate::background::tests::{ManualMember, header};
use crate::server::APPLY_GAP_MAX;

fn enable_auth(member: &mut ManualMember) {
    let options = Some(proto::authpb::UserAddOptions { no_password: true });
    let auth_user_add = Some(pb::AuthUserAddRequest {
        name: "root".to_owned(),
        options,
        ..pb::AuthUserAddRequest::default()
    });
    member.apply_ok(&InternalRaftRequest { auth_user_add, ..header() });
    let (user, role) = ("root".to_owned(), "root".to_owned());
    let auth_user_grant_role = Some(pb::AuthUserGrantRoleRequest { user, role });
    member.apply_ok(&InternalRaftRequest { auth_user_grant_role, ..header() });
    let auth_enable = Some(pb::AuthEnableRequest {});
    member.apply_ok(&InternalRaftRequest { auth_enable, ..header() });
}

/// The compaction is applied by then, and "too many requests" would tell the client that nothing
/// has happened.
#[test]
fn a_physical_compaction_is_committed_once_a_full_worker_pool_has_room() {
    let mut member = ManualMember::new();
    member.put("a");
    member.put("a");
    let server = member.server.clone();
    // The pool has no threads here: a job stays until the test runs it.
    let pool = &server.inner.pools.short;
    let queue = || {
        let mut job = pool.run(|| ());
        job.try_recv().is_ok().then_some(job)
    };
    let jobs: Vec<_> = std::iter::from_fn(queue).collect();

    let credentials = Credentials::default();
    let request = pb::CompactionRequest { revision: 3, physical: true };
    let mut compaction = Box::pin(server.compact(&credentials, request));
    assert_eq!(poll_once(&mut compaction), None);
    assert_eq!(member.complete_all().len(), 1);
    assert_eq!(poll_once(&mut compaction), None, "revisions are still being deleted");
    let state = server.state();
    let is_idle = || state.store.turn_compaction().unwrap() == mvcc::CompactionTurn::Idle;
    step_until("the compaction is finished", is_idle);
    assert_eq!(poll_once(&mut compaction), None, "the pool is full");

    jobs.iter().for_each(|_| pool.turn());
    let now = member.advance(COMMIT_RETRY);
    server.inner.timers.turn(now);
    assert_eq!(poll_once(&mut compaction), None, "the commit is queued");
    pool.turn();
    let response = poll_once(&mut compaction).expect("the compaction is committed").unwrap();
    assert_eq!(response.header.unwrap().revision, 3);
}

/// An overloaded member does not spend time on authentication.
#[test]
fn an_overloaded_member_refuses_requests_before_authentication() {
    let mut member = ManualMember::new();
    enable_auth(&mut member);
    let server = member.server.clone();
    let unknown =
        Credentials { token: Some("abcdefghijklmnop.1".to_owned()), ..Credentials::default() };
    let put = || server.put(&unknown, pb::PutRequest::default());
    server.inner.applied.advance(Index(1));
    let invalid = Error::from(auth::Error::InvalidAuthToken);
    assert_eq!(poll_once(&mut Box::pin(put())), Some(Err(invalid)));
    server.inner.raft.progress.set_committed(Index(APPLY_GAP_MAX + 2));
    assert_eq!(poll_once(&mut Box::pin(put())), Some(Err(Error::TooManyRequests)));
}

#[test]
fn sleeping_for_the_longest_duration_does_not_overflow() {
    let member = ManualMember::new();
    assert_eq!(poll_once(&mut Box::pin(member.server.sleep(Duration::MAX))), None);
}
