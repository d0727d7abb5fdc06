//! The head of a request: parsed line by line as by Go, and written again for hyper.

use bytes::{Buf as _, BytesMut};
use gocompat::RequestTarget;

use super::fields::{Fields, has_token, is_host, is_token, write_field};
use super::refusal::Refusal;
use crate::config::HEADER_BYTES_MAX;

/// The longest first line of a connection, with its end, that etcd's multiplexer takes for HTTP/1.
const FIRST_LINE_BYTES_MAX: usize = 4096;
/// The line ends that are skipped before a request that follows a POST.
const LEADING_BREAKS_MAX: usize = 4;

/// The room that most heads need.
const HEAD_BYTES: usize = 512;

/// A parsed head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The head as hyper gets it.
    pub(super) bytes: Vec<u8>,
    pub(super) body: BodyLength,
    /// Whether the client expects something unknown of the server.
    pub(super) expectation_failed: bool,
    /// Whether line ends before the next request are skipped.
    is_post: bool,
}

/// The length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    Exact(u64),
    Chunked,
}

/// Parses one head after the other.
#[derive(Debug)]
pub(super) struct HeadParser {
    /// Whether the next line must be one of HTTP/1, or the connection is closed without a response.
    must_be_http1: bool,
    /// Line ends that may still be skipped before the request line.
    breaks_left: usize,
    /// The bytes of the head so far.
    bytes: usize,
    /// Bytes of the input that have no line end.
    searched: usize,
    line: Option<RequestLine>,
    /// The last field line, which the next line may continue.
    field: Vec<u8>,
    fields: Fields,
}

#[derive(Debug)]
struct RequestLine {
    method: Vec<u8>,
    target: RequestTarget,
    /// Major and minor version.
    version: (u8, u8),
}

impl HeadParser {
    /// Creates the parser of a connection.
    pub(super) fn new(must_be_http1: bool) -> Self {
        Self {
            must_be_http1,
            breaks_left: 0,
            bytes: 0,
            searched: 0,
            line: None,
            field: Vec::new(),
            fields: Fields::default(),
        }
    }

    /// Returns the refusal of a head that the end of the input cuts off; none if nothing of it has
    /// arrived.
    ///
    /// Compat: as in Go, an unfinished first line is parsed as a whole one.
    pub(super) fn refuse_cut(&self, input: &[u8]) -> Option<Refusal> {
        match (&self.line, input) {
            (None, []) => None,
            (None, line) => {
                let refusal = RequestLine::parse(line, self.must_be_http1).err();
                Some(refusal.unwrap_or(Refusal::Malformed))
            }
            (Some(_), _) => Some(Refusal::Malformed),
        }
    }

    /// Consumes whole lines. Returns the head when it is complete; none if more bytes are needed.
    pub(super) fn parse(&mut self, input: &mut BytesMut) -> Result<Option<Head>, Refusal> {
        self.skip_breaks(input);
        while let Some(at) = input[self.searched..].iter().position(|&byte| byte == b'\n') {
            let end = self.searched + at + 1;
            self.check_size(end)?;
            self.searched = 0;
            self.bytes += end;
            let line = &input[..end - 1];
            let is_last = self.take_line(line.strip_suffix(b"\r").unwrap_or(line))?;
            input.advance(end);
            if is_last {
                return self.finish().map(Some);
            }
        }
        self.searched = input.len();
        self.check_size(input.len()).map(|()| None)
    }

    /// Compat: as in Go, line ends between a POST and the next request are skipped.
    fn skip_breaks(&mut self, input: &mut BytesMut) {
        while self.breaks_left > 0 && !input.is_empty() {
            if !matches!(input[0], b'\r' | b'\n') {
                self.breaks_left = 0;
                return;
            }
            input.advance(1);
            self.breaks_left -= 1;
        }
    }

    fn check_size(&self, more: usize) -> Result<(), Refusal> {
        if self.must_be_http1 && more > FIRST_LINE_BYTES_MAX {
            return Err(Refusal::NotHttp1);
        }
        match self.bytes + more > HEADER_BYTES_MAX as usize {
            true => Err(Refusal::TooLarge),
            false => Ok(()),
        }
    }

    /// Takes a line without its end. Returns whether it ends the head.
    fn take_line(&mut self, line: &[u8]) -> Result<bool, Refusal> {
        if self.line.is_none() {
            let parsed = RequestLine::parse(line, self.must_be_http1);
            self.line = Some(parsed?);
            self.must_be_http1 = false;
            return Ok(false);
        }
        if let [b' ' | b'\t', rest @ ..] = line {
            return self.fold(rest).map(|()| false);
        }
        self.end_field()?;
        if line.is_empty() {
            return Ok(true);
        }
        // Compat: as in Go, the name must be whole on its first line.
        if !line.contains(&b':') {
            return Err(Refusal::Malformed);
        }
        self.field.extend_from_slice(super::fields::trim(line));
        Ok(false)
    }

    /// Continues the last field line: a line break and the spaces around it are one space.
    fn fold(&mut self, rest: &[u8]) -> Result<(), Refusal> {
        if self.field.is_empty() {
            return Err(Refusal::Malformed);
        }
        self.field.push(b' ');
        self.field.extend_from_slice(super::fields::trim(rest));
        Ok(())
    }

