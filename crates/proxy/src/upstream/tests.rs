use std::time::Duration;

use proto::etcdserverpb::{
    MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse, ResponseHeader,
};
use rpc::etcdserverpb::cluster_server::{Cluster, ClusterServer};
use testkit::waiting::TIMEOUT;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tonic::codegen::tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use super::*;

/// Ends after the waits of a test, so that a wait for a dial that is not answered fails the test.
const DIAL_TIMEOUT: Duration = TIMEOUT.saturating_mul(2);

/// A member that answers with its id.
struct FakeMember(u64);

#[tonic::async_trait]
impl Cluster for FakeMember {
    async fn member_list(
        &self,
        _: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let header = ResponseHeader { member_id: self.0, ..ResponseHeader::default() };
        let list = MemberListResponse { header: Some(header), ..MemberListResponse::default() };
        Ok(Response::new(list))
    }

    async fn member_add(
        &self,
        _: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        Err(Status::not_found("etcdserver: member not found"))
    }

    async fn member_remove(
        &self,
        _: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn member_update(
        &self,
        _: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn member_promote(
        &self,
        _: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        Err(Status::unimplemented("not called"))
    }
}

/// Starts a member. Returns its address, and the task that serves it.
pub(super) async fn start(id: u64) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (address, serve(id, listener))
}

fn serve(id: u64, listener: TcpListener) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let server = tonic::transport::Server::builder();
        let service = ClusterServer::new(FakeMember(id));
        let served = server.clone().add_service(service);
        served.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
    })
}

/// Returns the address of a host that never answers a TLS handshake, so that its dial takes long,
/// and its listener.
async fn silent() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (format!("https://{}", listener.local_addr().unwrap()), listener)
}

/// Waits until all endpoints are connected.
async fn connect_all(upstream: &Upstream) {
    for endpoint in upstream.endpoints().iter() {
        endpoint.connect(&upstream.shared.runtime).await.unwrap();
    }
}

/// Returns an address on which nothing listens.
async fn unused() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

pub(crate) fn upstream(endpoints: &[&str]) -> Upstream {
    let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
    let tls = ClientTls::load("test", tls::Info::default(), &metrics).unwrap();
    let settings = UpstreamSettings {
        endpoints: endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        tls: Arc::new(tls),
        secure_by_default: false,
        dial_timeout: DIAL_TIMEOUT,
        proxies: Arc::default(),
        keepalive_time: None,
        keepalive_timeout: Duration::from_secs(20),
        keepalive_when_idle: false,
        send_bytes_max: 100,
        recv_bytes_max: 0,
    };
    Upstream::new(settings, Handle::current()).unwrap()
}

pub(super) async fn asked(upstream: &Upstream) -> Result<u64, Status> {
    let request = upstream.request(MemberListRequest::default(), &HeaderMap::new())?;
    let list = upstream.cluster().member_list(request).await?.into_inner();
    Ok(list.header.unwrap().member_id)
}

#[tokio::test]
async fn calls_take_turns_over_the_endpoints() {
    let ((one, _one), (two, _two)) = (start(1).await, start(2).await);
    let upstream = upstream(&[&one, &format!("http://{two}")]);
    connect_all(&upstream).await;
    let mut asked_in_turn = Vec::new();
    for _ in 0..4 {
        asked_in_turn.push(asked(&upstream).await.unwrap());
    }
    assert_eq!(asked_in_turn, [1, 2, 1, 2]);
}

