use grpc::Kind;
use http::{HeaderValue, header};
use http_body_util::{BodyExt as _, Full};
use net::RemoteAddr;
use tokio::time::timeout;

use super::*;
use crate::fake_member::{self, FakeMember, WAIT};
use crate::methods::METHODS;

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
                timeout(WAIT, &mut calling).await.expect("timed out waiting for a response")
            }
            refused = &mut calling => refused,
        };
        let expected = if RETRIED.contains(&method.name) { Code::Ok } else { Code::Unavailable };
        assert_eq!(status.unwrap(), (expected as u16).to_string(), "{}", method.name);
    }
    assert_eq!(retried, RETRIED);
}
