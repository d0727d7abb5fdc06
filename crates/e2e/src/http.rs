//! A minimal HTTP/1.1 client: one request per connection, which the server closes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use testkit::waiting::wait_until;

use crate::TIMEOUT;

/// Maximum size of a response.
const RESPONSE_BYTES_MAX: u64 = 16 << 20;

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers in order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body, with chunks joined.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns a header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    ///
    /// # Panics
    ///
    /// If it is not UTF-8.
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a UTF-8 body")
    }
}

/// Returns the value of a metric in a page of them, by its name and labels as printed.
///
/// # Panics
///
/// If there is no such series.
#[track_caller]
pub fn series(page: &str, series: &str) -> f64 {
    let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no series {series} in the metrics"));
    value.parse().unwrap_or_else(|error| panic!("{series} {value}: {error}"))
}

/// Repeats a health request while the response is 503, and returns the first other response. A
/// member answers 503 while a write of its log takes a second or more, as on a busy disk.
///
/// # Panics
///
/// If all responses are 503 until the timeout.
#[track_caller]
pub fn wait_until_healthy(mut ask: impl FnMut() -> Response) -> Response {
    let mut last = None;
    wait_until("the member is healthy", || last.insert(ask()).status != 503);
    last.expect("the wait ends with a response")
}

/// Sends GET to `host:port`.
#[track_caller]
pub fn get(address: &str, path: &str) -> Response {
    request(address, "GET", path, &[], "")
}

/// Sends a request to `host:port`. Given headers replace the default ones.
///
/// # Panics
///
/// If no valid HTTP response arrives in time.
#[track_caller]
pub fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(TIMEOUT)).expect("set a read timeout");
    exchange(stream, &format_request(address, method, path, headers, body))
}

/// Sends GET to a unix socket.
///
/// # Panics
///
/// If no valid HTTP response arrives in time.
#[track_caller]
pub fn get_unix(socket: &Path, path: &str) -> Response {
    let stream = UnixStream::connect(socket).unwrap_or_else(|error| panic!("{socket:?}: {error}"));
    stream.set_read_timeout(Some(TIMEOUT)).expect("set a read timeout");
    exchange(stream, &format_request("localhost", "GET", path, &[], ""))
}

pub(crate) fn format_request(
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let length = body.len().to_string();
    let defaults = [("Host", host), ("Connection", "close"), ("Content-Length", &length)];
    let replaced = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let defaults = defaults.iter().filter(|(name, _)| !replaced(name));
    let lines: String =
        defaults.chain(headers).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\n{lines}\r\n{body}")
}

#[track_caller]
pub(crate) fn exchange(mut stream: impl Read + Write, request: &str) -> Response {
    stream.write_all(request.as_bytes()).expect("write the request");
    let mut response = Vec::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut response).expect("read the response in time");
    parse(&response).unwrap_or_else(|| {
        panic!("invalid HTTP response: {:?}", String::from_utf8_lossy(&response))
    })
}

fn parse(response: &[u8]) -> Option<Response> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&response[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers = lines.map(header).collect::<Option<Vec<_>>>()?;
    let rest = &response[end + 4..];
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
    fn a_response_is_parsed() {
        let response =
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: a/b\r\nX: y: z\r\n\r\nno";
        let response = parse(response).unwrap();
        assert_eq!((response.status, response.text().as_str()), (503, "no"));
        assert_eq!(response.header("content-type"), Some("a/b"));
        assert_eq!(response.header("x"), Some("y: z"));
    }

    #[test]
    fn chunks_are_joined_and_incomplete_responses_rejected() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let response = format!("{head}4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n");
        assert_eq!(parse(response.as_bytes()).unwrap().text(), "abcde");
        assert_eq!(parse(format!("{head}4\r\nab").as_bytes()), None);
        assert_eq!(parse(b"SSH-2.0"), None);
    }

    #[test]
    fn only_an_unhealthy_response_is_repeated() {
        let mut statuses = [503, 503, 404, 200].into_iter();
        let response = wait_until_healthy(|| {
            let status = statuses.next().unwrap();
            Response { status, headers: Vec::new(), body: Vec::new() }
        });
        assert_eq!((response.status, statuses.next()), (404, Some(200)));
    }

    #[test]
    fn given_headers_replace_the_default_ones() {
        let text = format_request("h:1", "GET", "/", &[("host", "evil.example")], "");
        assert!(text.contains("host: evil.example\r\n") && !text.contains("Host: h:1"), "{text}");
    }
}