    fn end_field(&mut self) -> Result<(), Refusal> {
        if self.field.is_empty() {
            return Ok(());
        }
        self.fields.add(&self.field)?;
        self.field.clear();
        Ok(())
    }

    /// Checks the head in Go's order and writes it for hyper.
    fn finish(&mut self) -> Result<Head, Refusal> {
        let line = self.line.take().ok_or(Refusal::Malformed)?;
        self.bytes = 0;
        let head = self.write(line)?;
        self.fields.clear();
        self.breaks_left = if head.is_post { LEADING_BREAKS_MAX } else { 0 };
        Ok(head)
    }

    fn write(&self, line: RequestLine) -> Result<Head, Refusal> {
        let fields = &self.fields;
        let host = fields.host()?;
        let body = fields.body_length(line.is_at_least_1_1())?;
        if line.version.0 != 1 {
            return Err(Refusal::Version);
        }
        if line.is_at_least_1_1() && host.is_none() && line.method != b"CONNECT" {
            return Err(Refusal::Invalid("missing required Host header"));
        }
        if host.is_some_and(|host| !is_host(host)) {
            return Err(Refusal::Invalid("malformed Host header"));
        }
        fields.check_names()?;
        Ok(line.write(fields, host, body))
    }
}

impl RequestLine {
    fn parse(line: &[u8], must_be_http1: bool) -> Result<Self, Refusal> {
        let malformed = if must_be_http1 { Refusal::NotHttp1 } else { Refusal::Malformed };
        let mut parts = line.splitn(3, |&byte| byte == b' ');
        let (Some(method), Some(target), Some(version)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed);
        };
        let version = match version {
            [b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9'] => {
                (major - b'0', minor - b'0')
            }
            _ => return Err(malformed),
        };
        if must_be_http1 && version.0 != 1 {
            return Err(malformed);
        }
        if method.is_empty() || !method.iter().all(|&byte| is_token(byte)) {
            return Err(Refusal::Malformed);
        }
        let target = Self::parse_target(method, target).ok_or(Refusal::Malformed)?;
        Ok(Self { method: method.to_vec(), target, version })
    }

    /// Parses the target; for CONNECT, it may be a host.
    fn parse_target(method: &[u8], target: &[u8]) -> Option<RequestTarget> {
        if method != b"CONNECT" || target.starts_with(b"/") {
            return RequestTarget::parse(target);
        }
        RequestTarget::parse(&[b"http://", target].concat())
    }

    fn is_at_least_1_1(&self) -> bool {
        self.version >= (1, 1)
    }

    /// Writes the head as hyper gets it.
    fn write(self, fields: &Fields, host: Option<&[u8]>, body: BodyLength) -> Head {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(&self.method);
        bytes.push(b' ');
        self.write_target(&mut bytes);
        let version: &[u8] =
            if self.is_at_least_1_1() { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" };
        bytes.extend_from_slice(version);
        // Compat: as in Go, the host of an absolute URL takes precedence.
        let of_target = Some(self.target.host.as_bytes()).filter(|host| !host.is_empty());
        if let Some(host) = of_target.or(host) {
            write_field(&mut bytes, b"host", host);
        }
        fields.write(&mut bytes);
        match body {
            BodyLength::Chunked => write_field(&mut bytes, b"transfer-encoding", b"chunked"),
            BodyLength::Exact(0) => {}
            BodyLength::Exact(length) => {
                write_field(&mut bytes, b"content-length", length.to_string().as_bytes());
            }
        }
        let expectation = fields.values("expect").next().unwrap_or_default();
        let continues = has_token(expectation, "100-continue");
        if continues && self.is_at_least_1_1() && body != BodyLength::Exact(0) {
            write_field(&mut bytes, b"expect", b"100-continue");
        }
        bytes.extend_from_slice(b"\r\n");
        let expectation_failed = !continues && !expectation.is_empty();
        Head { bytes, body, expectation_failed, is_post: self.method == b"POST" }
    }

    /// Writes path and query. An empty path becomes one that is redirected to `/`, except for
    /// CONNECT, which is never redirected. Its target `*` is a host, but routed as a path.
    fn write_target(&self, out: &mut Vec<u8>) {
        let path = match self.target.path.escaped.as_str() {
            "" if self.method == b"CONNECT" && self.target.host == "*" => "*",
            "" if self.method == b"CONNECT" => "/",
            "" => "//",
            path => path,
        };
        out.extend_from_slice(path.as_bytes());
        if let Some(query) = &self.target.query {
            out.push(b'?');
            for &byte in query {
                write_query_byte(out, byte);
            }
        }
    }
}

/// Writes a byte of a query, percent-encoded if the `http` crate refuses it. Its value is the same.
fn write_query_byte(out: &mut Vec<u8>, byte: u8) {
    if byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte) {
        out.push(byte);
    } else {
        out.extend_from_slice(format!("%{byte:02X}").as_bytes());
    }
}

#[cfg(test)]
mod tests;
