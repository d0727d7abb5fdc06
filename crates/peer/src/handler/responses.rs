//! Responses in the forms of Go's HTTP server.

use std::fmt::Display;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};

/// A complete response.
pub(super) type HandlerResponse = Response<Bytes>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Builds a response with a content type.
pub(super) fn body(kind: HeaderValue, body: impl Into<Bytes>) -> HandlerResponse {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Builds an error response with a line of text.
pub(super) fn error(status: StatusCode, text: impl Display) -> HandlerResponse {
    let mut response = body(TEXT, format!("{text}\n"));
    *response.status_mut() = status;
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

pub(super) fn text(text: impl Into<Bytes>) -> HandlerResponse {
    body(TEXT, text)
}

pub(super) fn json(text: impl Into<Bytes>) -> HandlerResponse {
    body(HeaderValue::from_static("application/json"), text)
}

pub(super) fn protobuf(bytes: impl Into<Bytes>) -> HandlerResponse {
    body(HeaderValue::from_static("application/protobuf"), bytes)
}

/// Builds an error response in JSON, without a trailing newline.
pub(super) fn json_error(status: StatusCode, text: impl Display) -> HandlerResponse {
    let text = serde_json::Value::String(text.to_string());
    let mut response = json(format!(r#"{{"message":{text}}}"#));
    *response.status_mut() = status;
    response
}

/// Builds the response to an accepted message.
pub(super) fn no_content() -> HandlerResponse {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(super) fn not_found() -> HandlerResponse {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

pub(super) fn wrong_method(right: Option<Method>) -> HandlerResponse {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    let right = right.and_then(|method| HeaderValue::from_str(method.as_str()).ok());
    if let Some(right) = right {
        response.headers_mut().insert(header::ALLOW, right);
    }
    response
}

/// Builds a redirect. Compat: only GET and HEAD get an HTML body, as from Go.
pub(super) fn redirect(method: &Method, path: &str, query: Option<&str>) -> HandlerResponse {
    let to = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = match *method {
        Method::GET | Method::HEAD => {
            // No other character that HTML must escape is valid in a URI.
            let link = to.replace('&', "&amp;").replace('\'', "&#39;");
            body(html, format!("<a href=\"{link}\">Temporary Redirect</a>.\n\n"))
        }
        _ => Response::default(),
    };
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    if let Ok(to) = HeaderValue::from_str(&to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// Compat: Go uses the old reason phrase of this status.
pub(super) fn too_large(text: &str) -> HandlerResponse {
    let mut response = closing(error(StatusCode::PAYLOAD_TOO_LARGE, text));
    let reason = hyper::ext::ReasonPhrase::from_static(b"Request Entity Too Large");
    response.extensions_mut().insert(reason);
    response
}

/// Makes the connection close after the response.
pub(super) fn closing(mut response: HandlerResponse) -> HandlerResponse {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