#[tokio::test]
async fn an_endpoint_without_a_connection_is_skipped() {
    let ((one, _one), nothing) = (start(1).await, unused().await);
    let upstream = upstream(&[&nothing, &one]);
    for _ in 0..4 {
        assert_eq!(asked(&upstream).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_host_that_does_not_answer_delays_no_call() {
    let ((one, _one), (silent, _listener)) = (start(1).await, silent().await);
    let upstream = upstream(&[&silent, &one]);
    let calls = async {
        for _ in 0..4 {
            assert_eq!(asked(&upstream).await.unwrap(), 1);
        }
    };
    timeout(TIMEOUT, calls).await.expect("timed out waiting for calls to the connected endpoint");
}

#[tokio::test]
async fn a_request_names_the_endpoint_that_it_was_sent_to() {
    let ((one, _one), nothing) = (start(1).await, unused().await);
    let upstream = upstream(&[&nothing, &one]);
    let sent_to = SentTo::default();
    let mut request = Request::new(MemberListRequest::default());
    request.extensions_mut().insert(sent_to.clone());
    assert_eq!(sent_to.url(), None);
    upstream.cluster().member_list(request).await.unwrap();
    assert_eq!(sent_to.url(), Some(one));
    let endpoints = upstream.endpoints();
    endpoints[0].connect(&upstream.shared.runtime).await.unwrap_err();
    assert_eq!((endpoints[0].is_down(), endpoints[1].is_down()), (true, false));
}

#[tokio::test]
async fn an_endpoint_that_comes_back_is_used_again() {
    let ((one, _one), two) = (start(1).await, unused().await);
    let upstream = upstream(&[&one, &two]);
    assert_eq!(asked(&upstream).await.unwrap(), 1);
    let _two = serve(2, TcpListener::bind(&two).await.unwrap());
    let comes_back = async { while asked(&upstream).await.unwrap() != 2 {} };
    timeout(TIMEOUT, comes_back)
        .await
        .expect("timed out waiting for a call to the second endpoint");
}

#[tokio::test]
async fn the_last_reason_is_reported_if_no_endpoint_answers() {
    let nothing = unused().await;
    let status = asked(&upstream(&[&nothing])).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert_eq!(
        status.message(),
        format!(
            "connection error: desc = \"transport: Error while dialing: dial tcp {nothing}: connect: connection refused\""
        )
    );
}

#[tokio::test]
async fn errors_of_a_member_keep_code_and_text() {
    let (one, _one) = start(1).await;
    let upstream = upstream(&[&one]);
    let request = upstream.request(MemberAddRequest::default(), &HeaderMap::new()).unwrap();
    let status = from_tonic(upstream.cluster().member_add(request).await.unwrap_err());
    assert_eq!(
        status.to_string(),
        "rpc error: code = NotFound desc = etcdserver: member not found"
    );
}

#[tokio::test]
async fn a_request_above_the_limit_is_not_sent() {
    let upstream = upstream(&["127.0.0.1:1"]);
    let large = MemberAddRequest { peer_urls: vec!["x".repeat(100)], is_learner: false };
    let status = upstream.request(large, &HeaderMap::new()).unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
}

#[tokio::test]
async fn endpoints_that_stay_keep_their_connection() {
    let upstream = upstream(&["a:1", "b:1"]);
    let before = upstream.endpoints();
    assert!(!upstream.set_endpoints(&["a:1".into(), "b:1".into()]).unwrap());
    assert!(upstream.set_endpoints(&["b:1".into(), "c:1".into()]).unwrap());
    let after = upstream.endpoints();
    assert!(Arc::ptr_eq(&before[1], &after[0]));
    assert!(upstream.set_endpoints(&["ftp://x".into()]).is_err());
    assert_eq!(upstream.endpoints().len(), 2, "an invalid list changes nothing");
}

/// Reads the head of a request at a proxy.
async fn head_at(proxy: &TcpListener) -> String {
    let (connection, _) = proxy.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        connection.readable().await.unwrap();
        match connection.try_read_buf(&mut head) {
            Ok(read) => assert!(read > 0, "the connection was closed"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    String::from_utf8(head).unwrap()
}

/// The name of the member has no address, so that only the proxy could reach it.
#[tokio::test]
async fn members_are_reached_through_a_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let (proxies, _) =
        net::ProxySettings::from_variables(|name| (name == "HTTPS_PROXY").then(|| url.clone()));
    let settings = UpstreamSettings {
        proxies: Arc::new(proxies.for_grpc()),
        ..crate::tests::fake_member::settings(&["m1.invalid:2379"])
    };
    let upstream = Upstream::new(settings, Handle::current()).unwrap();
    let _calling = tokio::spawn(async move { asked(&upstream).await });
    let head = timeout(TIMEOUT, head_at(&proxy)).await;
    let head = head.expect("timed out waiting for a request at the proxy");
    assert!(head.starts_with("CONNECT m1.invalid:2379 HTTP/1.1\r\n"), "{head}");
}
