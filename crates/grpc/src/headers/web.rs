//! Calls that arrive through a web server.
//!
//! On a port with TLS, etcd lets Go's web server speak HTTP/2 and passes on requests that claim to
//! be gRPC. A request that is not a valid call is then refused with an HTTP error page:
//!
//! ```text
//!   GET                                  405, allow: POST   invalid gRPC request method "GET"
//!   content-type: application/grpc-web   415                invalid gRPC request content-type …
//!   grpc-timeout: 1x                     400                malformed grpc-timeout: transport: …
//!   x-bin: !!                            400                malformed binary metadata …
//! ```

use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use super::binary::{self, MalformedMetadata};
use super::{GRPC_TIMEOUT, is_grpc, lossy, not_grpc};
use crate::body::Body;
use crate::deadline;

/// A refusal with an HTTP error page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WebRejection {
    status: StatusCode,
    text: String,
    /// Whether the request was HEAD, whose response has no body.
    is_head: bool,
}

/// Reads the content type, which the response repeats, and the timeout.
pub(super) fn read(parts: &Parts) -> Result<(HeaderValue, Option<Duration>), WebRejection> {
    let rejection =
        |status, text| WebRejection { status, text, is_head: parts.method == Method::HEAD };
    if parts.method != Method::POST {
        let text = format!("invalid gRPC request method {:?}", parts.method.as_str());
        return Err(rejection(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let content_type = parts.headers.get(CONTENT_TYPE);
    let content_type = content_type.cloned().unwrap_or(HeaderValue::from_static(""));
    let text = lossy(&content_type);
    if !is_grpc(&text) {
        return Err(rejection(StatusCode::UNSUPPORTED_MEDIA_TYPE, not_grpc(&text)));
    }
    let timeout = parts.headers.get(GRPC_TIMEOUT).map(lossy);
    let timeout = timeout.filter(|timeout| !timeout.is_empty());
    let timeout = timeout.map(|timeout| deadline::parse(&timeout)).transpose();
    let timeout = timeout.map_err(|error| {
        rejection(StatusCode::BAD_REQUEST, format!("malformed grpc-timeout: {error}"))
    })?;
    binary::validate(&parts.headers).map_err(|malformed| {
        // Compat: as in grpc-go under a web server, the malformed value is not repeated.
        let malformed = MalformedMetadata { value: String::new(), ..malformed };
        rejection(StatusCode::BAD_REQUEST, malformed.to_string())
    })?;
    Ok((content_type, timeout))
}

impl WebRejection {
    /// Creates the error page, as Go's `http.Error` writes it.
    pub(super) fn into_response<O>(self) -> Response<Body<O>> {
        let body = if self.is_head { Body::default() } else { Body::page(self.text + "\n") };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body::Body as _;

    use super::*;
    use crate::observer::tests::CodeObserver;

    fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn rejected(method: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let rejection = read(&parts(method, headers)).unwrap_err();
        (rejection.status.as_u16(), rejection.text)
    }

    const GRPC: (&str, &str) = ("content-type", "application/grpc");

    #[test]
    fn invalid_calls_are_refused_with_the_texts_of_grpc_go() {
        for (rejected, status, text) in [
            (rejected("PUT", &[GRPC]), 405, r#"invalid gRPC request method "PUT""#),
            (
                rejected("POST", &[("content-type", "application/grpc-web")]),
                415,
                r#"invalid gRPC request content-type "application/grpc-web""#,
            ),
            (
                rejected("POST", &[GRPC, ("grpc-timeout", "1x")]),
                400,
                r#"malformed grpc-timeout: transport: timeout unit is not recognized: "1x""#,
            ),
            (
                rejected("POST", &[GRPC, ("x-bin", "!!")]),
                400,
                r#"malformed binary metadata "" in header "x-bin": illegal base64 data at input byte 0"#,
            ),
        ] {
            assert_eq!(rejected, (status, text.to_owned()));
        }
    }

    #[test]
    fn the_response_repeats_the_content_type() {
        let charset = ("content-type", "application/grpc;charset=utf-8");
        let (content_type, timeout) = read(&parts("POST", &[charset])).unwrap();
        assert_eq!((content_type.to_str().unwrap(), timeout), (charset.1, None));
        let (_, timeout) = read(&parts("POST", &[GRPC, ("grpc-timeout", "5S")])).unwrap();
        assert_eq!(timeout, Some(Duration::from_secs(5)));
        let (_, timeout) = read(&parts("POST", &[GRPC, ("grpc-timeout", "")])).unwrap();
        assert_eq!(timeout, None, "an empty timeout is none");
    }

    #[test]
    fn refusals_are_error_pages() {
        let page =
            |method| read(&parts(method, &[GRPC])).unwrap_err().into_response::<CodeObserver>();
        let get = page("GET");
        assert_eq!(
            (get.status().as_u16(), &get.headers()["allow"]),
            (405, &"POST".parse().unwrap())
        );
        assert_eq!(get.headers()["content-type"], "text/plain; charset=utf-8");
        assert!(!get.body().is_end_stream() && page("HEAD").body().is_end_stream());
    }
}
