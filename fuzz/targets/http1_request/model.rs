//! A second implementation of the boundaries of requests, for requests that the reader accepts.

/// A request as it stands in the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a [u8],
    /// The names, in lower case, and the values of all fields.
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// The start of the next request; none if the body is incomplete or malformed.
    pub(crate) end: Option<usize>,
}

impl<'a> Request<'a> {
    /// Reads the request at the start of the input. None if its head is incomplete.
    pub(crate) fn read(input: &'a [u8]) -> Option<Request<'a>> {
        let mut at = 0;
        let line = next_line(input, &mut at)?;
        let mut lines: Vec<Vec<u8>> = Vec::new();
        loop {
            match (next_line(input, &mut at)?, lines.last_mut()) {
                ([], _) => break,
                ([b' ' | b'\t', rest @ ..], Some(last)) => {
                    last.push(b' ');
                    last.extend_from_slice(trim(rest));
                }
                (line, _) => lines.push(trim(line).to_vec()),
            }
        }
        let fields = lines.iter().map(|line| split_field(line)).collect::<Option<Vec<_>>>()?;
        let method = line.split(|byte| *byte == b' ').next()?;
        let mut request = Request { method, fields, body: Vec::new(), end: None };
        let is_chunked =
            !line.ends_with(b"HTTP/1.0") && request.value("transfer-encoding").is_some();
        request.end = match is_chunked {
            true => read_chunks(&input[at..], &mut request.body),
            false => request.read_exact(&input[at..]),
        };
        request.end = request.end.map(|end| at + end);
        Some(request)
    }

    /// Returns the first value of a field.
    pub(crate) fn value(&self, wanted: &str) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        fields.find(|(name, _)| name == wanted.as_bytes()).map(|(_, value)| &value[..])
    }

    fn read_exact(&mut self, input: &[u8]) -> Option<usize> {
        let length = self
            .value("content-length")
            .map_or(Some(0), |digits| std::str::from_utf8(digits).ok()?.parse::<usize>().ok())?;
        self.body = input[..length.min(input.len())].to_vec();
        (length <= input.len()).then_some(length)
    }
}

/// Decodes chunks up to the first malformed one. Returns the length of a whole body.
fn read_chunks(input: &[u8], body: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = input[at..].split(|byte| *byte == b'\n').next()?;
        at += line.len() + 1;
        let digits = line.strip_suffix(b"\r")?.split(|byte| *byte == b';').next()?;
        let digits = std::str::from_utf8(trim(digits)).ok()?;
        let size = usize::from_str_radix(digits, 16).ok()?;
        let rest = input.get(at..)?;
        if size == 0 {
            return read_trailer(rest).map(|length| at + length);
        }
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        let end = rest.get(size..)?;
        at += size + 2;
        if !end.starts_with(b"\r\n") {
            return None;
        }
    }
}

/// Returns the length of a trailer with its end. As in Go, it is read once a blank line with CRLF
/// line ends has arrived, and ends at the first blank line of any kind.
fn read_trailer(input: &[u8]) -> Option<usize> {
    if input.starts_with(b"\r\n") {
        return Some(2);
    }
    input.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let mut at = 0;
    while !next_line(input, &mut at)?.is_empty() {}
    Some(at)
}

fn next_line<'a>(input: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let length = input[*at..].iter().position(|byte| *byte == b'\n')?;
    let line = &input[*at..][..length];
    *at += length + 1;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

fn split_field(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((line[..colon].to_ascii_lowercase(), trim(&line[colon + 1..]).to_vec()))
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
