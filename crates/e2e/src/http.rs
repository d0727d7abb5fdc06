//! Just enough of an HTTP/1.1 client: one request on one connection, which the server closes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::PATIENCE;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its headers, with names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    /// Its body, put together if it came in chunks.
    pub body: Vec<u8>,
}

impl Response {
    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    ///
    /// # Panics
    ///
    /// If it is none.
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is text")
    }
}

/// GET of a path at `host:port`.
#[track_caller]
pub fn get(address: &str, path: &str) -> Response {
    request(address, "GET", path, &[], "")
}

/// A request to `host:port`. Headers replace those that are sent anyhow.
///
/// # Panics
///
/// If there is no answer in time, or none of HTTP.
#[track_caller]
pub fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    exchange(stream, &written(address, method, path, headers, body))
}

/// GET of a path on a unix socket.
///
/// # Panics
///
/// If there is no answer in time, or none of HTTP.
#[track_caller]
pub fn get_unix(socket: &Path, path: &str) -> Response {
    let stream = UnixStream::connect(socket).unwrap_or_else(|error| panic!("{socket:?}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    exchange(stream, &written("localhost", "GET", path, &[], ""))
}

pub(crate) fn written(
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let length = body.len().to_string();
    let usual = [("Host", host), ("Connection", "close"), ("Content-Length", &length)];
    let replaced = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let usual = usual.iter().filter(|(name, _)| !replaced(name));
    let lines: String =
        usual.chain(headers).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\n{lines}\r\n{body}")
}

#[track_caller]
pub(crate) fn exchange(mut stream: impl Read + Write, request: &str) -> Response {
    stream.write_all(request.as_bytes()).expect("the request is taken");
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).expect("an answer comes in time");
    parse(&answer).unwrap_or_else(|| panic!("no HTTP: {:?}", String::from_utf8_lossy(&answer)))
}

fn parse(answer: &[u8]) -> Option<Response> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers = lines.map(header).collect::<Option<Vec<_>>>()?;
    let rest = &answer[end + 4..];
    let chunked =
        headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { join_chunks(rest)? } else { rest.to_vec() };
    Some(Response { status, headers, body })
}

/// `4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n` → `abcde`
fn join_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        rest = &rest[end + 2..];
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..length)?);
        rest = rest.get(length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: a/b\r\nX: y: z\r\n\r\nno";
        let answer = parse(answer).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (503, "no"));
        assert_eq!(answer.header("content-type"), Some("a/b"));
        assert_eq!(answer.header("x"), Some("y: z"));
    }

    #[test]
    fn chunks_are_joined_and_half_an_answer_is_none() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = format!("{head}4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n");
        assert_eq!(parse(answer.as_bytes()).unwrap().text(), "abcde");
        assert_eq!(parse(format!("{head}4\r\nab").as_bytes()), None);
        assert_eq!(parse(b"SSH-2.0"), None);
    }

    #[test]
    fn headers_that_are_given_replace_the_usual_ones() {
        let text = written("h:1", "GET", "/", &[("host", "evil.example")], "");
        assert!(text.contains("host: evil.example\r\n") && !text.contains("Host: h:1"), "{text}");
    }
}
