//! The choice between gRPC and HTTP.

use std::sync::Arc;

use api::http::{Config, Surface};
use api::{Api, Http};
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::Full;
use net::{Connection, RemoteAddr};
use server::Server;

use crate::support::Fixture;

struct Case {
    surface: Surface,
    tls: bool,
    version: Version,
    kind: &'static str,
}

/// Reports whether gRPC answered, by the content type of the response.
async fn is_grpc(member: &Fixture, http: &Arc<Http<Server>>, case: Case) -> bool {
    let Case { surface, tls, version, kind } = case;
    let api = Api::new(surface, member.grpc.clone(), Arc::clone(http));
    let request = Request::post("/version").version(version).header("content-type", kind);
    let connection = Connection::new(RemoteAddr::Unix, tls);
    let response = api.call(&connection, request.body(Full::<Bytes>::default()).unwrap()).await;
    response.headers()["content-type"] == "application/grpc"
}

#[tokio::test]
async fn grpc_and_http_are_distinguished_as_in_etcd() {
    let member = Fixture::start();
    let registry = prometheus::Registry::new();
    let http = Http::new(member.server().clone(), Config::default(), registry).unwrap();
    let http = Arc::new(http);
    let case = |surface, tls, version, kind| Case { surface, tls, version, kind };
    let (json, grpc) = ("application/json", "application/grpc");
    let cases = [
        (case(Surface::Client, false, Version::HTTP_11, json), false),
        (case(Surface::Client, false, Version::HTTP_11, grpc), false),
        (case(Surface::Client, false, Version::HTTP_2, json), true),
        (case(Surface::Client, true, Version::HTTP_2, json), false),
        (case(Surface::Client, true, Version::HTTP_2, grpc), true),
        (case(Surface::ClientHttpOnly, false, Version::HTTP_2, grpc), false),
        (case(Surface::Metrics, true, Version::HTTP_2, grpc), false),
        (case(Surface::ClientGrpcOnly, false, Version::HTTP_2, json), true),
    ];
    for (number, (case, expected)) in cases.into_iter().enumerate() {
        assert_eq!(is_grpc(&member, &http, case).await, expected, "case {number}");
    }
}

#[tokio::test]
async fn with_tls_invalid_calls_are_refused_with_an_error_page() {
    let member = Fixture::start();
    let registry = prometheus::Registry::new();
    let http = Http::new(member.server().clone(), Config::default(), registry).unwrap();
    let http = Arc::new(http);
    let response_to = async |surface, tls, method: &str, path: &str| {
        let api = Api::new(surface, member.grpc.clone(), Arc::clone(&http));
        let request = Request::builder().method(method).uri(path).version(Version::HTTP_2);
        let request = request.header("host", "a").header("content-type", "application/grpc");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let response = api.call(&Connection::new(RemoteAddr::Unix, tls), request).await;
        let grpc = response.headers().get("grpc-message");
        let grpc = grpc.map(|text| text.to_str().unwrap().to_owned());
        (response.status().as_u16(), grpc)
    };
    let range = "/etcdserverpb.KV/Range";
    let by_frame = r#"Received a HEADERS frame with :method "GET" which should be POST"#;
    let frame = (405, Some(by_frame.to_owned()));
    assert_eq!(response_to(Surface::Client, true, "GET", range).await, (405, None));
    assert_eq!(response_to(Surface::Client, true, "OPTIONS", range).await, (200, None));
    assert_eq!(response_to(Surface::Client, false, "GET", range).await, frame);
    assert_eq!(response_to(Surface::ClientGrpcOnly, true, "GET", range).await, frame);

    let query = "/etcdserverpb.KV/Range?a=b";
    let unknown = "unknown method Range?a=b for service etcdserverpb.KV";
    let nothing = (200, Some("EOF".to_owned()));
    assert_eq!(response_to(Surface::Client, true, "POST", query).await, nothing);
    assert_eq!(
        response_to(Surface::Client, false, "POST", query).await,
        (200, Some(unknown.to_owned()))
    );
}

#[tokio::test]
async fn a_grpc_only_port_refuses_http1() {
    let member = Fixture::start();
    let registry = prometheus::Registry::new();
    let http = Http::new(member.server().clone(), Config::default(), registry).unwrap();
    let http = Arc::new(http);
    let speaks = |surface| {
        net::Handler::speaks_http1(&Api::new(surface, member.grpc.clone(), Arc::clone(&http)))
    };
    assert!(!speaks(Surface::ClientGrpcOnly));
    for surface in [Surface::Client, Surface::ClientHttpOnly, Surface::Metrics, Surface::Peer] {
        assert!(speaks(surface));
    }
}
