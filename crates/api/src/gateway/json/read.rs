//! Translates JSON text to protobuf bytes.
//!
//! ```text
//!   {"key": "Zm9v", "rangeEnd": null, "limit": "5", "sort_order": "DESCEND", "nope": [{}]}
//!    0a 03 66 6f 6f                    18 05         28 02
//! ```
//!
//! Fields have their protobuf or lowerCamelCase names; numbers may be strings, and integers may
//! have a point or an exponent; enums are names or numbers; bytes are base64 in either alphabet,
//! padded or not; null values and unknown fields or enum names are skipped. Error texts are those
//! of Go's `protojson`, with line and column.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use proto::shape::{Field, Kind, Message};

use super::number;

/// The greatest depth of nested messages, as in Go.
const DEPTH_MAX: usize = 10_000;

/// The reason why JSON is not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("proto: {0}")]
pub(crate) struct ReadError(String);

/// Translates a value to the bytes of a message. The value must have passed
/// [`split`](super::split).
pub(crate) fn read(text: &[u8], shape: &'static Message) -> Result<Vec<u8>, ReadError> {
    let mut reader = Reader { text, at: 0 };
    let mut out = Output::default();
    // A list replaces recursion, because the client decides the depth.
    let mut open = vec![OpenMessage::new(shape)];
    reader.open(Bracket::Object)?;
    while let Some(innermost) = open.last_mut() {
        match reader.next_value(innermost, &mut out)? {
            Next::Message(_) if open.len() == DEPTH_MAX => return Err(too_deep()),
            Next::Message(shape) => {
                reader.open(Bracket::Object)?;
                out.open();
                open.push(OpenMessage::new(shape));
            }
            Next::Written => {}
            Next::Closed => {
                open.pop();
                out.close();
            }
        }
    }
    Ok(out.into_bytes())
}

/// A message whose fields are being read.
struct OpenMessage {
    shape: &'static Message,
    seen: SeenFields,
    /// The repeated field whose values are being read.
    list: Option<&'static Field>,
}

impl OpenMessage {
    fn new(shape: &'static Message) -> OpenMessage {
        OpenMessage { shape, seen: SeenFields::default(), list: None }
    }
}

