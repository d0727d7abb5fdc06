//! Requests to a member whose raft loop the test simulates.

use std::time::Duration;

use proto::etcdserverpb::InternalRaftRequest;
use simkit::poll_once;
use testkit::waiting::step_until;
use types::{Index, LeaseId};

use super::keys::COMMIT_RETRY;
use super::*;
use crate::background::tests::{ManualMember, header};
use crate::propose::proposer::APPLY_GAP_MAX;

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

/// A sole leader reads without the raft loop, so a health check has to ask the loop itself.
#[test]
fn a_raft_loop_that_hangs_is_noticed_although_reads_work() {
    let mut member = ManualMember::new();
    member.lead();
    let server = member.server.clone();
    assert_eq!(poll_once(&mut Box::pin(server.linearizable())), Some(Ok(())));
    let mut responds = Box::pin(server.raft_loop_responds());
    assert_eq!(poll_once(&mut responds), None, "nothing takes the events of the loop");
    let now = member.advance(server.config().request_timeout());
    server.inner.timers.turn(now);
    assert_eq!(poll_once(&mut responds), Some(Err(Error::Timeout)));
}

fn revoke(id: i64) -> InternalRaftRequest {
    let lease_revoke = Some(pb::LeaseRevokeRequest { id });
    InternalRaftRequest { lease_revoke, ..header() }
}

/// The checkpoint of the lease has to be cleared through the log first, and meanwhile the lease is
/// revoked.
#[test]
fn a_renewal_that_a_revocation_overtakes_finds_no_lease() {
    let mut member = ManualMember::with(|config| config.features.lease_checkpoint = true);
    member.lead();
    let server = member.server.clone();
    let lease_grant = Some(pb::LeaseGrantRequest { id: 7, ttl: 600 });
    member.apply_ok(&InternalRaftRequest { lease_grant, ..header() });
    let checkpoints = vec![pb::LeaseCheckpoint { id: 7, remaining_ttl: 100 }];
    let lease_checkpoint = Some(pb::LeaseCheckpointRequest { checkpoints });
    member.apply_ok(&InternalRaftRequest { lease_checkpoint, ..header() });

    let credentials = Credentials::default();
    let mut renewals = [7, 7].map(|id| Box::pin(server.lease_renew(&credentials, id)));
    let mut forwarded = Box::pin(server.renew(LeaseId(7)));
    renewals.iter_mut().for_each(|renewal| assert_eq!(poll_once(renewal), None));
    assert_eq!(poll_once(&mut forwarded), None, "the checkpoint is proposed");
    member.apply_ok(&revoke(7));
    assert_eq!(member.complete_all().len(), 3, "each renewal has proposed a checkpoint");
    renewals.iter_mut().for_each(|renewal| assert_eq!(poll_once(renewal), Some(Ok(0))));
    let not_found = Error::Renew(lease::RenewError::NotFound);
    assert_eq!(poll_once(&mut forwarded), Some(Err(not_found)));
}

/// A hash and the revision in its header belong to the same state, also if writes or a snapshot
/// arrive while it waits for the pool.
#[test]
fn a_hash_has_the_revision_of_the_state_that_was_hashed() {
    let mut member = ManualMember::new();
    member.put("a");
    let server = member.server.clone();
    let credentials = Credentials::default();
    let before = server.state();
    let mut hash = Box::pin(server.hash(&credentials));
    let mut hash_kv = Box::pin(server.hash_kv(&credentials, 0));
    assert!(poll_once(&mut hash).is_none() && poll_once(&mut hash_kv).is_none(), "queued");
    member.put("a");
    member.receive_empty_snapshot();
    assert_eq!(server.state().store.current(), 1, "the snapshot has no keys");
    (0..2).for_each(|_| server.inner.pools.long.turn());

    let hash = poll_once(&mut hash).expect("the job is done").unwrap();
    let expected = before.backend.hash(&backend::schema::ignored_by_hash).unwrap();
    assert_eq!((hash.hash, hash.header.unwrap().revision), (expected, 3));
    let hash_kv = poll_once(&mut hash_kv).expect("the job is done").unwrap();
    let (expected, current) = before.store.hash_kv(0).unwrap();
    assert_eq!((hash_kv.hash, hash_kv.hash_revision), (expected.hash, 3));
    assert_eq!(hash_kv.header.unwrap().revision, current);
}
