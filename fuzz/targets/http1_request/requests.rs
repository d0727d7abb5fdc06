//! Drives the reader as hyper does, and compares the requests that hyper would see.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Uri};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::config::HTTP1_HEADERS_MAX;
use crate::http1::{Exchange, FirstLine, RequestReader};
use crate::model;
use crate::socket::Socket;

/// The fields that hyper accepts: the reader may add four.
const FIELDS_MAX: usize = HTTP1_HEADERS_MAX + 4;
/// The fields that the reader writes itself.
const REPLACED: [&str; 5] = ["host", "transfer-encoding", "content-length", "expect", "trailer"];
/// The line ends that are skipped behind a POST.
const BREAKS_MAX: usize = 4;
const READ_BYTES: usize = 16 << 10;
/// No request has this number.
const NEVER: usize = usize::MAX;

/// A request as hyper sees it.
#[derive(Debug, PartialEq, Eq)]
struct Passed {
    method: String,
    /// The head as it was passed on.
    head: Vec<u8>,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    is_whole: bool,
}

/// The end of a connection.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The stream of requests has ended.
    Eof,
    /// A body is malformed.
    Error(String),
    /// The head of a request was refused, with this response.
    Refused(Vec<u8>),
    /// The request expects something unknown, so that the connection ends with its response.
    ExpectationFailed,
    /// The bytes behind an upgrade.
    Upgraded(Vec<u8>),
}

/// The input has the length of the pieces, the treatment of the first line, and the number of the
/// request that is answered with an upgrade.
pub(crate) fn check(input: &[u8]) {
    let Some((&[piece, first_line, upgraded], input)) = input.split_first_chunk() else { return };
    let piece = usize::from(piece) + 1;
    let first_line = if first_line % 2 == 0 { FirstLine::Answer } else { FirstLine::Close };
    let whole = drive(Socket::new(input, input.len().max(1)), first_line, NEVER, READ_BYTES);
    let cut = drive(Socket::new(input, piece), first_line, NEVER, piece);
    assert_eq!(cut, whole, "independent of the cuts");
    check_boundaries(input, &whole.0, &whole.1);
    check_upgrade(input, &whole.0, first_line, usize::from(upgraded), piece);
    whole.0.iter().for_each(check_again);
    if let End::Refused(response) = &whole.1 {
        check_refusal(response, whole.0.is_empty() && first_line == FirstLine::Close);
    }
}

/// Compares all requests with those of the model.
fn check_boundaries(input: &[u8], requests: &[Passed], end: &End) {
    let mut at = 0;
    for (number, passed) in requests.iter().enumerate() {
        let request = model::Request::read(&input[at..]).expect("a whole head was passed on");
        assert_eq!(passed.method.as_bytes(), request.method);
        check_fields(passed, &request);
        if passed.is_whole {
            assert_eq!(passed.body, request.body);
        } else {
            assert!(request.body.starts_with(&passed.body));
            assert!(*end != End::Eof || (request.end, &request.body) == (None, &passed.body));
            assert_eq!(number + 1, requests.len(), "nothing follows an incomplete request");
            return;
        }
        at += request.end.expect("a whole body was passed on");
        at += breaks_behind(passed, &input[at..]);
    }
    // At the end of the input, only an unfinished line may be left.
    assert!(*end != End::Eof || !input[at..].contains(&b'\n'));
}

/// Returns the length of the line ends that are skipped behind a POST.
fn breaks_behind(passed: &Passed, rest: &[u8]) -> usize {
    let breaks = rest.iter().take(BREAKS_MAX).take_while(|byte| b"\r\n".contains(byte));
    if passed.method == "POST" { breaks.count() } else { 0 }
}

fn check_fields(passed: &Passed, request: &model::Request<'_>) {
    let is_kept = |name: &[u8]| !REPLACED.iter().any(|replaced| replaced.as_bytes() == name);
    let kept = passed.fields.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
    let given = request.fields.iter().map(|(name, value)| (&name[..], &value[..]));
    assert!(
        kept.filter(|(name, _)| is_kept(name)).eq(given.filter(|(name, _)| is_kept(name))),
        "{:?} became {:?}",
        request.fields,
        passed.fields
    );
}