/// The next part of a message.
enum Next {
    /// The value of a field, which is a message and is still to be read. Its tag is written.
    Message(&'static Message),
    /// Another value, or a part without a value.
    Written,
    /// The end of the message.
    Closed,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// A token of JSON with its position.
struct Token<'a> {
    kind: TokenKind<'a>,
    at: usize,
    raw: &'a [u8],
}

#[derive(PartialEq, Eq)]
enum TokenKind<'a> {
    Open(Bracket),
    Close,
    Null,
    Bool(bool),
    Number(&'a str),
    String(Cow<'a, str>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Object,
    Array,
}

impl<'a> Reader<'a> {
    /// Reads the next value of a message.
    fn next_value(
        &mut self,
        message: &mut OpenMessage,
        out: &mut Output,
    ) -> Result<Next, ReadError> {
        let OpenMessage { shape, seen, list } = message;
        if let Some(field) = *list {
            if self.peek() != Some(b']') {
                return self.value(field, out);
            }
            self.token()?;
            *list = None;
        }
        let token = self.token()?;
        let TokenKind::String(name) = &token.kind else { return Ok(Next::Closed) };
        let Some(field) = shape.named(name) else {
            self.skip()?;
            return Ok(Next::Written);
        };
        if !seen.insert(field.number) {
            let what = format!("duplicate field {}", lossy(token.raw));
            return Err(self.error_at(token.at, &what));
        }
        if self.peek() == Some(b'n') {
            self.token()?;
            return Ok(Next::Written);
        }
        if field.repeated {
            self.open(Bracket::Array)?;
            *list = Some(field);
            return Ok(Next::Written);
        }
        if let Some(oneof) = field.oneof
            && !seen.choose(oneof)
        {
            let name = lossy(token.raw);
            let what = format!("error parsing {name}, oneof {oneof} is already set");
            return Err(self.error_at(token.at, &what));
        }
        self.value(field, out)
    }

    /// Reads an opening bracket.
    fn open(&mut self, bracket: Bracket) -> Result<(), ReadError> {
        let token = self.token()?;
        if token.kind == TokenKind::Open(bracket) { Ok(()) } else { Err(self.unexpected(&token)) }
    }

    fn value(&mut self, field: &Field, out: &mut Output) -> Result<Next, ReadError> {
        if let Kind::Message(shape) = field.kind {
            encode_key(field.number, WireType::LengthDelimited, &mut out.bytes);
            return Ok(Next::Message(shape));
        }
        let token = self.token()?;
        match scalar(field.kind, &token.kind) {
            Some(Scalar::Unknown) => {}
            Some(value) => value.write(field, &mut out.bytes),
            None => {
                let (kind, name, raw) = (kind_name(field.kind), field.json_name, lossy(token.raw));
                let what = format!("invalid value for {kind} field {name}: {raw}");
                return Err(self.error_at(token.at, &what));
            }
        }
        Ok(Next::Written)
    }

    /// Skips a value.
    fn skip(&mut self) -> Result<(), ReadError> {
        let mut open = 0_usize;
        loop {
            match self.token()?.kind {
                TokenKind::Open(_) => open += 1,
                TokenKind::Close => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// Returns the first byte of the next token.
    fn peek(&mut self) -> Option<u8> {
        let is_separator = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':');
        self.at += self.text[self.at..].iter().take_while(|byte| is_separator(byte)).count();
        self.text.get(self.at).copied()
    }

    /// Reads the next token. Commas and colons were checked before.
    fn token(&mut self) -> Result<Token<'a>, ReadError> {
        let first = self.peek();
        let at = self.at;
        let rest = &self.text[at..];
        let (length, kind) = match first {
            Some(b'{') => (1, TokenKind::Open(Bracket::Object)),
            Some(b'[') => (1, TokenKind::Open(Bracket::Array)),
            Some(b'}' | b']') | None => (rest.len().min(1), TokenKind::Close),
            Some(b'n') => (4, TokenKind::Null),
            Some(b't') => (4, TokenKind::Bool(true)),
            Some(b'f') => (5, TokenKind::Bool(false)),
            Some(b'"') => {
                let (length, text) =
                    string(rest).map_err(|what| self.syntax_error_at(at, &what))?;
                (length, TokenKind::String(text))
            }
            Some(_) => {
                let in_number = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let length = rest.iter().take_while(in_number).count();
                (
                    length,
                    TokenKind::Number(std::str::from_utf8(&rest[..length]).unwrap_or_default()),
                )
            }
        };
        self.at += length;
        Ok(Token { kind, at, raw: &rest[..length] })
    }

    fn unexpected(&self, token: &Token<'_>) -> ReadError {
        self.syntax_error_at(token.at, &format!("unexpected token {}", lossy(token.raw)))
    }

    fn syntax_error_at(&self, at: usize, what: &str) -> ReadError {
        let ReadError(text) = self.error_at(at, what);
        ReadError(format!("syntax error {text}"))
    }

    fn error_at(&self, at: usize, what: &str) -> ReadError {
        let before = &self.text[..at];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = lossy(&before[start..]).chars().count() + 1;
        ReadError(format!("(line {line}:{column}): {what}"))
    }
}

fn too_deep() -> ReadError {
    ReadError("exceeded max recursion depth".to_owned())
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Parses a quoted string. Returns its length and text.
fn string(rest: &[u8]) -> Result<(usize, Cow<'_, str>), String> {
    let mut escaped = false;
    let is_end = |byte: &u8| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    };
    let length = rest[1..].iter().position(is_end).unwrap_or(rest.len() - 1);
    let inside = &rest[1..=length];
    let text = match std::str::from_utf8(inside) {
        Ok(text) if text.contains('\\') => Cow::Owned(unescaped(text)?),
        Ok(text) => Cow::Borrowed(text),
        Err(_) => return Err("invalid UTF-8 in string".to_owned()),
    };
    Ok((length + 2, text))
}

/// Replaces escape sequences.
fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let code = escape.chars().next().unwrap_or('\\');
        rest = &escape[code.len_utf8().min(escape.len())..];
        out.push(match code {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (character, remaining) = unicode(rest)?;
                rest = remaining;
                character
            }
            other => other,
        });
    }
    out.push_str(rest);
    Ok(out)
}

/// Parses the digits of `\u0041`, or a surrogate pair.
fn unicode(rest: &str) -> Result<(char, &str), String> {
    let unit = |text: &str| text.get(..4).and_then(|hex| u16::from_str_radix(hex, 16).ok());
    let Some(first) = unit(rest) else { return Err("unexpected EOF".to_owned()) };
    let rest = &rest[4..];
    if !(0xd800..0xe000).contains(&first) {
        return Ok((char::from_u32(first.into()).unwrap_or_default(), rest));
    }
    let wrong =
        || format!("invalid escape code {:?} in string", rest.chars().take(6).collect::<String>());
    let second = rest.strip_prefix("\\u").and_then(unit).ok_or_else(wrong)?;
    let character = char::decode_utf16([first, second]).next();
    Ok((character.and_then(Result::ok).ok_or_else(wrong)?, &rest[6..]))
}

/// A value that is not a message.
enum Scalar {
    Varint(u64),
    Bytes(Vec<u8>),
    /// An unknown name of an enum.
    Unknown,
}

