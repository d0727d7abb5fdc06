//! Responses of the shapes that Go's HTTP server gives them.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

/// Text for people.
pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// A body of some type.
pub(super) fn body(kind: HeaderValue, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Text that a browser is told not to guess about.
pub(super) fn plain(text: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = body(TEXT, text);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

/// A failure, with a newline behind its text, even if there is one.
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

/// The refusal of all methods but GET, HEAD among them.
pub(super) fn only_get(asked: &Parts) -> Option<Response<Bytes>> {
    if asked.method == Method::GET {
        return None;
    }
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    Some(response)
}

/// What names no path, and is no question about the server either.
pub(super) fn no_path() -> Response<Bytes> {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Sends somebody elsewhere. Only who just looks is told so in HTML.
pub(super) fn redirect(method: &Method, to: &str) -> Response<Bytes> {
    let html = |text: String| body(HeaderValue::from_static("text/html; charset=utf-8"), text);
    let mut response = match *method {
        Method::GET => {
            // What else HTML would not take is escaped already, or is in no URI.
            let link = to.replace('&', "&amp;").replace('\'', "&#39;");
            html(format!("<a href=\"{link}\">Temporary Redirect</a>.\n\n"))
        }
        Method::HEAD => html(String::new()),
        _ => Response::default(),
    };
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    // What is redirected to has been escaped, so it is a value; were it none, the status would still say enough.
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// Takes the body away, and leaves its length.
pub(super) fn strip(response: &mut Response<Bytes>) {
    let body = std::mem::take(response.body_mut());
    if !body.is_empty() {
        response.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
    }
}
