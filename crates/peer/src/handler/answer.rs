//! Answers of the shapes that Go's HTTP server gives them.

use std::fmt::Display;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};

/// An answer that is whole.
pub(super) type Answer = Response<Bytes>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// A body of some type.
pub(super) fn body(kind: HeaderValue, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A failure, in a line of text.
pub(super) fn error(status: StatusCode, text: impl Display) -> Answer {
    let mut response = body(TEXT, format!("{text}\n"));
    *response.status_mut() = status;
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

pub(super) fn text(text: impl Into<Bytes>) -> Answer {
    body(TEXT, text)
}

pub(super) fn json(text: impl Into<Bytes>) -> Answer {
    body(HeaderValue::from_static("application/json"), text)
}

pub(super) fn protobuf(bytes: impl Into<Bytes>) -> Answer {
    body(HeaderValue::from_static("application/protobuf"), bytes)
}

/// A failure, as JSON. No newline here.
pub(super) fn json_error(status: StatusCode, text: impl Display) -> Answer {
    let text = serde_json::Value::String(text.to_string());
    let mut response = json(format!(r#"{{"message":{text}}}"#));
    *response.status_mut() = status;
    response
}

/// It was taken.
pub(super) fn taken() -> Answer {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(super) fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

pub(super) fn wrong_method(right: Option<Method>) -> Answer {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    let right = right.and_then(|method| HeaderValue::from_str(method.as_str()).ok());
    if let Some(right) = right {
        response.headers_mut().insert(header::ALLOW, right);
    }
    response
}

/// Sends somebody elsewhere. Only who just looks is told so in HTML.
pub(super) fn redirect(method: &Method, path: &str, query: Option<&str>) -> Answer {
    let to = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = match *method {
        Method::GET | Method::HEAD => {
            // What else HTML would not take is in no URI.
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

/// Compat: the name that Go has for this status is the old one.
pub(super) fn too_large(text: &str) -> Answer {
    let mut response = last(error(StatusCode::PAYLOAD_TOO_LARGE, text));
    let reason = hyper::ext::ReasonPhrase::from_static(b"Request Entity Too Large");
    response.extensions_mut().insert(reason);
    response
}

/// The same, after which the connection ends.
pub(super) fn last(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}