/// Behind an upgrade, all bytes of the input pass unchanged.
fn check_upgrade(
    input: &[u8],
    requests: &[Passed],
    first_line: FirstLine,
    number: usize,
    piece: usize,
) {
    let mut at = 0;
    for (earlier, passed) in requests.iter().take(number + 1).enumerate() {
        let Some(end) = model::Request::read(&input[at..]).and_then(|request| request.end) else {
            return;
        };
        at += end;
        if earlier < number {
            at += breaks_behind(passed, &input[at..]);
        }
    }
    let (again, end) = drive(Socket::new(input, piece), first_line, number, piece);
    if let End::Upgraded(rest) = end {
        assert_eq!((again.len(), &rest[..]), (number + 1, &input[at..]));
    }
}

/// A rewritten head is valid, and does not change when it is read again.
fn check_again(passed: &Passed) {
    let host = passed.fields.iter().find(|(name, _)| name == "host");
    // Compat: as in Go, the host of an absolute URL may have bytes that the header must not have.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(byte);
    let is_plain = host.is_none_or(|(_, host)| host.iter().all(is_plain));
    // With a host that was part of the target, there may be one field too many.
    if !is_plain || passed.fields.len() > HTTP1_HEADERS_MAX {
        return;
    }
    let socket = Socket::new(&passed.head, READ_BYTES);
    let (again, end) = drive(socket, FirstLine::Answer, NEVER, READ_BYTES);
    assert_eq!(again.len(), 1, "{end:?}");
    assert_eq!(again[0].head, passed.head);
}

fn check_refusal(response: &[u8], may_be_empty: bool) {
    if response.is_empty() {
        assert!(may_be_empty, "only the first line of a connection is refused without a response");
        return;
    }
    let mut fields = [httparse::EMPTY_HEADER; 8];
    let mut parsed = httparse::Response::new(&mut fields);
    let head = parsed.parse(response).expect("a valid response");
    assert!(head.is_complete() && response.len() > head.unwrap(), "the reason follows the head");
    assert!(matches!(parsed.code, Some(400 | 431 | 501 | 505)));
    let closes = |field: &httparse::Header<'_>| {
        field.name.eq_ignore_ascii_case("connection") && field.value == b"close"
    };
    assert!(parsed.headers.iter().any(closes), "the body ends with the connection");
}

/// Reads all requests, `buffer` bytes at a time, and answers each. The answer to request number
/// `upgraded` is an upgrade.
fn drive(
    socket: Socket,
    first_line: FirstLine,
    upgraded: usize,
    buffer: usize,
) -> (Vec<Passed>, End) {
    let (sent, is_open) = (Rc::clone(&socket.sent), Rc::clone(&socket.is_open));
    let reader = RequestReader::new(socket, first_line, Duration::ZERO);
    let exchange = reader.exchange();
    let mut hyper = Hyper { reader, buffer, unparsed: Vec::new() };
    let mut requests = Vec::new();
    let end = loop {
        let (passed, end) = hyper.read_request();
        let is_whole = passed.as_ref().is_some_and(|passed| passed.is_whole);
        requests.extend(passed);
        if let Some(end) = end {
            break end;
        }
        if let Some(response) = exchange.refuse_expectation::<()>() {
            assert_eq!(response.status(), StatusCode::EXPECTATION_FAILED);
            break End::ExpectationFailed;
        }
        assert!(is_whole && hyper.unparsed.is_empty(), "bytes of the next request are passed on");
        is_open.set(true);
        assert_eq!(hyper.read(), Read::Blocked, "the response is incomplete");
        is_open.set(false);
        let is_upgrade = requests.len() == upgraded.saturating_add(1);
        respond(&exchange, is_upgrade);
        if is_upgrade {
            break hyper.read_rest();
        }
    };
    if exchange.refused().is_none() {
        return (requests, end);
    }
    assert_eq!(end, End::Eof);
    hyper.shut_down();
    let response = sent.borrow().clone();
    (requests, End::Refused(response))
}

fn respond(exchange: &Arc<Exchange>, is_upgrade: bool) {
    let mut response = Response::new(());
    if is_upgrade {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    }
    drop(exchange.respond(response));
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    More,
    Blocked,
    End(End),
}

/// The reading part of a simple HTTP/1 server, as strict as hyper.
struct Hyper {
    reader: RequestReader<Socket>,
    buffer: usize,
    /// Bytes that were read and not parsed.
    unparsed: Vec<u8>,
}

