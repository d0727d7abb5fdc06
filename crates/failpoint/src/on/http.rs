//! gofail's HTTP protocol, for changing points while a member runs.
//!
//! ```text
//! GET /                      200  all points, a line each: name=terms
//! GET /walBeforeSync         200  panic              404  if it is not enabled
//! GET /walBeforeSync/count   200  3                  500  if it is not enabled
//! PUT /walBeforeSync         204  with terms         400  if the terms are invalid
//! PUT /failpoints            204  with name=terms;name=terms
//! DELETE /walBeforeSync      204                     400  if it is not enabled
//! ```
//!
//! Serves one connection at a time, one request each. Disconnects clients that take longer than
//! [`CLIENT_TIMEOUT`] or exceed the bounds below.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::registry::{EnableError, Registry};

/// Timeout of each read and write.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a request head, in bytes.
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// Maximum size of a request body, in bytes.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// Serves requests forever.
pub(super) fn serve(listener: &TcpListener, registry: &Registry) {
    for stream in listener.incoming().flatten() {
        // The client retries.
        let _ = serve_one(stream, registry);
    }
}

fn serve_one(mut stream: TcpStream, registry: &Registry) -> io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let Some(request) = read(BufReader::new(&stream))? else { return Ok(()) };
    // Until the response is sent, no point aborts the process, so that the client learns that its
    // request was accepted.
    let _guard = registry.lock_responding();
    let reply = answer(registry, &request);
    stream.write_all(reply.encode().as_bytes())?;
    stream.flush()
}

struct Request {
    method: String,
    target: String,
    body: String,
}

/// Reads a request. Returns `None` for an empty or invalid one.
fn read(stream: impl Read) -> io::Result<Option<Request>> {
    let mut head = BufReader::new(stream.take(HEAD_BYTES_MAX + BODY_BYTES_MAX));
    let mut line = String::new();
    head.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let mut length = 0;
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<u64>().unwrap_or(0).min(BODY_BYTES_MAX);
        }
    }
    let mut body = String::new();
    head.take(length).read_to_string(&mut body)?;
    Ok(Some(Request { method, target, body }))
}

struct Reply {
    status: &'static str,
    /// Adds the headers of Go's `http.Error`.
    error: bool,
    body: String,
}

impl Reply {
    fn ok(body: String) -> Reply {
        Reply { status: "200 OK", error: false, body }
    }

    fn done() -> Reply {
        Reply { status: "204 No Content", error: false, body: String::new() }
    }

    fn error(status: &'static str, text: &str) -> Reply {
        Reply { status, error: true, body: format!("{text}\n") }
    }

