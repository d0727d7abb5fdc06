//! The header fields of a request, checked in Go's order.

use super::head::BodyLength;
use super::refusal::Refusal;
use crate::config::HTTP1_HEADERS_MAX;

/// The name and the value of each field, in order.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// All names and values, one after the other.
    text: Vec<u8>,
    spans: Vec<FieldSpan>,
    /// Whether a name has a space.
    names_have_spaces: bool,
}

/// The position of a field in the text: its value follows its name.
#[derive(Debug)]
struct FieldSpan {
    start: usize,
    value: usize,
    end: usize,
}

impl Fields {
    /// Adds a field line, unfolded and without its line end.
    pub(super) fn add(&mut self, line: &[u8]) -> Result<(), Refusal> {
        let (name, value) = split_field(line).ok_or(Refusal::Malformed)?;
        self.names_have_spaces |= name.contains(&b' ');
        if self.spans.len() == HTTP1_HEADERS_MAX {
            return Err(Refusal::TooLarge);
        }
        let start = self.text.len();
        self.text.extend_from_slice(name);
        let value_start = self.text.len();
        self.text.extend_from_slice(trim(value));
        self.spans.push(FieldSpan { start, value: value_start, end: self.text.len() });
        Ok(())
    }

    /// Returns the name and the value of each field.
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let text = &self.text;
        self.spans.iter().map(|span| (&text[span.start..span.value], &text[span.value..span.end]))
    }

    /// Returns all values of a field.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let matching = move |(given, _): &(&[u8], _)| given.eq_ignore_ascii_case(name.as_bytes());
        self.iter().filter(matching).map(|(_, value)| value)
    }

    /// Returns the only host; none without one.
    pub(super) fn host(&self) -> Result<Option<&[u8]>, Refusal> {
        let mut hosts = self.values("host");
        match (hosts.next(), hosts.next()) {
            (host, None) => Ok(host),
            (_, Some(_)) => Err(Refusal::Malformed),
        }
    }

    /// Returns the length of the body.
    ///
    /// Compat: as in Go, transfer codings of HTTP/1.0 requests are ignored, only `chunked` is
    /// known, and it takes precedence over a length, which must be valid nevertheless.
    pub(super) fn body_length(&self, at_least_1_1: bool) -> Result<BodyLength, Refusal> {
        let mut codings = self.values("transfer-encoding").filter(|_| at_least_1_1);
        let is_chunked = match (codings.next(), codings.next()) {
            (None, _) => false,
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => true,
            _ => return Err(Refusal::TransferEncoding),
        };
        let length = self.content_length()?;
        if is_chunked && !self.trailers_are_allowed() {
            return Err(Refusal::Malformed);
        }
        Ok(if is_chunked { BodyLength::Chunked } else { BodyLength::Exact(length) })
    }

    fn content_length(&self) -> Result<u64, Refusal> {
        let mut lengths = self.values("content-length");
        let Some(first) = lengths.next() else { return Ok(0) };
        let digits = std::str::from_utf8(first)
            .ok()
            .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
        let length = digits.and_then(|digits| digits.parse::<i64>().ok());
        let length = length.and_then(|length| u64::try_from(length).ok());
        match length {
            Some(length) if lengths.all(|other| other == first) => Ok(length),
            _ => Err(Refusal::Malformed),
        }
    }

    /// Returns whether the announced trailers leave the length of the body alone.
    fn trailers_are_allowed(&self) -> bool {
        let forbidden: [&[u8]; 3] = [b"transfer-encoding", b"trailer", b"content-length"];
        let mut names = self.values("trailer").flat_map(|value| value.split(|&byte| byte == b','));
        !names.any(|name| forbidden.iter().any(|other| trim(name).eq_ignore_ascii_case(other)))
    }

    pub(super) fn check_names(&self) -> Result<(), Refusal> {
        match self.names_have_spaces {
            true => Err(Refusal::Invalid("invalid header name")),
            false => Ok(()),
        }
    }

    /// Removes all fields, and keeps their memory for the next request.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
        self.names_have_spaces = false;
    }

    /// Writes all fields except those that [`Head`](super::head::Head) writes itself.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let replaced = ["host", "transfer-encoding", "content-length", "expect", "trailer"];
        for (name, value) in self.iter() {
            if !replaced.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes())) {
                write_field(out, name, value);
            }
        }
    }
}

/// Returns the name and the value of a field line, if both are valid.
pub(super) fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = trim(line);
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    // Compat: as in Go, a name with a space is refused only after other checks.
    let is_name = |&byte: &u8| is_token(byte) || byte == b' ';
    let is_valid = !name.is_empty() && name.iter().all(is_name) && is_field_value(value);
    is_valid.then_some((name, value))
}

/// Returns whether all bytes may occur in the value of a field.
pub(super) fn is_field_value(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

pub(super) fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Removes spaces and tabs at both ends.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(is_text).unwrap_or(text.len());
    trim_end(&text[start..])
}

/// Removes spaces and tabs at the end.
pub(super) fn trim_end(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(is_text).map_or(0, |last| last + 1)]
}

fn is_text(&byte: &u8) -> bool {
    byte != b' ' && byte != b'\t'
}

/// Returns whether a byte may occur in a method or in the name of a field.
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN_BYTES[usize::from(byte)]
}

/// Whether each byte may occur in a token: a table, since every byte of every name is looked up.
const TOKEN_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128u8 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let punctuation = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < punctuation.len() {
        table[punctuation[at] as usize] = true;
        at += 1;
    }
    table
};

/// Returns whether a list of tokens has this one.
pub(super) fn has_token(list: &[u8], token: &str) -> bool {
    let is_boundary = |&byte: &u8| byte == b' ' || byte == b',' || byte == b'\t';
    list.split(is_boundary).any(|part| part.eq_ignore_ascii_case(token.as_bytes()))
}

/// Returns whether a `Host` header is valid.
pub(super) fn is_host(host: &[u8]) -> bool {
    host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;='[]_~".contains(byte))
}
