use std::io::Read as _;

use flate2::read::GzDecoder;
use grpc::Kind;
use http::{HeaderValue, header};
use http_body_util::{BodyExt as _, Full};
use net::RemoteAddr;
use testkit::waiting::TIMEOUT;
use tokio::time::timeout;

use super::*;
use crate::methods::METHODS;
use crate::tests::fake_member::{self, FakeMember};

/// The methods that etcd's client retries and that change nothing, and `AuthStatus`.
const RETRIED: [&str; 12] = [
    "Range",
    "LeaseTimeToLive",
    "LeaseLeases",
    "MemberList",
    "Status",
    "Hash",
    "HashKV",
    "AuthStatus",
    "UserGet",
    "UserList",
    "RoleGet",
    "RoleList",
];

fn proxy(member: &FakeMember) -> GrpcProxy {
    let upstream = fake_member::settings(&[&member.address]);
    let settings = ProxySettings {
        metrics_tls: Arc::clone(&upstream.tls),
        upstream,
        own: None,
        advertised: String::new(),
        host_name: String::new(),
        registry: None,
        namespace: String::new(),
        leasing_prefix: String::new(),
        ordered: false,
        log_calls: false,
        auto_sync: None,
        profiles: None,
    };
    GrpcProxy::new(settings, Registry::new()).unwrap()
}

/// Makes a call with an empty message. Returns the value of `grpc-status`.
async fn call(proxy: GrpcProxy, path: &'static str) -> String {
    let mut request = Request::post(format!("http://proxy{path}")).version(Version::HTTP_2);
    let headers = request.headers_mut().unwrap();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    let request = request.body(Full::new(Bytes::from_static(&[0; 5]))).unwrap();
    let connection = Connection::new(RemoteAddr::Unix, false);
    let (head, body) = proxy.grpc(&connection, request).await.into_parts();
    let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
    let status = head.headers.get("grpc-status").or(trailers.get("grpc-status"));
    status.expect("a status").to_str().unwrap().to_owned()
}

#[tokio::test]
async fn only_calls_that_only_read_are_retried() {
    let mut member = FakeMember::start().await;
    let proxy = proxy(&member);
    let mut retried = Vec::new();
    for method in METHODS.iter().filter(|method| method.kind == Kind::Unary) {
        let mut calling = tokio::spawn(call(proxy.clone(), method.path));
        tokio::select! {
            first = member.next(method.name) => first.refuse(Code::Unavailable),
            ended = &mut calling => panic!("{} was not sent: {ended:?}", method.name),
        }
        let status = tokio::select! {
            again = member.next(method.name) => {
                retried.push(method.name);
                again.answer(&());
                timeout(TIMEOUT, &mut calling).await.expect("timed out waiting for a response")
            }
            refused = &mut calling => refused,
        };
        let expected = if RETRIED.contains(&method.name) { Code::Ok } else { Code::Unavailable };
        assert_eq!(status.unwrap(), (expected as u16).to_string(), "{}", method.name);
    }
    assert_eq!(retried, RETRIED);
}

/// Requests the metrics of a proxy with a method and headers.
async fn own_metrics(method: &str, headers: &[(header::HeaderName, &str)]) -> Response<Bytes> {
    let member = FakeMember::start().await;
    let proxy = proxy(&member);
    for at in 0..METHODS.len() {
        proxy.shared.metrics.method(at).started();
    }
    let mut request = Request::builder().method(method).uri("/proxy/metrics");
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let head = request.body(()).unwrap().into_parts().0;
    proxy.http.call(false, &head).await
}

#[tokio::test]
async fn own_metrics_are_negotiated_as_those_of_a_member() {
    let gzip = (header::ACCEPT_ENCODING, "gzip");
    let page = own_metrics("GET", &[gzip, (header::ACCEPT, "text/plain;escaping=dots")]).await;
    assert_eq!(page.headers()[header::CONTENT_ENCODING], "gzip");
    let kind = "text/plain; version=0.0.4; charset=utf-8; escaping=dots";
    assert_eq!(page.headers()[header::CONTENT_TYPE], kind);
    let mut text = String::new();
    GzDecoder::new(&page.body()[..]).read_to_string(&mut text).unwrap();
    for line in [
        "etcd_grpc_proxy_cache_keys_total 0",
        "promhttp_metric_handler_requests_in_flight 1",
        "promhttp_metric_handler_requests_total{code=\"200\"} 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn the_length_of_a_long_page_is_not_announced() {
    let page = own_metrics("GET", &[]).await;
    assert!(page.body().len() > 2048, "{} bytes", page.body().len());
    let body = page.map(|page| Body(Inner::Page(page))).into_body();
    assert_eq!(http_body::Body::size_hint(&body).exact(), None);
    let page = own_metrics("HEAD", &[]).await;
    assert_eq!((page.body().len(), page.headers().get(header::CONTENT_LENGTH)), (0, None));
}
