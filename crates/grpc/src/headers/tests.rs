use http::Request;

use super::*;
use crate::method::Kind;
use crate::observer::tests::CodeObserver;

const PATH: &str = "/etcdserverpb.KV/Range";

fn methods() -> MethodTable {
    static METHODS: &[Method] =
        &[Method { path: PATH, service: "etcdserverpb.KV", name: "Range", kind: Kind::Unary }];
    MethodTable::new(METHODS)
}

fn parts(headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::post(format!("http://localhost:2379{PATH}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn rejected(headers: &[(&str, &str)]) -> (u16, String, String) {
    response_of(Headers::read(&parts(headers)).unwrap_err())
}

fn response_of(rejection: Rejection) -> (u16, String, String) {
    let response = rejection.into_response::<CodeObserver>();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    (response.status().as_u16(), header("grpc-status"), header("grpc-message"))
}

fn expected(http: u16, status: &str, message: &str) -> (u16, String, String) {
    (http, status.to_owned(), message.to_owned())
}

#[test]
fn other_content_types_are_refused() {
    let wrong = |kind: &str| rejected(&[("content-type", kind)]);
    let json = expected(415, "3", "invalid gRPC request content-type \"application/json\"");
    assert_eq!(wrong("application/json"), json);
    let web = expected(415, "3", "invalid gRPC request content-type \"application/grpc-web\"");
    assert_eq!(wrong("application/grpc-web"), web);
    assert_eq!(rejected(&[]), expected(415, "3", "invalid gRPC request content-type \"\""));
    for kind in ["application/grpc", "application/grpc+proto", "application/grpc;charset=x"] {
        assert!(Headers::read(&parts(&[("content-type", kind)])).is_ok());
    }
}

#[test]
fn the_response_repeats_the_content_type() {
    let headers = Headers::read(&parts(&[("content-type", "application/grpc+proto")])).unwrap();
    let response = headers.format.refused::<CodeObserver>(&Status::CANCELED);
    assert_eq!(response.headers()["content-type"], "application/grpc+proto");
}

#[test]
fn malformed_and_zero_timeouts_are_refused() {
    let with = |timeout: &str| rejected(&[("content-type", GRPC), ("grpc-timeout", timeout)]);
    let text = "malformed grpc-timeout: transport: timeout unit is not recognized: \"5s\"";
    assert_eq!(with("5s"), expected(400, "13", text));
    assert_eq!(with("0S"), expected(200, "4", "context deadline exceeded"));
}

#[test]
fn binary_metadata_must_be_base64() {
    let text = "malformed binary metadata \"!!!\" in header \"x-bin\": illegal base64 data at input byte 0";
    assert_eq!(rejected(&[("content-type", GRPC), ("x-bin", "!!!")]), expected(400, "13", text));
    assert!(Headers::read(&parts(&[("content-type", GRPC), ("x-bin", "AAEC")])).is_ok());
}

#[test]
fn other_http_methods_than_post_are_refused() {
    let mut parts = parts(&[("content-type", GRPC)]);
    parts.method = http::Method::GET;
    let text = "Received a HEADERS frame with :method \"GET\" which should be POST";
    assert_eq!(response_of(Headers::read(&parts).unwrap_err()), expected(405, "13", text));
}

#[test]
fn a_call_without_a_host_is_refused() {
    let without = |headers: &[(&str, &str)]| {
        let mut parts = parts(headers);
        parts.uri = http::Uri::from_static(PATH);
        Headers::read(&parts)
    };
    let text = "no host or :authority header present";
    let refused = response_of(without(&[("content-type", GRPC)]).unwrap_err());
    assert_eq!(refused, expected(400, "13", text));
    assert!(without(&[("content-type", GRPC), ("host", "a")]).is_ok());
}

#[test]
fn unknown_methods_and_services_have_different_texts() {
    let headers = Headers::read(&parts(&[("content-type", GRPC)])).unwrap();
    let find = |path: &str| response_of(headers.method(&methods(), path).unwrap_err());
    let method = "unknown method Get for service etcdserverpb.KV";
    assert_eq!(find("/etcdserverpb.KV/Get"), expected(200, "12", method));
    assert_eq!(find("/a/b/c"), expected(200, "12", "unknown service a/b"));
    assert_eq!(find("/nothing"), expected(200, "12", "malformed method name: \"/nothing\""));
    assert!(headers.method(&methods(), PATH).is_ok());
}

#[test]
fn an_unknown_encoding_is_refused() {
    let with = |encoding: &str| {
        let headers = [("content-type", GRPC), ("grpc-encoding", encoding)];
        Headers::read(&parts(&headers)).unwrap().method(&methods(), PATH).map(|_| ())
    };
    let text = "grpc: Decompressor is not installed for grpc-encoding \"snappy\"";
    assert_eq!(response_of(with("snappy").unwrap_err()), expected(200, "12", text));
    assert!(with("identity").is_ok());
    assert!(with("gzip").is_ok());
}

#[test]
fn responses_with_messages_repeat_the_encoding() {
    let encoding = |encoding: &str| {
        let headers = [("content-type", GRPC), ("grpc-encoding", encoding)];
        let format = Headers::read(&parts(&headers)).unwrap().format;
        let of =
            |response: Response<Body<CodeObserver>>| response.headers().get(GRPC_ENCODING).cloned();
        [of(format.response(Body::default())), of(format.refused(&Status::CANCELED))]
    };
    assert_eq!(encoding("gzip"), [Some(HeaderValue::from_static("gzip")), None]);
    assert_eq!(encoding("identity"), [None, None]);
}
