//! What the headers of a request say before anything of it is read.
//!
//! ```text
//!   :method POST   :path /etcdserverpb.KV/Range
//!   content-type: application/grpc[+proto]      anything else is 415
//!   grpc-timeout: 5S                            anything else is 400
//!   trace-bin: AAEC                             what is no base64 likewise
//!   grpc-encoding: gzip                         anything but this and identity is Unimplemented
//! ```
//!
//! What is wrong is told in the words of etcd's gRPC library, in the order in which it looks.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};

use super::binary;
use super::deadline::{self, Deadline};
use super::message::no_decompressor;
use super::packing::Encoding;
use super::rpc::Method;
use super::status::{Code, Status};
use super::web;
use crate::body::Body;

const GRPC: &str = "application/grpc";
pub(super) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// What the headers of a request say about how it is to be answered.
#[derive(Debug)]
pub(crate) struct Headers {
    pub(crate) format: Format,
    pub(crate) deadline: Deadline,
    /// What the client says of how messages are compressed, if that is nothing we know.
    unknown_encoding: Option<String>,
}

/// Why a request is none, as the client is told.
#[derive(Debug)]
pub(crate) enum Refused {
    /// In the words of gRPC, and those of HTTP.
    ByGrpc { format: Format, http: StatusCode, status: Status },
    /// By a page.
    ByWeb(web::Refused),
}

/// What the client used, and is answered in.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    content_type: HeaderValue,
    pub(crate) encoding: Encoding,
}

impl Headers {
    /// Reads them, or says what is wrong.
    pub(crate) fn read(parts: &Parts) -> Result<Headers, Refused> {
        let format = Format::read(parts.headers.get(CONTENT_TYPE))?;
        let aborted = |http, code, text: String| Err(format.aborted(http, Status::new(code, text)));
        let timeout = match parts.headers.get(GRPC_TIMEOUT).map(timeout).transpose() {
            Ok(timeout) => timeout,
            Err(error) => {
                let text = format!("malformed grpc-timeout: {error}");
                return aborted(StatusCode::BAD_REQUEST, Code::Internal, text);
            }
        };
        if let Err(malformed) = binary::check(&parts.headers) {
            return aborted(StatusCode::BAD_REQUEST, Code::Internal, malformed.to_string());
        }
        if parts.method != http::Method::POST {
            let method = parts.method.as_str();
            let text =
                format!("Received a HEADERS frame with :method {method:?} which should be POST");
            return aborted(StatusCode::METHOD_NOT_ALLOWED, Code::Internal, text);
        }
        Headers::new(parts, format, timeout)
    }

    /// The same, where Go's web server has the port.
    pub(crate) fn read_by_web(parts: &Parts) -> Result<Headers, Refused> {
        let (content_type, timeout) = web::read(parts).map_err(Refused::ByWeb)?;
        Headers::new(parts, Format::of(content_type), timeout)
    }

    /// Those of a call that is one.
    fn new(
        parts: &Parts,
        mut format: Format,
        timeout: Option<Duration>,
    ) -> Result<Headers, Refused> {
        if timeout == Some(Duration::ZERO) {
            return Err(format.aborted(StatusCode::OK, Status::DEADLINE_EXCEEDED));
        }
        let deadline = timeout.map_or_else(Deadline::default, Deadline::after);
        let encoding = parts.headers.get(GRPC_ENCODING).map(lossy).unwrap_or_default();
        let known = Encoding::of(&encoding);
        format.encoding = known.unwrap_or_default();
        let unknown_encoding = known.is_none().then_some(encoding);
        Ok(Headers { format, deadline, unknown_encoding })
    }

    /// Those of a call within the process.
    pub(crate) fn within(deadline: Deadline) -> Headers {
        Headers { format: Format::default(), deadline, unknown_encoding: None }
    }

    /// The method that a path names, if messages to it can be read.
    pub(crate) fn method(&self, path: &str) -> Result<(usize, &'static Method), Refused> {
        let Some(found) = Method::find(path) else {
            return Err(self.format.aborted(StatusCode::OK, unknown(path)));
        };
        match &self.unknown_encoding {
            Some(encoding) => Err(self.format.aborted(StatusCode::OK, no_decompressor(encoding))),
            None => Ok(found),
        }
    }
}

