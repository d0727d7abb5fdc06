//! Responses, and their bodies of JSON.
//!
//! ```text
//!   unary             200  {"header":{…}}                                   up to 2 KiB with a length, longer ones in pieces
//!                     404  {"code":5,"message":"etcdserver: …"}
//!   stream            200  {"result":{…}}⏎{"result":{…}}⏎                   a line each
//!                          {"error":{"code":14,"message":"…"}}⏎            at the end of one that fails
//!   that never began  503  {"error":{"code":14,"message":"…"}}⏎
//! ```

use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use proto::shape::Message;

use super::json::write::{Escape, Writer, put_string};
use super::replies::Replies;
use crate::body::Body;
use crate::grpc::{Code, Status};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
/// The content type of the answer within, which etcd's gateway passes on as it does all metadata.
const METADATA_TYPE: HeaderName = HeaderName::from_static("grpc-metadata-content-type");

/// What is sent with its length: the bytes that Go's server collects before it decides.
const WHOLE_MAX: usize = 2048;

/// The bytes that are written at a time of what is longer.
const PIECE: usize = 64 << 10;

/// An answer to a unary call.
pub(super) fn unary(shape: &'static Message, message: Bytes, in_pieces: bool) -> Response<Body> {
    let mut out = BytesMut::new();
    let mut writer = Writer::new(shape, message, Escape::Json, &mut out);
    let is_whole = writer.write(&mut out, WHOLE_MAX + 1) && out.len() <= WHOLE_MAX;
    let body = match is_whole && !in_pieces {
        true => Body::from(out.freeze()),
        false => Body::json(Json { out, writer: Some(writer), stream: None }),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response.headers_mut().insert(METADATA_TYPE, GRPC);
    response
}

/// What came of a call that failed, or was none.
pub(super) fn refused(status: &Status) -> Response<Body> {
    let mut out = BytesMut::new();
    put_status(status, Escape::Json, &mut out);
    let mut response = failed(status, Body::from(out.freeze()));
    if status.code == Code::Unauthenticated
        && let Ok(text) = HeaderValue::from_str(&status.message)
    {
        response.headers_mut().insert(WWW_AUTHENTICATE, text);
    }
    response
}

/// The answer to a stream, from its first reply on. `is_begun`: the call did not just end.
pub(super) fn stream(
    shape: &'static Message,
    first: Result<Option<Bytes>, Status>,
    replies: Replies,
    is_begun: bool,
) -> Response<Body> {
    let mut json = Json::default();
    let mut response = match first {
        Ok(Some(message)) => {
            json.begin(shape, message);
            json.stream = Some((shape, replies));
            let mut response = Response::new(Body::json(json));
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            response
        }
        // In pieces, of which there are none.
        Ok(None) => Response::new(Body::json(json)),
        Err(status) => {
            json.fail(&status);
            failed(&status, Body::json(json))
        }
    };
    if is_begun {
        response.headers_mut().insert(METADATA_TYPE, GRPC);
    }
    response
}

fn failed(status: &Status, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = http_status(status.code);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// `{"code":5,"message":"Not Found"}`
fn put_status(status: &Status, escape: Escape, out: &mut BytesMut) {
    out.put_slice(format!("{{\"code\":{}", status.code as u8).as_bytes());
    if !status.message.is_empty() {
        out.put_slice(b",\"message\":");
        put_string(&status.message, escape, out);
    }
    out.put_u8(b'}');
}

/// A body of JSON that is written as it goes out.
#[derive(Debug, Default)]
pub(crate) struct Json {
    out: BytesMut,
    /// The message that is being written.
    writer: Option<Writer>,
    /// What follows it, if it is one of a stream.
    stream: Option<(&'static Message, Replies)>,
}

impl Json {
    /// The next piece; none at the end.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(writer) = &mut self.writer {
                if !writer.write(&mut self.out, PIECE) {
                    return Poll::Ready(Some(self.out.split().freeze()));
                }
                self.writer = None;
                if self.stream.is_some() {
                    self.out.put_slice(b"}\n");
                }
            }
            // What is there goes out before more is waited for.
            if !self.out.is_empty() {
                return Poll::Ready(Some(self.out.split().freeze()));
            }
            let Some((shape, replies)) = &mut self.stream else { return Poll::Ready(None) };
            let shape = *shape;
            match ready!(replies.poll_next(cx)) {
                Ok(Some(message)) => self.begin(shape, message),
                Ok(None) => self.stream = None,
                Err(status) => {
                    self.fail(&status);
                    self.stream = None;
                }
            }
        }
    }

    /// Begins a line.
    fn begin(&mut self, shape: &'static Message, message: Bytes) {
        self.out.put_slice(b"{\"result\":");
        self.writer = Some(Writer::new(shape, message, Escape::Html, &mut self.out));
    }

    /// The last line of a stream that failed.
    fn fail(&mut self, status: &Status) {
        self.out.put_slice(b"{\"error\":");
        put_status(status, Escape::Html, &mut self.out);
        self.out.put_slice(b"}\n");
    }
}

/// What a code of gRPC is to those who speak HTTP.
fn http_status(code: Code) -> StatusCode {
    let number = match code {
        Code::Ok => 200,
        Code::Canceled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unauthenticated => 401,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    };
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