/// Converts a token to the type of a field; none if it does not fit.
fn scalar(kind: Kind, token: &TokenKind<'_>) -> Option<Scalar> {
    Some(match (kind, token) {
        (Kind::Bool, TokenKind::Bool(value)) => Scalar::Varint((*value).into()),
        (Kind::Int32, token) => signed(number::integer::<i32>(digits(token)?)?.into()),
        (Kind::Int64, token) => signed(number::integer(digits(token)?)?),
        (Kind::Uint32, token) => Scalar::Varint(number::integer::<u32>(digits(token)?)?.into()),
        (Kind::Uint64, token) => Scalar::Varint(number::integer(digits(token)?)?),
        (Kind::String, TokenKind::String(text)) => Scalar::Bytes(text.as_bytes().to_vec()),
        (Kind::Bytes, TokenKind::String(text)) => Scalar::Bytes(decode_base64(text)?),
        (Kind::Enum(values), TokenKind::String(name)) => {
            values.number(name).map_or(Scalar::Unknown, |value| signed(value.into()))
        }
        (Kind::Enum(_), TokenKind::Number(text)) => signed(number::integer::<i32>(text)?.into()),
        _ => return None,
    })
}

/// Encodes a signed number; a negative one takes all 64 bits.
fn signed(value: i64) -> Scalar {
    Scalar::Varint(value.cast_unsigned())
}

/// Returns the digits of a number token, or of a string with a number.
fn digits<'t>(token: &'t TokenKind<'_>) -> Option<&'t str> {
    match token {
        TokenKind::Number(text) => Some(text),
        TokenKind::String(text) if text.trim().len() == text.len() => number::prefix(text),
        _ => None,
    }
}

/// Decodes base64 in either alphabet, with padding if the length is a multiple of four.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    // Go skips line breaks anywhere.
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let alphabet = if text.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    let padding = match text.len() % 4 {
        0 => DecodePaddingMode::RequireCanonical,
        _ => DecodePaddingMode::RequireNone,
    };
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(padding)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&alphabet, config).decode(text).ok()
}

impl Scalar {
    /// Writes the value, unless it is a default without presence.
    fn write(self, field: &Field, out: &mut Vec<u8>) {
        let has_presence = field.repeated || field.oneof.is_some();
        match self {
            Scalar::Varint(0) if !has_presence => {}
            Scalar::Varint(value) => {
                encode_key(field.number, WireType::Varint, out);
                encode_varint(value, out);
            }
            Scalar::Bytes(bytes) if bytes.is_empty() && !has_presence => {}
            Scalar::Bytes(bytes) => {
                encode_key(field.number, WireType::LengthDelimited, out);
                encode_varint(bytes.len() as u64, out);
                out.extend_from_slice(&bytes);
            }
            Scalar::Unknown => {}
        }
    }
}

/// The written message. The length of a nested message is known at its end, and belongs before it.
/// All lengths are inserted at the end, so that nothing is moved once per level.
#[derive(Default)]
struct Output {
    /// The message without the lengths of nested ones.
    bytes: Vec<u8>,
    /// The nested messages, by start.
    nested: Vec<NestedMessage>,
    /// Messages that are not closed, as indexes into `nested`.
    open: Vec<usize>,
}

struct NestedMessage {
    start: usize,
    /// The bytes of the lengths within, until it is closed; then its own length.
    length: usize,
}

impl Output {
    fn open(&mut self) {
        self.open.push(self.nested.len());
        self.nested.push(NestedMessage { start: self.bytes.len(), length: 0 });
    }

    fn close(&mut self) {
        let Some(closed) = self.open.pop() else { return };
        let NestedMessage { start, length } = &mut self.nested[closed];
        let lengths_within = *length;
        *length += self.bytes.len() - *start;
        let own = encoded_len_varint(*length as u64);
        if let Some(parent) = self.open.last() {
            self.nested[*parent].length += lengths_within + own;
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        let Output { bytes, nested, .. } = self;
        if nested.is_empty() {
            return bytes;
        }
        let mut whole = Vec::with_capacity(bytes.len() + 2 * nested.len());
        let mut copied = 0;
        for NestedMessage { start, length } in nested {
            whole.extend_from_slice(&bytes[copied..start]);
            encode_varint(length as u64, &mut whole);
            copied = start;
        }
        whole.extend_from_slice(&bytes[copied..]);
        whole
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Uint32 => "uint32",
        Kind::Uint64 => "uint64",
        Kind::String => "string",
        Kind::Bytes => "bytes",
        Kind::Enum(_) => "enum",
        Kind::Message(_) => "message",
    }
}

/// The fields of a message that were read.
#[derive(Default)]
struct SeenFields {
    numbers: Vec<u32>,
    oneofs: Vec<&'static str>,
}

impl SeenFields {
    fn insert(&mut self, number: u32) -> bool {
        let is_new = !self.numbers.contains(&number);
        self.numbers.push(number);
        is_new
    }

    fn choose(&mut self, oneof: &'static str) -> bool {
        let is_new = !self.oneofs.contains(&oneof);
        self.oneofs.push(oneof);
        is_new
    }
}

#[cfg(test)]
mod tests;
