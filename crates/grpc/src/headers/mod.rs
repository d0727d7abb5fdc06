//! The headers of a request, checked before its body is read.
//!
//! ```text
//!   :method POST   :path /etcdserverpb.KV/Range
//!   content-type: application/grpc[+proto]      otherwise 415
//!   grpc-timeout: 5S                            malformed: 400
//!   trace-bin: AAEC                             not base64: 400
//!   grpc-encoding: gzip                         neither gzip nor identity: Unimplemented
//! ```
//!
//! The checks run in the order of grpc-go, with its texts.

mod binary;
mod web;

use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};

use crate::body::Body;
use crate::compression::Encoding;
use crate::deadline::{self, Deadline};
use crate::message::no_decompressor;
use crate::method::{Method, MethodTable};
use crate::status::{Code, Status};

pub use binary::illegal_base64_at;

const GRPC: &str = "application/grpc";
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// The valid headers of a call.
#[derive(Debug)]
pub struct Headers {
    pub(crate) format: Format,
    pub(crate) deadline: Deadline,
    /// The value of `grpc-encoding`, if it is unknown.
    unknown_encoding: Option<String>,
}

/// A request that is not a valid call.
#[derive(Debug)]
pub struct Rejection(RejectionKind);

#[derive(Debug)]
enum RejectionKind {
    /// Refused with a gRPC status and an HTTP status.
    Grpc { format: Format, http: StatusCode, status: Status },
    /// Refused with an HTTP error page.
    Web(web::WebRejection),
}

/// The content type and encoding of the request, which the response repeats.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    content_type: HeaderValue,
    pub(crate) encoding: Encoding,
}

impl Headers {
    /// Reads the headers of a request.
    ///
    /// # Errors
    /// The request is not a valid call.
    pub fn read(parts: &Parts) -> Result<Headers, Rejection> {
        let format = Format::read(parts.headers.get(CONTENT_TYPE))?;
        let rejected =
            |http, code, text: String| Err(format.rejection(http, Status::new(code, text)));
        let timeout = match parts.headers.get(GRPC_TIMEOUT).map(timeout).transpose() {
            Ok(timeout) => timeout,
            Err(error) => {
                let text = format!("malformed grpc-timeout: {error}");
                return rejected(StatusCode::BAD_REQUEST, Code::Internal, text);
            }
        };
        if let Err(malformed) = binary::validate(&parts.headers) {
            return rejected(StatusCode::BAD_REQUEST, Code::Internal, malformed.to_string());
        }
        if parts.uri.authority().is_none() && !parts.headers.contains_key(HOST) {
            let text = "no host or :authority header present".to_owned();
            return rejected(StatusCode::BAD_REQUEST, Code::Internal, text);
        }
        if parts.method != http::Method::POST {
            let method = parts.method.as_str();
            let text =
                format!("Received a HEADERS frame with :method {method:?} which should be POST");
            return rejected(StatusCode::METHOD_NOT_ALLOWED, Code::Internal, text);
        }
        Headers::new(parts, format, timeout)
    }

    /// Reads the headers of a request on a port that Go's web server serves in etcd: one with TLS.
    ///
    /// # Errors
    /// The request is not a valid call.
    pub fn read_by_web(parts: &Parts) -> Result<Headers, Rejection> {
        let rejected = |rejection| Rejection(RejectionKind::Web(rejection));
        let (content_type, timeout) = web::read(parts).map_err(rejected)?;
        Headers::new(parts, Format::new(content_type), timeout)
    }

    fn new(
        parts: &Parts,
        mut format: Format,
        timeout: Option<Duration>,
    ) -> Result<Headers, Rejection> {
        if timeout == Some(Duration::ZERO) {
            return Err(format.rejection(StatusCode::OK, Status::DEADLINE_EXCEEDED));
        }
        let deadline = timeout.map_or_else(Deadline::default, Deadline::after);
        let encoding = parts.headers.get(GRPC_ENCODING).map(lossy).unwrap_or_default();
        let known = Encoding::from_name(&encoding);
        format.encoding = known.unwrap_or_default();
        let unknown_encoding = known.is_none().then_some(encoding);
        Ok(Headers { format, deadline, unknown_encoding })
    }

