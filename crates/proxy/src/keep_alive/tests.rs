use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{Stream, StreamExt as _};
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseLeasesRequest, LeaseLeasesResponse,
    LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use rpc::etcdserverpb::lease_server::{Lease, LeaseServer};
use testkit::waiting::TIMEOUT;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tonic::codegen::tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Streaming};

use super::*;
use crate::upstream::tests::upstream;

/// A lease that the fake member refuses to renew.
const REFUSED: i64 = 1;
/// A lease that the fake member renews.
const RENEWED: i64 = 2;
/// A lease that the fake member renews from its second stream on: it has just been elected.
const RENEWED_LATER: i64 = 3;

/// A member that answers requests in order, and ends a stream with its first error.
#[derive(Default)]
struct FakeMember {
    streams: AtomicUsize,
}

fn renew(lease: i64, stream: usize) -> Result<LeaseKeepAliveResponse, tonic::Status> {
    match lease {
        REFUSED => Err(tonic::Status::permission_denied("etcdserver: permission denied")),
        RENEWED_LATER if stream == 0 => {
            Err(tonic::Status::unknown("lease: unknown error(not a primary lessor\n)"))
        }
        id => Ok(LeaseKeepAliveResponse { header: None, id, ttl: 60 }),
    }
}

#[tonic::async_trait]
impl Lease for FakeMember {
    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveResponse, tonic::Status>> + Send>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, tonic::Status> {
        let stream = self.streams.fetch_add(1, Ordering::Relaxed);
        let answers = request.into_inner().map(move |request| renew(request?.id, stream));
        Ok(Response::new(Box::pin(answers)))
    }

    async fn lease_grant(
        &self,
        _: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("not called"))
    }

    async fn lease_revoke(
        &self,
        _: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("not called"))
    }

    async fn lease_time_to_live(
        &self,
        _: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("not called"))
    }

    async fn lease_leases(
        &self,
        _: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("not called"))
    }
}

/// Starts a member. Returns its address.
async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let member = LeaseServer::new(FakeMember::default());
    let server = tonic::transport::Server::builder().add_service(member);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

/// Creates keep-alives that talk to no member.
fn unconnected() -> KeepAlives {
    KeepAlives::new(upstream(&["a:1"]), HeaderMap::new()).0
}

async fn next(renewals: &mut Renewals) -> Answer {
    timeout(TIMEOUT, renewals.next()).await.expect("timed out waiting for the answer to a renewal")
}

#[tokio::test]
async fn a_refused_renewal_fails_no_other() {
    let (keep_alives, run) = KeepAlives::new(upstream(&[&start().await]), HeaderMap::new());
    let (mut one, mut two) = (keep_alives.client(), keep_alives.client());
    // All are sent before the first is answered.
    two.renew(RENEWED);
    one.renew(REFUSED);
    two.renew(RENEWED + 10);
    tokio::spawn(run);
    assert_eq!(next(&mut one).await.unwrap_err().code, grpc::Code::PermissionDenied);
    assert_eq!(next(&mut two).await.unwrap().id, RENEWED);
    assert_eq!(next(&mut two).await.unwrap().id, RENEWED + 10);
}

#[tokio::test]
async fn a_renewal_is_repeated_while_a_leader_takes_over() {
    let keep_alives = KeepAlives::start(upstream(&[&start().await]));
    let mut client = keep_alives.client();
    client.renew(RENEWED_LATER);
    assert_eq!(next(&mut client).await.unwrap().ttl, 60);
}

#[tokio::test]
async fn a_client_that_has_taken_the_last_answer_is_idle() {
    let keep_alives = unconnected();
    let mut client = keep_alives.client();
    client.renew(RENEWED);
    assert!(!client.is_idle());
    // The task may not have dropped its sender when the client looks.
    let late = keep_alives.shared.state.lock().waiting[&RENEWED].clone();
    keep_alives.shared.answer(&LeaseKeepAliveResponse { id: RENEWED, ..Default::default() });
    assert!(!client.is_idle(), "the answer is not taken yet");
    assert!(client.next().await.is_ok());
    assert!(client.is_idle());
    drop(late);
}

#[tokio::test]
async fn requests_of_a_client_that_has_gone_are_forgotten() {
    let keep_alives = unconnected();
    let (mut gone, mut other) = (keep_alives.client(), keep_alives.client());
    gone.renew(REFUSED);
    gone.renew(RENEWED);
    other.renew(RENEWED);
    drop(gone);
    let state = keep_alives.shared.state.lock();
    assert_eq!(state.unsent, [RENEWED]);
    assert_eq!((state.waiting.len(), state.waiting[&RENEWED].len()), (1, 1));
}
