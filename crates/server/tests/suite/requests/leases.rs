//! Leases.

use std::time::Duration;

use lease::{GrantError, Renewal, RevokeError};
use proto::etcdserverpb as pb;
use server::{Error, Refusal, Server};
use types::LeaseId;

use super::{NOBODY, Running, block_on, keys, put_request};

fn grant(server: &Server, id: i64, ttl: i64) -> pb::LeaseGrantResponse {
    block_on(server.lease_grant(NOBODY, pb::LeaseGrantRequest { id, ttl })).unwrap()
}

fn put_with(server: &Server, key: &str, lease: i64) {
    let put = pb::PutRequest { lease, ..put_request(key, "x") };
    block_on(server.put(NOBODY, put)).unwrap();
}

fn time_to_live(server: &Server, id: i64, keys: bool) -> pb::LeaseTimeToLiveResponse {
    let request = pb::LeaseTimeToLiveRequest { id, keys };
    block_on(server.lease_time_to_live(NOBODY, request)).unwrap()
}

fn leases(server: &Server) -> Vec<i64> {
    let response = block_on(server.lease_leases(NOBODY, pb::LeaseLeasesRequest {})).unwrap();
    response.leases.into_iter().map(|lease| lease.id).collect()
}

#[test]
fn a_lease_is_granted_under_the_id_that_was_asked_for_or_a_new_one() {
    let running = Running::start();
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
fn a_lease_that_cannot_be_is_refused() {
    let running = Running::start();
    let server = running.server();
    grant(&server, 7, 60);
    let refused = |id, ttl| {
        let request = pb::LeaseGrantRequest { id, ttl };
        block_on(server.lease_grant(NOBODY, request)).unwrap_err()
    };
    assert_eq!(refused(7, 60), Error::Refused(Refusal::Grant(GrantError::Exists)));
    let too_large = Error::Refused(Refusal::Grant(GrantError::TtlTooLarge));
    assert_eq!(refused(8, lease::TTL_MAX_SECONDS + 1), too_large);
    let revoke = block_on(server.lease_revoke(NOBODY, pb::LeaseRevokeRequest { id: 9 }));
    assert_eq!(revoke, Err(Error::Refused(Refusal::Revoke(RevokeError::NotFound))));
}

#[test]
fn a_lease_is_looked_at() {
    let running = Running::start();
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
fn a_revoked_lease_takes_its_keys_along() {
    let running = Running::start();
    let server = running.server();
    grant(&server, 7, 60);
    put_with(&server, "a", 7);
    let request = pb::LeaseRevokeRequest { id: 7 };
    let revoked = block_on(server.lease_revoke(NOBODY, request)).unwrap();
    assert_eq!(revoked.header.unwrap().revision, 3);
    assert!(keys(&server, "a", "z").is_empty() && leases(&server).is_empty());
    assert_eq!(block_on(server.lease_renew(NOBODY, 7)), Ok(0));
}

#[test]
fn a_lease_is_renewed_whether_or_not_all_is_applied_first() {
    for fast in [true, false] {
        let running = Running::start_with(|config| config.features.fast_lease_keep_alive = fast);
        let server = running.server();
        grant(&server, 7, 60);
        assert_eq!(block_on(server.lease_renew(NOBODY, 7)), Ok(60));
        assert_eq!(block_on(server.lease_renew(NOBODY, 8)), Ok(0), "there is none");
        assert_eq!(block_on(server.lease_renew(NOBODY, 0)), Ok(0), "there never is");
    }
}

#[test]
fn a_renewal_waits_for_a_leader() {
    let running = Running::start();
    // Asked as soon as it runs: nobody leads yet, nor is the lessor primary.
    assert_eq!(block_on(running.server().lease_renew(NOBODY, 8)), Ok(0));
    assert!(running.server().is_leader());
}

#[test]
fn a_checkpoint_is_cleared_before_a_lease_is_renewed() {
    let running = Running::start_with(|config| config.features.lease_checkpoint = true);
    let server = running.server();
    grant(&server, 7, 600);
    let checkpoints = vec![pb::LeaseCheckpoint { id: 7, remaining_ttl: 100 }];
    let checkpoint = pb::LeaseCheckpointRequest { checkpoints };
    block_on(server.propose(checkpoint).unwrap()).unwrap();
    let lessor = || server.state().lessor.renew(LeaseId(7), server.now());
    assert_eq!(lessor(), Ok(Renewal::ClearCheckpoint), "it has to be cleared first");
    assert_eq!(block_on(server.lease_renew(NOBODY, 7)), Ok(600));
    assert_eq!(lessor(), Ok(Renewal::Renewed { ttl: 600 }), "and is");
    assert!(time_to_live(&server, 7, false).ttl > 590);
}

#[test]
fn an_expired_lease_cannot_be_renewed_and_is_gone_by_the_time_that_is_said() {
    let running = Running::start_fast(10, |_| {});
    let server = running.server();
    grant(&server, 7, 2);
    put_with(&server, "a", 7);
    block_on(server.sleep(Duration::from_millis(2_050))).unwrap();
    assert_eq!(block_on(server.lease_renew(NOBODY, 7)), Ok(0));
    assert!(!server.state().lessor.contains(LeaseId(7)));
    assert!(keys(&server, "a", "z").is_empty());
}
