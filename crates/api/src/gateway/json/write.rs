//! Translates protobuf bytes to JSON text, chunk by chunk.
//!
//! ```text
//!   0a 02 18 05   12 05 0a 03 66 6f 6f   20 01
//!   {"header":{"revision":"5"},"kvs":[{"key":"Zm9v"}],"count":"1"}
//! ```
//!
//! Fields are written in the order of the encoded message, which is that of their numbers, as in
//! etcd's gateway. Unknown fields and default values are left out. Beside the encoded message, only
//! the next chunk of JSON is in memory.
//!
//! Invariants: responses of our own methods are written completely; arbitrary bytes give valid JSON
//! and no panic.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::encoding::{WireType, decode_varint};
use proto::shape::{Enum, Field, Kind, Message};

/// The treatment of characters that are special in HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Written as they are.
    Json,
    /// Written as `\u003c`.
    ///
    /// Compat: etcd wraps the messages of streams with another library than it writes them with.
    Html,
}

/// Writes a message as JSON.
#[derive(Debug)]
pub(crate) struct Writer {
    open: Vec<Level>,
    escape: Escape,
}

/// A message of the current path, from the outermost to the innermost.
#[derive(Debug)]
struct Level {
    shape: &'static Message,
    rest: Bytes,
    /// Whether a field was written.
    has_fields: bool,
    /// The number of the repeated field that is being written.
    list: Option<u32>,
}

impl Level {
    fn new(shape: &'static Message, rest: Bytes) -> Level {
        Level { shape, rest, has_fields: false, list: None }
    }
}

/// An encoded value.
enum Value {
    Varint(u64),
    Bytes(Bytes),
}

impl Writer {
    /// Starts to write a message.
    pub(crate) fn new(
        shape: &'static Message,
        message: Bytes,
        escape: Escape,
        out: &mut BytesMut,
    ) -> Writer {
        out.put_u8(b'{');
        Writer { open: vec![Level::new(shape, message)], escape }
    }

    /// Writes until `out` has `bytes` bytes or the message ends. Returns whether it has ended.
    pub(crate) fn write(&mut self, out: &mut BytesMut, bytes: usize) -> bool {
        while let Some(level) = self.open.last_mut() {
            if out.len() >= bytes {
                return false;
            }
            match take(&mut level.rest) {
                Some((number, value)) => self.field(number, value, out),
                None => self.close(out),
            }
        }
        true
    }

    fn close(&mut self, out: &mut BytesMut) {
        let level = self.open.pop();
        if level.is_some_and(|level| level.list.is_some()) {
            out.put_u8(b']');
        }
        out.put_u8(b'}');
    }

    fn field(&mut self, number: u32, value: Value, out: &mut BytesMut) {
        let Some(level) = self.open.last_mut() else { return };
        let Some(field) = level.shape.field(number) else { return };
        let values = match value {
            Value::Bytes(bytes) if field.repeated && is_varint(field.kind) => unpacked(bytes),
            value => vec![value],
        };
        for value in values {
            if field.repeated || field.oneof.is_some() || !is_zero(field.kind, &value) {
                level.start_field(field, out);
                if let Some(inner) = put(field.kind, value, self.escape, out) {
                    self.open.push(inner);
                    return;
                }
            }
        }
    }
}

impl Level {
    /// Writes everything before the value of a field.
    fn start_field(&mut self, field: &Field, out: &mut BytesMut) {
        if self.list.is_some() && self.list != Some(field.number) {
            out.put_u8(b']');
            self.list = None;
        }
        if std::mem::replace(&mut self.has_fields, true) {
            out.put_u8(b',');
        }
        if self.list.is_some() {
            return;
        }
        out.put_u8(b'"');
        out.put_slice(field.name.as_bytes());
        out.put_slice(b"\":");
        if field.repeated {
            out.put_u8(b'[');
            self.list = Some(field.number);
        }
    }
}