impl Default for Format {
    fn default() -> Format {
        Format::of(HeaderValue::from_static(GRPC))
    }
}

impl Format {
    fn of(content_type: HeaderValue) -> Format {
        Format { content_type, encoding: Encoding::Identity }
    }

    /// Compat: what follows `application/grpc` may be anything, and it is protobuf all the same.
    fn read(value: Option<&HeaderValue>) -> Result<Format, Refused> {
        // What nearly everybody says costs nothing.
        if value.is_some_and(|value| value == GRPC) {
            return Ok(Format::default());
        }
        let text = value.map(lossy).unwrap_or_default();
        if !is_grpc(&text) {
            let text = not_grpc(&text);
            let status = Status::new(Code::InvalidArgument, text);
            return Err(Format::default().aborted(StatusCode::UNSUPPORTED_MEDIA_TYPE, status));
        }
        let subtype = text[GRPC.len()..].trim_start_matches(['+', ';']);
        Ok(Format::of(match subtype {
            "" => HeaderValue::from_static(GRPC),
            "proto" => HeaderValue::from_static("application/grpc+proto"),
            other => HeaderValue::from_str(&format!("{GRPC}+{other}"))
                .unwrap_or(HeaderValue::from_static(GRPC)),
        }))
    }

    /// A response with nothing but its status.
    pub(crate) fn refused(&self, status: &Status) -> Response<Body> {
        let mut response = self.bare(Body::default());
        status.write_to(response.headers_mut());
        response
    }

    /// A response with messages.
    pub(crate) fn response(&self, body: Body) -> Response<Body> {
        let mut response = self.bare(body);
        if let Some(name) = self.encoding.name() {
            response.headers_mut().insert(GRPC_ENCODING, HeaderValue::from_static(name));
        }
        response
    }

    fn bare(&self, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, self.content_type.clone());
        response
    }

    fn aborted(&self, http: StatusCode, status: Status) -> Refused {
        Refused::ByGrpc { format: self.clone(), http, status }
    }
}

impl Refused {
    /// What is no proper request is told so also in the words of HTTP.
    pub(crate) fn into_response(self) -> Response<Body> {
        match self {
            Refused::ByGrpc { format, http, status } => {
                let mut response = format.refused(&status);
                *response.status_mut() = http;
                response
            }
            Refused::ByWeb(refused) => refused.into_response(),
        }
    }
}

/// Whether a content type is one of gRPC.
pub(super) fn is_grpc(content_type: &str) -> bool {
    let valid = |rest: &str| rest.is_empty() || rest.starts_with(['+', ';']);
    content_type.strip_prefix(GRPC).is_some_and(valid)
}

pub(super) fn not_grpc(content_type: &str) -> String {
    format!("invalid gRPC request content-type {content_type:?}")
}

fn timeout(value: &HeaderValue) -> Result<Duration, String> {
    deadline::parse(&lossy(value))
}