impl Hyper {
    /// Reads a request, and the end of the connection if there is no whole one.
    fn read_request(&mut self) -> (Option<Passed>, Option<End>) {
        let mut passed = loop {
            if let Some(passed) = self.parse_head() {
                break passed;
            }
            if let Some(end) = self.read_more() {
                assert!(self.unparsed.is_empty(), "a head is passed on whole");
                return (None, Some(end));
            }
        };
        let value = |wanted| {
            let found = passed.fields.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.clone())
        };
        let (coding, length) = (value("transfer-encoding"), value("content-length"));
        let end = match coding {
            Some(coding) => {
                assert_eq!(coding, b"chunked");
                self.read_chunks(&mut passed.body)
            }
            None => {
                let digits = String::from_utf8(length.unwrap_or(b"0".to_vec()));
                let length = digits.expect("a number").parse().expect("a number");
                self.read_data(length, &mut passed.body)
            }
        };
        passed.is_whole = end.is_none();
        (Some(passed), end)
    }

    /// Parses a head, if it is complete.
    fn parse_head(&mut self) -> Option<Passed> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        let length = match request.parse(&self.unparsed).expect("hyper parses the head") {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial => return None,
        };
        let method = request.method.expect("a method").to_owned();
        let target = request.path.expect("a target");
        method.parse::<Method>().expect("hyper accepts the method");
        target.parse::<Uri>().expect("hyper accepts the target");
        let fields = request.headers.iter().map(|field| {
            let name: HeaderName = field.name.parse().expect("hyper accepts the name");
            HeaderValue::from_bytes(field.value).expect("hyper accepts the value");
            (name.as_str().to_owned(), field.value.to_vec())
        });
        let fields: Vec<(String, Vec<u8>)> = fields.collect();
        let count = |wanted| fields.iter().filter(|(name, _)| name == wanted).count();
        let may_lack_host = request.version == Some(0) || method == "CONNECT";
        assert!(count("host") == 1 || count("host") == 0 && may_lack_host, "one host");
        assert!(count("content-length") + count("transfer-encoding") <= 1, "one length");
        let head = self.unparsed.drain(..length).collect();
        Some(Passed { method, head, fields, body: Vec::new(), is_whole: false })
    }

    /// Reads chunks as the reader writes them. Returns the end if they are incomplete.
    fn read_chunks(&mut self, body: &mut Vec<u8>) -> Option<End> {
        loop {
            let length = loop {
                if let Some(at) = self.unparsed.iter().position(|byte| *byte == b'\n') {
                    break at + 1;
                }
                if let Some(end) = self.read_more() {
                    return Some(end);
                }
            };
            let line: Vec<u8> = self.unparsed.drain(..length).collect();
            let digits = line.strip_suffix(b"\r\n").expect("a line end").to_vec();
            let digits = String::from_utf8(digits).expect("a number");
            let size = u64::from_str_radix(&digits, 16).expect("a number");
            let mut line_end = Vec::new();
            let end = self.read_data(size, body).or_else(|| self.read_data(2, &mut line_end));
            if end.is_some() {
                return end;
            }
            assert_eq!(line_end, b"\r\n");
            if size == 0 {
                return None;
            }
        }
    }

    /// Reads a number of bytes. Returns the end if there are fewer.
    fn read_data(&mut self, length: u64, into: &mut Vec<u8>) -> Option<End> {
        let mut left = length;
        loop {
            let size = usize::try_from(left).unwrap_or(usize::MAX).min(self.unparsed.len());
            into.extend(self.unparsed.drain(..size));
            left -= size as u64;
            if left == 0 {
                return None;
            }
            if let Some(end) = self.read_more() {
                return Some(end);
            }
        }
    }

    fn read_rest(&mut self) -> End {
        loop {
            match self.read_more() {
                None => {}
                Some(End::Eof) => return End::Upgraded(std::mem::take(&mut self.unparsed)),
                Some(end) => panic!("an upgraded connection ends with {end:?}"),
            }
        }
    }

    fn read_more(&mut self) -> Option<End> {
        match self.read() {
            Read::More => None,
            Read::End(end) => Some(end),
            Read::Blocked => panic!("the socket never blocks"),
        }
    }

    fn read(&mut self) -> Read {
        let mut bytes = vec![0; self.buffer];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut self.reader).poll_read(&mut cx, &mut buffer) {
            Poll::Pending => Read::Blocked,
            Poll::Ready(Err(error)) => Read::End(End::Error(error.to_string())),
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => Read::End(End::Eof),
            Poll::Ready(Ok(())) => {
                self.unparsed.extend_from_slice(buffer.filled());
                Read::More
            }
        }
    }

    fn shut_down(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let shut_down = Pin::new(&mut self.reader).poll_shutdown(&mut cx);
        assert!(matches!(shut_down, Poll::Ready(Ok(()))), "the socket never blocks or fails");
    }
}
