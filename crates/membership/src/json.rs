//! JSON as Go's `encoding/json` writes it, so that the bytes in the database are etcd's.
//!
//! ```text
//!   in memory       Go, and here             serde_json
//!   a<b>&c          "a\u003cb\u003e\u0026c"  "a<b>&c"
//!   U+2028, U+2029  "\u2028\u2029"           as they are
//! ```
//!
//! Everything else the two write alike. Reading needs nothing of its own but [`or_default`]: what is null is empty.

use std::io;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::ser::Formatter;

/// A value as text.
pub(crate) fn encode(value: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Go);
    value
        .serialize(&mut serializer)
        .expect("memory takes all, and what is written has text for keys");
    String::from_utf8(text).expect("JSON is made of strings")
}

/// As Go reads a field: null leaves it empty.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Whether a field is left out, as Go's `omitempty` does with a bool.
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// Go has one list for "none" and one for "empty", and writes the first as null. The lists that etcd makes are never empty, only none.
pub(crate) fn null_if_empty<S: serde::Serializer>(
    list: &[String],
    to: S,
) -> Result<S::Ok, S::Error> {
    if list.is_empty() { to.serialize_none() } else { list.serialize(to) }
}

/// The difference between the two.
struct Go;

impl Formatter for Go {
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

/// What a browser might take for markup, or JavaScript for the end of a line.
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
    fn what_is_written_is_read_again() {
        let text = "<a href=\"x&y\">\u{2028}</a>";
        assert_eq!(serde_json::from_str::<String>(&encode(&text)).unwrap(), text);
    }
}
