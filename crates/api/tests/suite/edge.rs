//! Which requests are gRPC, and which are for pages.

use std::sync::Arc;

use api::http::{Config, Surface};
use api::{Api, Http};
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::Full;
use net::{Connection, Peer};
use server::Server;

use crate::support::Fixture;

struct Case {
    surface: Surface,
    tls: bool,
    version: Version,
    kind: &'static str,
}

/// Whether gRPC answered: its answers say of what type they are, whatever is asked.
async fn is_grpc(member: &Fixture, http: &Arc<Http<Server>>, case: Case) -> bool {
    let Case { surface, tls, version, kind } = case;
    let api = Api::new(surface, member.grpc.clone(), Arc::clone(http));
    let request = Request::get("/version").version(version).header("content-type", kind);
    let connection = Connection::new(Peer::Unix, tls);
    let response = api.call(&connection, request.body(Full::<Bytes>::default()).unwrap()).await;
    response.headers()["content-type"] == "application/grpc"
}

#[tokio::test]
async fn grpc_is_told_from_pages_as_in_etcd() {
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
async fn where_grpc_is_served_alone_http1_is_not_spoken() {
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
