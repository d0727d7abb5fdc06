//! Peer RPCs.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::Duration;

use membership::ConfChangeRefusal;
use membership::reconfig::UnsafeReconfig;
use proto::etcdserverpb as pb;
use server::{PeerRequestError, PeerVersions, Transport as _};
use testkit::waiting::{TIMEOUT, wait_until};
use types::{LeaseId, MemberId};

use super::fixture::{CLUSTER, FixtureConfig, accept, cluster, member, read_head};
use crate::wait;

#[test]
fn members_answer_rpcs() {
    let [one, two] = cluster();
    let of = &two.member();
    let versions = wait(one.transport.request_versions(of, TIMEOUT));
    let expected = PeerVersions { server: "3.7.0".to_owned(), cluster: "3.7.0".to_owned() };
    assert_eq!(versions, Ok(expected));

    let hash = wait(one.transport.request_hash(of, 7, TIMEOUT)).unwrap();
    assert_eq!((hash.revision, hash.hash.hash, hash.hash.revision), (50, 12345, 7));
    let hash = |revision| wait(one.transport.request_hash(of, revision, TIMEOUT)).unwrap_err();
    assert_eq!(hash(1), PeerRequestError::Keys(mvcc::Error::Compacted));
    assert_eq!(hash(100), PeerRequestError::Keys(mvcc::Error::FutureRevision));

    let renew = |id| wait(one.transport.request_lease_renewal(of, LeaseId(id), TIMEOUT));
    assert_eq!(renew(7), Ok(60));
    let behind = "waiting for node to catch up its applied index has timed out".to_owned();
    assert_eq!(renew(8), Err(PeerRequestError::Timeout(behind)));
    let unknown = "lease: unknown error(not a primary lessor\n)".to_owned();
    assert_eq!(renew(9), Err(PeerRequestError::Failed(unknown)));
    assert_eq!(renew(10), Err(PeerRequestError::LeaseNotFound));

    let lease = |id| {
        let request = pb::LeaseTimeToLiveRequest { id, keys: true };
        wait(one.transport.request_lease_ttl(of, request, TIMEOUT))
    };
    let answer = lease(7).unwrap();
    assert_eq!((answer.ttl, answer.granted_ttl, &answer.keys[0][..]), (55, 60, &b"key"[..]));
    assert_eq!(lease(10), Err(PeerRequestError::LeaseNotFound));

    let promote = |id, token: Option<&str>| {
        let token = token.map(ToOwned::to_owned);
        wait(one.transport.request_promotion(of, MemberId(id), token, TIMEOUT))
    };
    assert_eq!(promote(3, Some("secret")), Ok(vec![one.member(), two.member()]));
    assert_eq!(promote(3, None), Err(ConfChangeRefusal::IdNotFound.into()));
    assert_eq!(promote(4, None), Err(ConfChangeRefusal::MemberNotLearner.into()));
    assert_eq!(promote(5, None), Err(UnsafeReconfig::LearnerNotReady.into()));
    let unknown = r#"member promote: unknown error({"message":"Internal Server Error"})"#;
    assert_eq!(promote(6, None), Err(PeerRequestError::Failed(unknown.to_owned())));
}

#[test]
fn rpcs_work_before_a_member_is_attached() {
    let [one, two] = cluster();
    let joiner = FixtureConfig::of(3).start();
    let rpc = joiner.transport.rpc();
    let urls = ["http://127.0.0.1:1".to_owned(), "nonsense".to_owned(), two.url()];
    let known = wait(rpc.members(&urls, TIMEOUT)).unwrap();
    assert_eq!((known.id, known.members), (CLUSTER, vec![one.member(), two.member()]));
    assert_eq!(wait(rpc.downgrade_enabled(&urls, TIMEOUT)), Ok(true));
    assert_eq!(wait(rpc.version(&urls, TIMEOUT)).unwrap().cluster, "3.7.0");

    let error = wait(rpc.members(&urls[..2], TIMEOUT)).unwrap_err();
    let text = "could not retrieve cluster information from the given URLs";
    assert_eq!(error, PeerRequestError::Failed(text.to_owned()));
    // A cluster that is not bootstrapped has no members.
    let empty = FixtureConfig::of(4).start();
    empty.attach();
    let error = wait(rpc.members(&empty.urls(), TIMEOUT)).unwrap_err();
    let text = "failed to get raft cluster member(s) from the given URLs";
    assert_eq!(error, PeerRequestError::Failed(text.to_owned()));
}

#[test]
fn a_hash_request_of_another_cluster_is_refused() {
    let [one, _] = cluster();
    let other =
        FixtureConfig { cluster: membership::ClusterId(0xc2), ..FixtureConfig::of(2) }.start();
    other.attach();
    let error = wait(one.transport.request_hash(&other.member(), 7, TIMEOUT)).unwrap_err();
    assert_eq!(error, PeerRequestError::ClusterIdMismatch);
}

#[test]
fn rpcs_time_out_and_are_canceled_by_a_stop() {
    let [one, _] = cluster();
    // Accepts the connection and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let of = member(9, &[&format!("http://{}", silent.local_addr().unwrap())]);
    let error = wait(one.transport.request_versions(&of, Duration::from_millis(50))).unwrap_err();
    assert_eq!(error, PeerRequestError::Timeout("context deadline exceeded".to_owned()));
    // A stop cancels the request.
    drop(one.transport.request_versions(&of, TIMEOUT));
    one.transport.stop(Duration::ZERO);
    let error = wait(one.transport.request_versions(&of, TIMEOUT)).unwrap_err();
    assert_eq!(error, PeerRequestError::Failed("the transport is stopped".to_owned()));
}

#[test]
fn a_request_on_a_closed_idle_connection_is_retried() {
    let [one, _] = cluster();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let of = member(9, &[&format!("http://{}", listener.local_addr().unwrap())]);
    let other = std::thread::spawn(move || {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{\"etcdserver\":\"3.7.0\"}";
        let mut first = accept(&listener);
        for _ in 0..2 {
            assert_eq!(read_head(&mut first)[0], "GET /version HTTP/1.1");
            first.get_mut().write_all(answer).unwrap();
        }
        // The third request on it is received and not answered.
        read_head(&mut first);
        drop(first);
        let mut second = accept(&listener);
        read_head(&mut second);
        second.get_mut().write_all(answer).unwrap();
    });
    for _ in 0..3 {
        let versions = wait(one.transport.request_versions(&of, TIMEOUT)).unwrap();
        assert_eq!(versions.server, "3.7.0");
    }
    wait_until("the other member has answered all requests", || other.is_finished());
    other.join().unwrap();
}
