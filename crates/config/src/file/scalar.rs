//! YAML 1.1 scalars.
//!
//! ```text
//!     pre-vote: on          true            name: "on"         a text, because it is quoted
//!     max-wals: 010         8               name: !!str on     a text, because of its tag
//!     max-wals: 1_000       1000            name: 12:30        a text: base 60 is not supported
//! ```
//!
//! The parser implements YAML 1.2, where all of these are texts, and does not report quotes. But it
//! returns slices of the file, so the bytes before a slice show quotes and tags. A text that is not
//! a slice of the file was unfolded or unescaped, so it was quoted.

use serde_json::{Number, Value};

use gocompat::{parse_int, parse_uint};

/// The bytes of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'de>(pub(super) &'de [u8]);

/// The notation of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style<'de> {
    /// Without quotes and tag.
    Plain,
    /// In quotes.
    Quoted,
    /// With a tag.
    Tagged(&'de [u8]),
}

impl<'de> Source<'de> {
    /// Returns the YAML 1.1 value of a scalar that the parser returned as a text.
    pub(super) fn value(self, scalar: &'de str) -> Value {
        match self.style(scalar) {
            Style::Plain => plain(scalar),
            Style::Quoted | Style::Tagged(_) => Value::from(scalar),
        }
    }

    /// Returns whether a key is the merge key `<<`.
    pub(super) fn is_merge(self, key: &'de str) -> bool {
        key == "<<" && matches!(self.style(key), Style::Plain | Style::Tagged(b"!!merge"))
    }

    fn style(self, scalar: &'de str) -> Style<'de> {
        // A text that is not a slice of the file was quoted.
        let Some(line) = self.line_before(scalar) else { return Style::Quoted };
        if let Some(b'"' | b'\'') = line.last() {
            return Style::Quoted;
        }
        // An anchor may stand between tag and scalar; a comma ends the previous value.
        let mut words = line.rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        match words.find(|word| !word.starts_with(b"&")) {
            Some(word) if word.starts_with(b"!") && !word.ends_with(b",") => Style::Tagged(word),
            _ => Style::Plain,
        }
    }

    fn line_before(self, scalar: &'de str) -> Option<&'de [u8]> {
        let offset = scalar.as_ptr().addr().checked_sub(self.0.as_ptr().addr())?;
        self.0.get(..offset)?.rsplit(|byte| *byte == b'\n').next()
    }
}

/// Returns the value of a plain scalar that is a text in YAML 1.2 and may be more in YAML 1.1.
fn plain(text: &str) -> Value {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::from(text), Value::Number),
    }
}

/// Parses a number. A leading zero means octal if the digits allow it; underscores are ignored.
fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-".contains(first)) {
        return None;
    }
    let digits = text.replace('_', "");
    let signed = parse_int(&digits).ok().map(Number::from);
    signed.or_else(|| parse_uint(&digits, 64).ok().map(Number::from)).or_else(|| float(&digits))
}

fn float(digits: &str) -> Option<Number> {
    let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if is_decimal { digits.parse().ok().and_then(Number::from_f64) } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Source, plain};

    /// The expected values are those of etcd 3.7.
    #[test]
    fn plain_scalars_follow_yaml_1_1() {
        let cases = [
            ("on", json!(true)),
            ("NO", json!(false)),
            ("y", json!(true)),
            ("yeS", json!("yeS")),
            ("0123", json!(83)),
            ("-0123", json!(-83)),
            ("0_1_7", json!(15)),
            ("1_0", json!(10)),
            ("1__", json!(1)),
            ("0X1F", json!(31)),
            ("08", json!(8.0)),
            ("1_0.5", json!(10.5)),
            ("0777777777777777777777777", json!(777_777_777_777_777_777_777_777_f64)),
            ("_1", json!("_1")),
            ("0x", json!("0x")),
            ("+", json!("+")),
            ("12:30", json!("12:30")),
            ("2001-01-01", json!("2001-01-01")),
            ("1e400", json!("1e400")),
            ("+inf", json!("+inf")),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), expected, "{text}");
        }
    }

    /// Returns the value of the first `on` in a text.
    fn first_on(text: &str) -> Value {
        let at = text.find("on").expect("the text has an \"on\"");
        Source(text.as_bytes()).value(&text[at..at + 2])
    }

    #[test]
    fn quoted_and_tagged_scalars_are_texts() {
        for text in ["on", "a: on", "a: &x on", "[on]", "{\"a\":on}", "a !, on", "a: !\non: 1"] {
            assert_eq!(first_on(text), json!(true), "{text}");
        }
        for text in ["\"on\"", "a: 'on'", "a: !!str on", "a: !!str &x on", "a: ! on"] {
            assert_eq!(first_on(text), json!("on"), "{text}");
        }
        assert_eq!(Source(b"elsewhere").value("on"), json!("on"), "no part of the file");
    }
}
