//! Responses and their JSON bodies.
//!
//! ```text
//!   unary             200  {"header":{…}}                          chunked if longer than 2 KiB
//!                     404  {"code":5,"message":"etcdserver: …"}
//!   stream            200  {"result":{…}}⏎{"result":{…}}⏎          a line per message
//!                          {"error":{"code":14,"message":"…"}}⏎    at the end of a failed stream
//!   not started       503  {"error":{"code":14,"message":"…"}}⏎
//! ```

use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use grpc::{Code, Status};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use proto::shape::Message;

use super::json::write::{Escape, Writer, put_string};
use super::replies::Replies;
use crate::body::Body;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
/// The content type of the inner gRPC response, which etcd's gateway passes on like all metadata.
const METADATA_TYPE: HeaderName = HeaderName::from_static("grpc-metadata-content-type");

/// The longest body that is sent with a length: the buffer of Go's server.
const WHOLE_MAX: usize = 2048;

/// The size of the chunks of a longer body.
const CHUNK_BYTES: usize = 64 << 10;

/// Creates the response to a unary call.
pub(super) fn unary(shape: &'static Message, message: Bytes, chunked: bool) -> Response<Body> {
    let mut out = BytesMut::new();
    let mut writer = Writer::new(shape, message, Escape::Json, &mut out);
    let is_whole = writer.write(&mut out, WHOLE_MAX + 1) && out.len() <= WHOLE_MAX;
    let body = match is_whole && !chunked {
        true => Body::from(out.freeze()),
        false => Body::json(JsonBody { out, writer: Some(writer), stream: None }),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response.headers_mut().insert(METADATA_TYPE, GRPC);
    response
}

/// Creates the response to a call that failed or was refused.
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

/// Creates the response to a stream, given its first reply. `has_started`: the gRPC response has a
/// body.
pub(super) fn stream(
    shape: &'static Message,
    first: Result<Option<Bytes>, Status>,
    replies: Replies,
    has_started: bool,
) -> Response<Body> {
    let mut json = JsonBody::default();
    let mut response = match first {
        Ok(Some(message)) => {
            json.start_line(shape, message);
            json.stream = Some((shape, replies));
            let mut response = Response::new(Body::json(json));
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            response
        }
        // A chunked body without chunks.
        Ok(None) => Response::new(Body::json(json)),
        Err(status) => {
            json.fail(&status);
            failed(&status, Body::json(json))
        }
    };
    if has_started {
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

/// A body of JSON that is written as it is sent.
#[derive(Debug, Default)]
pub(crate) struct JsonBody {
    out: BytesMut,
    /// The message that is being written.
    writer: Option<Writer>,
    /// The following messages of a stream.
    stream: Option<(&'static Message, Replies)>,
}

impl JsonBody {
    /// Polls for the next chunk; none at the end.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(writer) = &mut self.writer {
                if !writer.write(&mut self.out, CHUNK_BYTES) {
                    return Poll::Ready(Some(self.out.split().freeze()));
                }
                self.writer = None;
                if self.stream.is_some() {
                    self.out.put_slice(b"}\n");
                }
            }
            // Written bytes are sent before the next message is awaited.
            if !self.out.is_empty() {
                return Poll::Ready(Some(self.out.split().freeze()));
            }
            let Some((shape, replies)) = &mut self.stream else { return Poll::Ready(None) };
            let shape = *shape;
            match ready!(replies.poll_next(cx)) {
                Ok(Some(message)) => self.start_line(shape, message),
                Ok(None) => self.stream = None,
                Err(status) => {
                    self.fail(&status);
                    self.stream = None;
                }
            }
        }
    }

    /// Starts the line of a message.
    fn start_line(&mut self, shape: &'static Message, message: Bytes) {
        self.out.put_slice(b"{\"result\":");
        self.writer = Some(Writer::new(shape, message, Escape::Html, &mut self.out));
    }

    /// Writes the last line of a stream that failed.
    fn fail(&mut self, status: &Status) {
        self.out.put_slice(b"{\"error\":");
        put_status(status, Escape::Html, &mut self.out);
        self.out.put_slice(b"}\n");
    }
}

/// Maps a gRPC code to an HTTP status.
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
