//! What is told of a call: spans, in which there are spans.

use std::borrow::Cow;
use std::time::SystemTime;

use opentelemetry::KeyValue;

/// The longest text of an attribute. Keys may be megabytes; whoever looks at traces knows one by its beginning.
pub const TEXT_BYTES_MAX: usize = 1024;

/// A part of the work on a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What was done.
    pub name: Cow<'static, str>,
    /// From when.
    pub began: SystemTime,
    /// Until when.
    pub ended: SystemTime,
    /// About what.
    pub attributes: Vec<(&'static str, Value)>,
    /// What happened meanwhile, and when.
    pub events: Vec<(&'static str, SystemTime)>,
    /// The parts that it has.
    pub children: Vec<Span>,
}

impl Span {
    /// A part of which nothing else is known.
    pub fn new(name: &'static str, began: SystemTime, ended: SystemTime) -> Span {
        let name = Cow::Borrowed(name);
        Span {
            name,
            began,
            ended,
            attributes: Vec::new(),
            events: Vec::new(),
            children: Vec::new(),
        }
    }
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Some text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
    /// Whether or not.
    Flag(bool),
}

impl Value {
    /// Bytes that may or may not be text, as far as they may go.
    pub fn bytes(bytes: &[u8]) -> Value {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]);
        Value::Text(Cow::Owned(text.into_owned()))
    }

    /// How many.
    pub fn count(count: usize) -> Value {
        Value::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Value {
        Value::Text(Cow::Borrowed(text))
    }
}

pub(crate) fn key_value((key, value): (&'static str, Value)) -> KeyValue {
    match value {
        Value::Text(Cow::Borrowed(text)) => KeyValue::new(key, text),
        Value::Text(Cow::Owned(text)) => KeyValue::new(key, text),
        Value::Number(number) => KeyValue::new(key, number),
        Value::Flag(flag) => KeyValue::new(key, flag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text_of_a_bounded_length() {
        assert_eq!(Value::bytes(b"foo"), Value::Text("foo".into()));
        assert_eq!(Value::bytes(b"\xff"), Value::Text("\u{fffd}".into()));
        let Value::Text(text) = Value::bytes(&[b'k'; 5 * TEXT_BYTES_MAX]) else { panic!("text") };
        assert_eq!(text.len(), TEXT_BYTES_MAX);
    }
}
