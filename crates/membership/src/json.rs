//! JSON as Go's `encoding/json` writes it, so that the bytes in the database are etcd's.
//!
//! ```text
//!   value           Go and Bowline           serde_json
//!   a<b>&c          "a\u003cb\u003e\u0026c"  "a<b>&c"
//!   U+2028, U+2029  "\u2028\u2029"           unescaped
//! ```
//!
//! All other values are written alike. For decoding, [`or_default`] reads null as empty.

use std::io;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::ser::Formatter;

/// Encodes a value.
pub(crate) fn encode(value: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, GoFormatter);
    value
        .serialize(&mut serializer)
        .expect("writing to memory does not fail, and all keys are strings");
    String::from_utf8(text).expect("serde_json writes UTF-8")
}

/// Decodes a field as Go does: null leaves it empty.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Returns whether Go's `omitempty` leaves a bool out.
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// Encodes an empty list as null: etcd's lists are nil when empty, which Go writes as null.
pub(crate) fn null_if_empty<S: serde::Serializer>(
    list: &[String],
    to: S,
) -> Result<S::Ok, S::Error> {
    if list.is_empty() { to.serialize_none() } else { list.serialize(to) }
}

/// Escapes as Go does.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut plain = 0;
        for (at, found) in fragment.match_indices(is_escaped) {
            writer.write_all(&fragment.as_bytes()[plain..at])?;
            let code = found.chars().next().map_or(0, u32::from);
            write!(writer, "\\u{code:04x}")?;
            plain = at + found.len();
        }
        writer.write_all(&fragment.as_bytes()[plain..])
    }
}

/// Returns whether Go escapes a character, for HTML or JavaScript.
fn is_escaped(character: char) -> bool {
    matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped_as_in_go() {
        assert_eq!(encode(&"a<b>&c"), r#""a\u003cb\u003e\u0026c""#);
        assert_eq!(encode(&"\u{2028}é\u{2029}"), "\"\\u2028é\\u2029\"");
        assert_eq!(encode(&"&"), r#""\u0026""#);
    }

    #[test]
    fn the_rest_is_escaped_as_in_go() {
        assert_eq!(
            encode(&"\"\\/\u{1}\u{8}\t\n\u{c}\r\u{7f}"),
            "\"\\\"\\\\/\\u0001\\b\\t\\n\\f\\r\u{7f}\""
        );
    }

    #[test]
    fn escaped_text_round_trips() {
        let text = "<a href=\"x&y\">\u{2028}</a>";
        assert_eq!(serde_json::from_str::<String>(&encode(&text)).unwrap(), text);
    }
}
