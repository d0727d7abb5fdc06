//! Requests about leases: grant, renew, time to live, revoke, expiry.

use std::time::Duration;

use lease::{GrantError, Renewal, RevokeError};
use proto::etcdserverpb as pb;
use server::{Error, Refusal, Server};
use types::LeaseId;

use super::{ANONYMOUS, TestMember, block_on, keys, put_request, start_with_clock};

fn grant(server: &Server, id: i64, ttl: i64) -> pb::LeaseGrantResponse {
    block_on(server.lease_grant(ANONYMOUS, pb::LeaseGrantRequest { id, ttl })).unwrap()
}

fn put_with(server: &Server, key: &str, lease: i64) {
    let put = pb::PutRequest { lease, ..put_request(key, "x") };
    block_on(server.put(ANONYMOUS, put)).unwrap();
}

fn time_to_live(server: &Server, id: i64, keys: bool) -> pb::LeaseTimeToLiveResponse {
    let request = pb::LeaseTimeToLiveRequest { id, keys };
    block_on(server.lease_time_to_live(ANONYMOUS, request)).unwrap()
}

fn leases(server: &Server) -> Vec<i64> {
    let response = block_on(server.lease_leases(ANONYMOUS, pb::LeaseLeasesRequest {})).unwrap();
    response.leases.into_iter().map(|lease| lease.id).collect()
}

#[test]
fn a_lease_gets_the_requested_id_or_a_generated_one() {
    let running = TestMember::builder().start();
    let server = running.server();
    let seven = grant(&server, 7, 60);
    assert_eq!((seven.id, seven.ttl), (7, 60));
    let header = seven.header.unwrap();
    assert_eq!((header.revision, header.member_id), (1, server.local().0));
    let chosen = [grant(&server, 0, 60).id, grant(&server, 0, 60).id];
    assert!(chosen[0] > 0 && chosen[1] > 0 && chosen[0] != chosen[1], "{chosen:?}");
    assert_eq!(leases(&server).len(), 3);
}

#[test]
fn invalid_grants_and_revokes_are_refused() {
    let running = TestMember::builder().start();
    let server = running.server();
    grant(&server, 7, 60);
    let refused = |id, ttl| {
        let request = pb::LeaseGrantRequest { id, ttl };
        block_on(server.lease_grant(ANONYMOUS, request)).unwrap_err()
    };
    assert_eq!(refused(7, 60), Error::Refused(Refusal::Grant(GrantError::Exists)));
    let too_large = Error::Refused(Refusal::Grant(GrantError::TtlTooLarge));
    assert_eq!(refused(8, lease::TTL_MAX_SECONDS + 1), too_large);
    let revoke = block_on(server.lease_revoke(ANONYMOUS, pb::LeaseRevokeRequest { id: 9 }));
    assert_eq!(revoke, Err(Error::Refused(Refusal::Revoke(RevokeError::NotFound))));
}

#[test]
fn time_to_live_returns_the_ttl_and_the_keys() {
    let running = TestMember::builder().start();
    let server = running.server();
    grant(&server, 7, 60);
    put_with(&server, "b", 7);
    put_with(&server, "a", 7);
    let with_keys = time_to_live(&server, 7, true);
    assert_eq!((with_keys.id, with_keys.granted_ttl), (7, 60));
    assert!((58..=60).contains(&with_keys.ttl), "{}", with_keys.ttl);
    assert_eq!(with_keys.keys, ["a", "b"]);
    assert_eq!(with_keys.header.unwrap().revision, 3);
    assert!(time_to_live(&server, 7, false).keys.is_empty());
    let unknown = time_to_live(&server, 8, true);
    assert_eq!((unknown.id, unknown.ttl, unknown.granted_ttl), (8, -1, 0));
}

#[test]
fn revoking_a_lease_deletes_its_keys() {
    let running = TestMember::builder().start();
    let server = running.server();
    grant(&server, 7, 60);
    put_with(&server, "a", 7);
    let request = pb::LeaseRevokeRequest { id: 7 };
    let revoked = block_on(server.lease_revoke(ANONYMOUS, request)).unwrap();
    assert_eq!(revoked.header.unwrap().revision, 3);
    assert!(keys(&server, "a", "z").is_empty() && leases(&server).is_empty());
    assert_eq!(block_on(server.lease_renew(ANONYMOUS, 7)), Ok(0));
}

#[test]
fn a_lease_is_renewed_with_and_without_fast_keep_alive() {
    for fast in [true, false] {
        let running = TestMember::builder()
            .config(|config| config.features.fast_lease_keep_alive = fast)
            .start();
        let server = running.server();
        grant(&server, 7, 60);
        assert_eq!(block_on(server.lease_renew(ANONYMOUS, 7)), Ok(60));
        assert_eq!(block_on(server.lease_renew(ANONYMOUS, 8)), Ok(0), "unknown lease");
        assert_eq!(block_on(server.lease_renew(ANONYMOUS, 0)), Ok(0), "lease id 0");
    }
}

#[test]
fn a_renewal_waits_for_a_leader() {
    let running = TestMember::builder().start();
    // The request arrives before a leader is elected and before the lessor is primary.
    assert_eq!(block_on(running.server().lease_renew(ANONYMOUS, 8)), Ok(0));
    assert!(running.server().is_leader());
}

#[test]
fn a_checkpoint_is_cleared_before_a_lease_is_renewed() {
    let running =
        TestMember::builder().config(|config| config.features.lease_checkpoint = true).start();
    let server = running.server();
    grant(&server, 7, 600);
    let checkpoints = vec![pb::LeaseCheckpoint { id: 7, remaining_ttl: 100 }];
    let checkpoint = pb::LeaseCheckpointRequest { checkpoints };
    block_on(server.propose(checkpoint).unwrap()).unwrap();
    let lessor = || server.state().lessor().renew(LeaseId(7), server.now());
    assert_eq!(lessor(), Ok(Renewal::ClearCheckpoint), "the checkpoint must be cleared first");
    assert_eq!(block_on(server.lease_renew(ANONYMOUS, 7)), Ok(600));
    assert_eq!(lessor(), Ok(Renewal::Renewed { ttl: 600 }), "the checkpoint is cleared");
    assert!(time_to_live(&server, 7, false).ttl > 590);
}

#[test]
fn renewing_an_expired_lease_fails_after_the_lease_is_revoked() {
    let (running, clock) = start_with_clock();
    let server = running.server();
    grant(&server, 7, 2);
    put_with(&server, "a", 7);
    clock.advance(Duration::from_millis(2_050));
    assert_eq!(block_on(server.lease_renew(ANONYMOUS, 7)), Ok(0));
    assert!(!server.state().lessor().contains(LeaseId(7)));
    assert!(keys(&server, "a", "z").is_empty());
}
