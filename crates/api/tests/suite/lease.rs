//! `Lease` through the generated client.

use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, PutRequest,
};
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::lease_client::LeaseClient;
use tonic::Code;
use tonic::codegen::tokio_stream;

use crate::support::{Channel, Fixture, message};

fn client(member: &Fixture) -> LeaseClient<Channel> {
    LeaseClient::new(member.channel())
}

#[tokio::test]
async fn a_lease_is_granted_read_and_revoked() {
    let member = Fixture::start();
    let mut client = client(&member);
    let granted = client.lease_grant(LeaseGrantRequest { ttl: 100, id: 7 }).await.unwrap();
    let granted = granted.into_inner();
    assert_eq!((granted.id, granted.ttl), (7, 100));
    assert_eq!(granted.header, Some(member.server().header(1)));
    let put = PutRequest { key: "a".into(), lease: 7, ..Default::default() };
    KvClient::new(member.channel()).put(put).await.unwrap();

    let look = LeaseTimeToLiveRequest { id: 7, keys: true };
    let time = client.lease_time_to_live(look).await.unwrap().into_inner();
    assert_eq!((time.granted_ttl, &time.keys[..]), (100, &[bytes::Bytes::from("a")][..]));
    let all = client.lease_leases(LeaseLeasesRequest {}).await.unwrap().into_inner();
    assert_eq!(all.leases.iter().map(|lease| lease.id).collect::<Vec<_>>(), [7]);

    let revoked = client.lease_revoke(LeaseRevokeRequest { id: 7 }).await.unwrap().into_inner();
    assert_eq!(revoked.header.unwrap().revision, 3, "its key is deleted");
    let revoked = client.lease_time_to_live(look).await.unwrap().into_inner();
    assert_eq!((revoked.ttl, revoked.granted_ttl), (-1, 0));
}

#[tokio::test]
async fn refusals_have_the_texts_of_etcd() {
    let member = Fixture::start();
    let mut client = client(&member);
    client.lease_grant(LeaseGrantRequest { ttl: 100, id: 7 }).await.unwrap();
    let error = client.lease_grant(LeaseGrantRequest { ttl: 100, id: 7 }).await.unwrap_err();
    let text = "etcdserver: lease already exists";
    assert_eq!((error.code(), error.message()), (Code::FailedPrecondition, text));
    let long = LeaseGrantRequest { ttl: 9_000_000_001, id: 8 };
    let error = client.lease_grant(long).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::OutOfRange, "etcdserver: too large lease TTL")
    );
    let error = client.lease_revoke(LeaseRevokeRequest { id: 9 }).await.unwrap_err();
    let text = "etcdserver: requested lease not found";
    assert_eq!((error.code(), error.message()), (Code::NotFound, text));
}

#[tokio::test]
async fn leases_are_renewed_until_the_client_half_closes() {
    let member = Fixture::start();
    let mut client = client(&member);
    client.lease_grant(LeaseGrantRequest { ttl: 100, id: 7 }).await.unwrap();
    let ids = [7, 8, 7].map(|id| LeaseKeepAliveRequest { id });
    let stream = client.lease_keep_alive(tokio_stream::iter(ids)).await.unwrap();
    let mut stream = stream.into_inner();
    let mut renewed = Vec::new();
    while let Some(alive) = message(&mut stream).await.unwrap() {
        assert_eq!(alive.header, Some(member.server().header(1)));
        renewed.push((alive.id, alive.ttl));
    }
    assert_eq!(renewed, [(7, 100), (8, 0), (7, 100)], "an unknown lease has a TTL of zero");
    let handled = r#"grpc_server_handled_total{grpc_code="OK",grpc_method="LeaseKeepAlive",grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"}"#;
    assert_eq!(member.metric(handled), Some(1.0));
    let received = r#"grpc_server_msg_received_total{grpc_method="LeaseKeepAlive",grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"}"#;
    assert_eq!(member.metric(received), Some(4.0), "the end of the stream counts as a message");
}