    /// Creates the headers of a call from within the process.
    pub fn in_process(deadline: Deadline) -> Headers {
        Headers { format: Format::default(), deadline, unknown_encoding: None }
    }

    /// Finds the method of a path, with its position in the table.
    ///
    /// # Errors
    /// There is no such method, or its messages cannot be decompressed.
    pub fn method(
        &self,
        methods: &MethodTable,
        path: &str,
    ) -> Result<(usize, &'static Method), Rejection> {
        let rejected = |status| Err(self.format.rejection(StatusCode::OK, status));
        match (methods.find(path), &self.unknown_encoding) {
            (None, _) => rejected(unknown_method(methods, path)),
            (Some(_), Some(encoding)) => rejected(no_decompressor(encoding)),
            (Some(found), None) => Ok(found),
        }
    }
}

impl Default for Format {
    fn default() -> Format {
        Format::new(HeaderValue::from_static(GRPC))
    }
}

impl Format {
    fn new(content_type: HeaderValue) -> Format {
        Format { content_type, encoding: Encoding::Identity }
    }

    /// Compat: as in grpc-go, any subtype of `application/grpc` is accepted and read as protobuf.
    fn read(value: Option<&HeaderValue>) -> Result<Format, Rejection> {
        // The common case needs no allocation.
        if value.is_some_and(|value| value == GRPC) {
            return Ok(Format::default());
        }
        let text = value.map(lossy).unwrap_or_default();
        if !is_grpc(&text) {
            let text = not_grpc(&text);
            let status = Status::new(Code::InvalidArgument, text);
            return Err(Format::default().rejection(StatusCode::UNSUPPORTED_MEDIA_TYPE, status));
        }
        let subtype = text[GRPC.len()..].trim_start_matches(['+', ';']);
        Ok(Format::new(match subtype {
            "" => HeaderValue::from_static(GRPC),
            "proto" => HeaderValue::from_static("application/grpc+proto"),
            other => HeaderValue::from_str(&format!("{GRPC}+{other}"))
                .unwrap_or(HeaderValue::from_static(GRPC)),
        }))
    }

    /// Creates a response without messages: the status is in its headers.
    pub(crate) fn refused<O>(&self, status: &Status) -> Response<Body<O>> {
        let mut response = self.bare(Body::default());
        status.write_to(response.headers_mut());
        response
    }

    /// Creates a response with messages.
    pub(crate) fn response<O>(&self, body: Body<O>) -> Response<Body<O>> {
        let mut response = self.bare(body);
        if let Some(name) = self.encoding.name() {
            response.headers_mut().insert(GRPC_ENCODING, HeaderValue::from_static(name));
        }
        response
    }

    fn bare<O>(&self, body: Body<O>) -> Response<Body<O>> {
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, self.content_type.clone());
        response
    }

    fn rejection(&self, http: StatusCode, status: Status) -> Rejection {
        Rejection(RejectionKind::Grpc { format: self.clone(), http, status })
    }
}

impl Rejection {
    /// Creates the response to the rejected request.
    pub fn into_response<O>(self) -> Response<Body<O>> {
        match self.0 {
            RejectionKind::Grpc { format, http, status } => {
                let mut response = format.refused(&status);
                *response.status_mut() = http;
                response
            }
            RejectionKind::Web(rejection) => rejection.into_response(),
        }
    }
}

/// Reports whether a content type is one of gRPC.
fn is_grpc(content_type: &str) -> bool {
    let valid = |rest: &str| rest.is_empty() || rest.starts_with(['+', ';']);
    content_type.strip_prefix(GRPC).is_some_and(valid)
}

fn not_grpc(content_type: &str) -> String {
    format!("invalid gRPC request content-type {content_type:?}")
}

fn timeout(value: &HeaderValue) -> Result<Duration, String> {
    deadline::parse(&lossy(value))
}

fn lossy(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// The status for a path without a method.
fn unknown_method(methods: &MethodTable, path: &str) -> Status {
    let name = path.strip_prefix('/').and_then(|name| name.rsplit_once('/'));
    let text = match name {
        None => format!("malformed method name: {path:?}"),
        Some((service, method)) if methods.has_service(service) => {
            format!("unknown method {method} for service {service}")
        }
        Some((service, _)) => format!("unknown service {service}"),
    };
    Status::new(Code::Unimplemented, text)
}

#[cfg(test)]
mod tests;
