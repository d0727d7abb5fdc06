//! Responses in the form of Go's HTTP server.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

/// The content type of plain text.
pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Creates a response with a content type.
pub(super) fn body(kind: HeaderValue, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The bytes from which on Go's server sends a body before it knows its length.
const PAGE_BYTES_MIN: usize = 2049;

/// Marks a response whose length is not announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unannounced;

/// Creates a response that is written bit by bit. As with Go, the length of a long one is not
/// announced.
pub(super) fn page(kind: HeaderValue, text: impl Into<Bytes>) -> Response<Bytes> {
    as_page(body(kind, text))
}

/// Marks a response that is written bit by bit: the length of a long one is not announced.
pub(super) fn as_page(mut response: Response<Bytes>) -> Response<Bytes> {
    if response.body().len() >= PAGE_BYTES_MIN {
        response.extensions_mut().insert(Unannounced);
    }
    response
}

/// Creates a text response whose content type browsers must not guess.
pub(super) fn plain(text: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = body(TEXT, text);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

/// Creates an error response. As in Go, a newline is added to the text in any case.
pub(crate) fn error(status: StatusCode, text: impl std::fmt::Display) -> Response<Bytes> {
    let mut response = plain(format!("{text}\n"));
    *response.status_mut() = status;
    response
}

pub(super) fn json(text: String) -> Response<Bytes> {
    body(HeaderValue::from_static("application/json"), text)
}

pub(super) fn not_found() -> Response<Bytes> {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// Refuses all methods except GET. Compat: as in etcd, HEAD is refused, too.
pub(super) fn only_get(head: &Parts) -> Option<Response<Bytes>> {
    if head.method == Method::GET {
        return None;
    }
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    Some(response)
}

/// Refuses a request for `*` that is not OPTIONS.
pub(super) fn no_path() -> Response<Bytes> {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Refuses a malformed request.
pub(super) fn malformed() -> Response<Bytes> {
    let mut response = body(TEXT, "400 Bad Request");
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// Creates a redirect, with an HTML body for GET.
pub(super) fn redirect(method: &Method, to: &str) -> Response<Bytes> {
    let html = |text: String| body(HeaderValue::from_static("text/html; charset=utf-8"), text);
    let mut response = match *method {
        Method::GET => {
            // Other special characters of HTML are percent-encoded or not allowed in a URI.
            let link = to.replace('&', "&amp;").replace('\'', "&#39;");
            html(format!("<a href=\"{link}\">Temporary Redirect</a>.\n\n"))
        }
        Method::HEAD => html(String::new()),
        _ => Response::default(),
    };
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    // The target is percent-encoded, so it is a valid header value.
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// Removes the body and sets its length as a header, if that is announced.
pub(super) fn strip_body(response: &mut Response<Bytes>) {
    let body = std::mem::take(response.body_mut());
    if !body.is_empty() && response.extensions().get::<Unannounced>().is_none() {
        response.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
    }
}