/// Writes a value. For a message, writes the opening bracket and returns its level.
fn put(kind: Kind, value: Value, escape: Escape, out: &mut BytesMut) -> Option<Level> {
    match (kind, value) {
        (Kind::Message(shape), Value::Bytes(bytes)) => {
            out.put_u8(b'{');
            return Some(Level::new(shape, bytes));
        }
        (Kind::String, Value::Bytes(text)) => {
            put_string(&String::from_utf8_lossy(&text), escape, out);
        }
        (_, Value::Bytes(bytes)) => put_base64(&bytes, out),
        (Kind::Bool, Value::Varint(value)) => {
            out.put_slice(if value == 0 { b"false" } else { b"true" });
        }
        (Kind::Int64, Value::Varint(value)) => {
            put_text(out, format_args!("\"{}\"", value.cast_signed()));
        }
        (Kind::Uint64, Value::Varint(value)) => put_text(out, format_args!("\"{value}\"")),
        (Kind::Int32, Value::Varint(value)) => {
            put_text(out, format_args!("{}", low(value).cast_signed()));
        }
        (Kind::Enum(values), Value::Varint(value)) => {
            put_enum(values, low(value).cast_signed(), out);
        }
        (_, Value::Varint(value)) => put_text(out, format_args!("{}", low(value))),
    }
    None
}

/// Returns the lower 32 bits.
fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).expect("the upper half is masked")
}

fn put_enum(values: &Enum, number: i32, out: &mut BytesMut) {
    match values.name(number) {
        Some(name) => put_text(out, format_args!("\"{name}\"")),
        None => put_text(out, format_args!("{number}")),
    }
}

fn put_text(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    use std::fmt::Write as _;
    out.write_fmt(text).expect("BytesMut grows as needed");
}

