//! The spans of a call, as a tree.

use std::borrow::Cow;
use std::time::SystemTime;

use opentelemetry::KeyValue;

/// The longest text of an attribute. Keys may be megabytes; their beginning identifies them.
pub const TEXT_BYTES_MAX: usize = 1024;

/// A timed part of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The name of the operation.
    pub name: Cow<'static, str>,
    /// The start time.
    pub began: SystemTime,
    /// The end time.
    pub ended: SystemTime,
    /// The attributes.
    pub attributes: Vec<(&'static str, Value)>,
    /// Events during the span, with their times.
    pub events: Vec<(&'static str, SystemTime)>,
    /// The parts of this span.
    pub children: Vec<Span>,
}

impl Span {
    /// Creates a span without attributes, events and children.
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

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
    /// A boolean.
    Flag(bool),
}

impl Value {
    /// Converts bytes to text, truncated to [`TEXT_BYTES_MAX`].
    pub fn bytes(bytes: &[u8]) -> Value {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]);
        Value::Text(Cow::Owned(text.into_owned()))
    }

    /// Converts a count.
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