    fn encode(&self) -> String {
        let Reply { status, error, body } = self;
        let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
        if *error {
            text +=
                "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n";
        }
        if status.starts_with("405") {
            text += "Allow: PUT\r\n";
        }
        if !status.starts_with("204") {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text + "\r\n" + body
    }
}

const BAD_REQUEST: &str = "400 Bad Request";
const NOT_FOUND: &str = "404 Not Found";

fn answer(registry: &Registry, request: &Request) -> Reply {
    let Some(key) = request.target.strip_prefix('/') else {
        return Reply::error(BAD_REQUEST, "malformed request URI");
    };
    match request.method.as_str() {
        "PUT" => put(registry, key, &request.body),
        "GET" if key.is_empty() => Reply::ok(list(registry)),
        "GET" => match key.strip_suffix("/count") {
            Some(name) => count(registry, name),
            None => get(registry, key),
        },
        "DELETE" => match registry.disable(key) {
            Ok(()) => Reply::done(),
            Err(error) => Reply::error(BAD_REQUEST, &format!("failed to delete failpoint {error}")),
        },
        _ => Reply::error("405 Method Not Allowed", "Method not allowed"),
    }
}

fn put(registry: &Registry, key: &str, body: &str) -> Reply {
    let set = match key.eq_ignore_ascii_case("failpoints") {
        true => registry.enable_all(body),
        false => registry.enable(key, body),
    };
    match set {
        Ok(()) => Reply::done(),
        Err(error @ EnableError::List(_)) => {
            Reply::error(BAD_REQUEST, &format!("fail to parse failpoint: {error}"))
        }
        Err(error) => Reply::error(BAD_REQUEST, &format!("fail to set failpoint: {error}")),
    }
}

/// Lists all points, one per line.
fn list(registry: &Registry) -> String {
    let line = |name: &String| {
        let source = registry.status(name).map_or(String::new(), |(source, _)| source);
        format!("{name}={source}")
    };
    registry.names().iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

fn get(registry: &Registry, name: &str) -> Reply {
    match registry.status(name) {
        Ok((source, _)) => Reply::ok(source + "\n"),
        // Compat: gofail continues after the error, and appends an empty line.
        Err(error) => Reply::error(NOT_FOUND, &format!("failed to GET: {error}\n")),
    }
}

fn count(registry: &Registry, name: &str) -> Reply {
    match registry.status(name) {
        Ok((_, count)) => Reply::ok(count.to_string()),
        Err(error) => {
            let missing = error == EnableError::NoSuchPoint;
            let status = if missing { NOT_FOUND } else { "500 Internal Server Error" };
            Reply::error(status, &format!("failed to GET: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns status and body of the response to a request.
    fn ask(registry: &Registry, method: &str, target: &str, body: &str) -> (String, String) {
        let text = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let request = read(text.as_bytes()).unwrap().unwrap();
        let reply = answer(registry, &request);
        (reply.status[..3].to_owned(), reply.body)
    }

    #[test]
    fn responses_match_gofail() {
        let registry = Registry::new(&["a", "b"]);
        let ask = |method, target, body| ask(&registry, method, target, body);
        let is = |status: &str, body: &str| (status.to_owned(), body.to_owned());
        assert_eq!(ask("GET", "/", ""), is("200", "a=\nb=\n"));
        assert_eq!(ask("PUT", "/a", "1*return(5)"), is("204", ""));
        assert_eq!(ask("GET", "/", ""), is("200", "a=1*return(5)\nb=\n"));
        assert_eq!(ask("GET", "/a", ""), is("200", "1*return(5)\n"));
        assert_eq!(ask("GET", "/a/count", ""), is("200", "0"));
        registry.slot("a").evaluate();
        assert_eq!(ask("GET", "/a/count", ""), is("200", "1"));
        assert_eq!(ask("PUT", "/failpoints", "a=off;b=panic"), is("204", ""));
        assert_eq!(ask("GET", "/", ""), is("200", "a=off\nb=panic\n"));
        assert_eq!(ask("DELETE", "/b", ""), is("204", ""));
    }

    #[test]
    fn error_responses_match_gofail() {
        let registry = Registry::new(&["a"]);
        let ask = |method, target, body| ask(&registry, method, target, body);
        let is = |status: &str, body: &str| (status.to_owned(), body.to_owned());
        let disabled = "failed to GET: failpoint: failpoint is disabled\n";
        assert_eq!(ask("GET", "/a", ""), is("404", &format!("{disabled}\n")));
        assert_eq!(ask("GET", "/a/count", ""), is("500", disabled));
        let missing = "failed to GET: failpoint: failpoint does not exist\n";
        assert_eq!(ask("GET", "/x/count", ""), is("404", missing));
        let put = |text: &str| is("400", &format!("{text}\n"));
        assert_eq!(
            ask("PUT", "/x", "off"),
            put("fail to set failpoint: failpoint: failpoint does not exist")
        );
        assert_eq!(
            ask("PUT", "/a", "x"),
            put("fail to set failpoint: failpoint: could not parse terms")
        );
        assert_eq!(
            ask("PUT", "/failpoints", "a"),
            put("fail to parse failpoint: bad failpoint \"a\"")
        );
        assert_eq!(
            ask("DELETE", "/a", ""),
            put("failed to delete failpoint failpoint: failpoint is disabled")
        );
        assert_eq!(ask("POST", "/a", ""), is("405", "Method not allowed\n"));
        assert_eq!(ask("GET", "a", ""), is("400", "malformed request URI\n"));
    }

    #[test]
    fn invalid_requests_get_no_response() {
        assert!(read("".as_bytes()).unwrap().is_none());
        assert!(read("nonsense\r\n\r\n".as_bytes()).unwrap().is_none());
    }
}