pub(super) fn lossy(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// There is no such service, or it has no such method.
fn unknown(path: &str) -> Status {
    let name = path.strip_prefix('/').and_then(|name| name.rsplit_once('/'));
    let text = match name {
        None => format!("malformed method name: {path:?}"),
        Some((service, method)) if Method::is_service(service) => {
            format!("unknown method {method} for service {service}")
        }
        Some((service, _)) => format!("unknown service {service}"),
    };
    Status::new(Code::Unimplemented, text)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::post("/etcdserverpb.KV/Range");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn refused(headers: &[(&str, &str)]) -> (u16, String, String) {
        told(Headers::read(&parts(headers)).unwrap_err())
    }

    fn told(refused: Refused) -> (u16, String, String) {
        let response = refused.into_response();
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        (response.status().as_u16(), header("grpc-status"), header("grpc-message"))
    }

    fn is(http: u16, status: &str, message: &str) -> (u16, String, String) {
        (http, status.to_owned(), message.to_owned())
    }

    #[test]
    fn only_grpc_is_spoken() {
        let wrong = |kind: &str| refused(&[("content-type", kind)]);
        let json = is(415, "3", "invalid gRPC request content-type \"application/json\"");
        assert_eq!(wrong("application/json"), json);
        let web = is(415, "3", "invalid gRPC request content-type \"application/grpc-web\"");
        assert_eq!(wrong("application/grpc-web"), web);
        assert_eq!(refused(&[]), is(415, "3", "invalid gRPC request content-type \"\""));
        for kind in ["application/grpc", "application/grpc+proto", "application/grpc;charset=x"] {
            assert!(Headers::read(&parts(&[("content-type", kind)])).is_ok());
        }
    }

    #[test]
    fn the_content_type_is_answered_as_it_came() {
        let headers = Headers::read(&parts(&[("content-type", "application/grpc+proto")])).unwrap();
        let response = headers.format.refused(&Status::CANCELED);
        assert_eq!(response.headers()["content-type"], "application/grpc+proto");
    }

    #[test]
    fn timeouts_are_checked_before_anything_is_done() {
        let with = |timeout: &str| refused(&[("content-type", GRPC), ("grpc-timeout", timeout)]);
        let text = "malformed grpc-timeout: transport: timeout unit is not recognized: \"5s\"";
        assert_eq!(with("5s"), is(400, "13", text));
        assert_eq!(with("0S"), is(200, "4", "context deadline exceeded"));
    }

    #[test]
    fn metadata_that_is_said_to_be_binary_has_to_be() {
        let text = "malformed binary metadata \"!!!\" in header \"x-bin\": illegal base64 data at input byte 0";
        assert_eq!(refused(&[("content-type", GRPC), ("x-bin", "!!!")]), is(400, "13", text));
        assert!(Headers::read(&parts(&[("content-type", GRPC), ("x-bin", "AAEC")])).is_ok());
    }

    #[test]
    fn only_post_is_a_call() {
        let mut parts = parts(&[("content-type", GRPC)]);
        parts.method = http::Method::GET;
        let text = "Received a HEADERS frame with :method \"GET\" which should be POST";
        assert_eq!(told(Headers::read(&parts).unwrap_err()), is(405, "13", text));
    }

    #[test]
    fn methods_that_are_not_there_are_told_apart() {
        let headers = Headers::read(&parts(&[("content-type", GRPC)])).unwrap();
        let find = |path: &str| told(headers.method(path).unwrap_err());
        let method = "unknown method Get for service etcdserverpb.KV";
        assert_eq!(find("/etcdserverpb.KV/Get"), is(200, "12", method));
        assert_eq!(find("/a/b/c"), is(200, "12", "unknown service a/b"));
        assert_eq!(find("/nothing"), is(200, "12", "malformed method name: \"/nothing\""));
        assert!(headers.method("/etcdserverpb.KV/Range").is_ok());
    }

    #[test]
    fn what_is_compressed_in_an_unknown_way_cannot_be_read() {
        let with = |encoding: &str| {
            let headers = [("content-type", GRPC), ("grpc-encoding", encoding)];
            Headers::read(&parts(&headers)).unwrap().method("/etcdserverpb.KV/Range").map(|_| ())
        };
        let text = "grpc: Decompressor is not installed for grpc-encoding \"snappy\"";
        assert_eq!(told(with("snappy").unwrap_err()), is(200, "12", text));
        assert!(with("identity").is_ok());
        assert!(with("gzip").is_ok());
    }

    #[test]
    fn messages_are_answered_as_they_were_compressed_and_refusals_are_not() {
        let encoding = |encoding: &str| {
            let headers = [("content-type", GRPC), ("grpc-encoding", encoding)];
            let format = Headers::read(&parts(&headers)).unwrap().format;
            let of = |response: Response<Body>| response.headers().get(GRPC_ENCODING).cloned();
            [of(format.response(Body::default())), of(format.refused(&Status::CANCELED))]
        };
        assert_eq!(encoding("gzip"), [Some(HeaderValue::from_static("gzip")), None]);
        assert_eq!(encoding("identity"), [None, None]);
    }
}
