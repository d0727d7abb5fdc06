//! Calls that come by way of a web server.
//!
//! On a port with TLS, etcd has Go's web server speak HTTP/2, and hands on whatever says that it is gRPC. What is no call is then refused with a page:
//!
//! ```text
//!   GET                              405  allow: POST    invalid gRPC request method "GET"
//!   content-type: application/grpc-web    415            invalid gRPC request content-type "application/grpc-web"
//!   grpc-timeout: 1x                 400                 malformed grpc-timeout: transport: timeout unit is not recognized: "1x"
//!   x-bin: !!                        400                 malformed binary metadata "" in header "x-bin": illegal base64 data at input byte 0
//! ```

use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use super::binary::{self, Malformed};
use super::deadline;
use super::headers::{GRPC_TIMEOUT, is_grpc, lossy, not_grpc};
use crate::body::Body;
use crate::http::error;

/// Why something is no call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    status: StatusCode,
    text: String,
    /// Who asks for the head of a page gets no more.
    is_head: bool,
}

/// What a call says: its content type, in which it is answered, and how long its client waits.
pub(super) fn read(parts: &Parts) -> Result<(HeaderValue, Option<Duration>), Refused> {
    let refused = |status, text| Refused { status, text, is_head: parts.method == Method::HEAD };
    if parts.method != Method::POST {
        let text = format!("invalid gRPC request method {:?}", parts.method.as_str());
        return Err(refused(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let content_type = parts.headers.get(CONTENT_TYPE);
    let content_type = content_type.cloned().unwrap_or(HeaderValue::from_static(""));
    let text = lossy(&content_type);
    if !is_grpc(&text) {
        return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, not_grpc(&text)));
    }
    let timeout = parts.headers.get(GRPC_TIMEOUT).map(lossy);
    let timeout = timeout.filter(|timeout| !timeout.is_empty());
    let timeout = timeout.map(|timeout| deadline::parse(&timeout)).transpose();
    let timeout = timeout.map_err(|error| {
        refused(StatusCode::BAD_REQUEST, format!("malformed grpc-timeout: {error}"))
    })?;
    binary::check(&parts.headers).map_err(|malformed| {
        // Compat: what made no sense is not told.
        let malformed = Malformed { value: String::new(), ..malformed };
        refused(StatusCode::BAD_REQUEST, malformed.to_string())
    })?;
    Ok((content_type, timeout))
}

impl Refused {
    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = error(self.status, self.text).map(Body::from);
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        if self.is_head {
            *response.body_mut() = Body::default();
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body::Body as _;

    use super::*;

    fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn refused(method: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let refused = read(&parts(method, headers)).unwrap_err();
        (refused.status.as_u16(), refused.text)
    }

    const GRPC: (&str, &str) = ("content-type", "application/grpc");

    #[test]
    fn what_is_no_call_is_told_so() {
        for (told, status, text) in [
            (refused("PUT", &[GRPC]), 405, r#"invalid gRPC request method "PUT""#),
            (
                refused("POST", &[("content-type", "application/grpc-web")]),
                415,
                r#"invalid gRPC request content-type "application/grpc-web""#,
            ),
            (
                refused("POST", &[GRPC, ("grpc-timeout", "1x")]),
                400,
                r#"malformed grpc-timeout: transport: timeout unit is not recognized: "1x""#,
            ),
            (
                refused("POST", &[GRPC, ("x-bin", "!!")]),
                400,
                r#"malformed binary metadata "" in header "x-bin": illegal base64 data at input byte 0"#,
            ),
        ] {
            assert_eq!(told, (status, text.to_owned()));
        }
    }

    #[test]
    fn a_call_is_answered_in_its_own_content_type() {
        let charset = ("content-type", "application/grpc;charset=utf-8");
        let (content_type, timeout) = read(&parts("POST", &[charset])).unwrap();
        assert_eq!((content_type.to_str().unwrap(), timeout), (charset.1, None));
        let (_, timeout) = read(&parts("POST", &[GRPC, ("grpc-timeout", "5S")])).unwrap();
        assert_eq!(timeout, Some(Duration::from_secs(5)));
        let (_, timeout) = read(&parts("POST", &[GRPC, ("grpc-timeout", "")])).unwrap();
        assert_eq!(timeout, None, "nothing said is nothing wanted");
    }

    #[test]
    fn refusals_are_pages() {
        let page = |method| read(&parts(method, &[GRPC])).unwrap_err().into_response();
        let get = page("GET");
        assert_eq!(
            (get.status().as_u16(), &get.headers()["allow"]),
            (405, &"POST".parse().unwrap())
        );
        assert_eq!(get.headers()["content-type"], "text/plain; charset=utf-8");
        assert!(!get.body().is_end_stream() && page("HEAD").body().is_end_stream());
    }
}