fn put_base64(bytes: &[u8], out: &mut BytesMut) {
    out.put_u8(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    out.truncate(start + written.expect("the buffer has the encoded length"));
    out.put_u8(b'"');
}

/// Writes a quoted string.
pub(crate) fn put_string(text: &str, escape: Escape, out: &mut BytesMut) {
    out.put_u8(b'"');
    for character in text.chars() {
        match character {
            '"' => out.put_slice(b"\\\""),
            '\\' => out.put_slice(b"\\\\"),
            '\u{8}' => out.put_slice(b"\\b"),
            '\u{c}' => out.put_slice(b"\\f"),
            '\n' => out.put_slice(b"\\n"),
            '\r' => out.put_slice(b"\\r"),
            '\t' => out.put_slice(b"\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape == Escape::Html => {
                put_text(out, format_args!("\\u{:04x}", u32::from(character)));
            }
            ..' ' => put_text(out, format_args!("\\u{:04x}", u32::from(character))),
            character => out.put_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.put_u8(b'"');
}

fn is_varint(kind: Kind) -> bool {
    !matches!(kind, Kind::Message(_) | Kind::String | Kind::Bytes)
}

fn is_zero(kind: Kind, value: &Value) -> bool {
    match value {
        Value::Varint(value) => *value == 0,
        Value::Bytes(bytes) => bytes.is_empty() && !matches!(kind, Kind::Message(_)),
    }
}

/// Decodes a packed list of numbers.
fn unpacked(mut bytes: Bytes) -> Vec<Value> {
    let next = || decode_varint(&mut bytes).ok().map(Value::Varint);
    std::iter::from_fn(next).collect()
}

/// Takes the next field; none at the end or at malformed bytes.
fn take(rest: &mut Bytes) -> Option<(u32, Value)> {
    while rest.has_remaining() {
        let (number, kind) = prost::encoding::decode_key(rest).ok()?;
        match kind {
            WireType::Varint => return Some((number, Value::Varint(decode_varint(rest).ok()?))),
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
                let value = (length <= rest.len()).then(|| rest.split_to(length))?;
                return Some((number, Value::Bytes(value)));
            }
            // No field of etcd has these types.
            WireType::ThirtyTwoBit => skip(rest, 4)?,
            WireType::SixtyFourBit => skip(rest, 8)?,
            WireType::StartGroup | WireType::EndGroup => return None,
        }
    }
    None
}

fn skip(rest: &mut Bytes, bytes: usize) -> Option<()> {
    (bytes <= rest.len()).then(|| rest.advance(bytes))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use proto::etcdserverpb::{
        AlarmMember, AlarmResponse, AuthUserListResponse, HashKvResponse, Member,
        MemberListResponse, PutResponse, RangeResponse, ResponseHeader, ResponseOp, TxnResponse,
        response_op::Response,
    };
    use proto::mvccpb::KeyValue;
    use proto::shape::Route;

    use super::*;

    fn json_in(path: &str, message: &impl prost::Message, bytes: usize, escape: Escape) -> String {
        let shape = Route::find(path).unwrap().response;
        let (mut all, mut out) = (Vec::new(), BytesMut::new());
        let mut writer = Writer::new(shape, message.encode_to_vec().into(), escape, &mut out);
        loop {
            let done = writer.write(&mut out, bytes);
            all.extend_from_slice(&out.split());
            if done {
                return String::from_utf8(all).unwrap();
            }
        }
    }

    fn json(path: &str, message: &impl prost::Message) -> String {
        json_in(path, message, usize::MAX, Escape::Json)
    }

    fn range() -> RangeResponse {
        let header = ResponseHeader { cluster_id: u64::MAX, revision: -5, ..Default::default() };
        let kv = |key: &'static str| KeyValue { key: key.into(), version: 1, ..Default::default() };
        RangeResponse { header: Some(header), kvs: vec![kv("foo"), kv("")], more: true, count: 2 }
    }

    #[test]
    fn fields_are_written_as_in_etcd() {
        let header = r#"{"cluster_id":"18446744073709551615","revision":"-5"}"#;
        let kvs = r#"[{"key":"Zm9v","version":"1"},{"version":"1"}]"#;
        let all = format!(r#"{{"header":{header},"kvs":{kvs},"more":true,"count":"2"}}"#);
        assert_eq!(json("/v3/kv/range", &range()), all);
        assert_eq!(json("/v3/kv/range", &RangeResponse::default()), "{}");
        let hash = HashKvResponse { hash: u32::MAX, ..Default::default() };
        assert_eq!(json("/v3/maintenance/hashkv", &hash), r#"{"hash":4294967295}"#);
    }

    #[test]
    fn chunks_of_any_size_make_the_same_text() {
        let whole = json("/v3/kv/range", &range());
        for bytes in 1..whole.len() {
            assert_eq!(json_in("/v3/kv/range", &range(), bytes, Escape::Json), whole);
        }
    }

    #[test]
    fn enums_are_written_by_name_if_known() {
        let alarm = |alarm| AlarmMember { member_id: 1, alarm };
        let alarms =
            AlarmResponse { alarms: vec![alarm(1), alarm(77), alarm(0)], ..Default::default() };
        assert_eq!(
            json("/v3/maintenance/alarm", &alarms),
            r#"{"alarms":[{"memberID":"1","alarm":"NOSPACE"},{"memberID":"1","alarm":77},{"memberID":"1"}]}"#
        );
    }

    #[test]
    fn an_empty_oneof_field_is_written() {
        let op = |response| ResponseOp { response: Some(response) };
        let put = op(Response::ResponsePut(PutResponse::default()));
        let txn = TxnResponse { responses: vec![put.clone(), put], ..Default::default() };
        assert_eq!(
            json("/v3/kv/txn", &txn),
            r#"{"responses":[{"response_put":{}},{"response_put":{}}]}"#
        );
    }

    #[test]
    fn consecutive_lists_are_separate() {
        let member = Member {
            peer_urls: vec!["a".into(), String::new()],
            client_urls: vec!["c".into()],
            ..Default::default()
        };
        let members = MemberListResponse { members: vec![member], ..Default::default() };
        assert_eq!(
            json("/v3/cluster/member/list", &members),
            r#"{"members":[{"peerURLs":["a",""],"clientURLs":["c"]}]}"#
        );
    }

    #[test]
    fn special_characters_are_escaped() {
        let users = AuthUserListResponse {
            users: vec!["\"\\\u{8}\u{c}\n\r\t\u{1}<é😀".into()],
            ..Default::default()
        };
        let path = "/v3/auth/user/list";
        assert_eq!(json(path, &users), r#"{"users":["\"\\\b\f\n\r\t\u0001<é😀"]}"#);
        let html = json_in(path, &users, usize::MAX, Escape::Html);
        assert_eq!(html, r#"{"users":["\"\\\b\f\n\r\t\u0001\u003cé😀"]}"#);
    }

    #[test]
    fn arbitrary_bytes_give_valid_json() {
        let whole = range().encode_to_vec();
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                let shape = Route::find("/v3/kv/range").unwrap().response;
                let mut out = BytesMut::new();
                let mut writer = Writer::new(shape, bytes.into(), Escape::Json, &mut out);
                assert!(writer.write(&mut out, usize::MAX));
                let read: Result<serde_json::Value, _> = serde_json::from_slice(&out);
                assert!(read.is_ok(), "{out:?}");
            }
        }
    }
}
