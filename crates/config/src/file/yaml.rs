//! Converting YAML to JSON.
//!
//! ```text
//!     base: &base {max-wals: 3, pre-vote: off}
//!     <<: *base                                   {"base": {"max-wals": 3, "pre-vote": false},
//!     max-wals: 4                                  "max-wals": 4, "pre-vote": false}
//! ```
//!
//! Keys become texts, and the last of equal keys counts. A number of more than 64 bits becomes a
//! float as in Go; an infinite one is rejected. Scalars follow YAML 1.1
//! ([`scalar`](super::scalar)). Bounds: size in bytes, the number of brackets (the parser is
//! quadratic in it), and, in the parser, depth and the expansion of aliases.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::scalar::Source;
use super::tag::{RenamedBinary, tagged_text};

/// The maximum number of opening brackets in a file.
const BRACKETS_MAX: usize = 4096;

/// Parses the first document; null if there is none.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let brackets = bytes.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if brackets > BRACKETS_MAX {
        return Err(format!("yaml: more than {BRACKETS_MAX} opening brackets"));
    }
    let Some(renamed) = RenamedBinary::new(bytes) else { return parse_document(bytes, None) };
    let mut value = parse_document(&renamed.bytes, Some(&renamed.tag))?;
    renamed.restore(&mut value);
    Ok(value)
}

/// Parses the first document. `binary` is the tag that stands for `!!binary`.
fn parse_document(bytes: &[u8], binary: Option<&str>) -> Result<Value, String> {
    let Some(document) = serde_norway::Deserializer::from_slice(bytes).next() else {
        return Ok(Value::Null);
    };
    Json { source: Source(bytes), binary }
        .deserialize(document)
        .map_err(|error| format!("yaml: {error}"))
}

/// Deserializes a value.
#[derive(Clone, Copy)]
struct Json<'de> {
    source: Source<'de>,
    binary: Option<&'de str>,
}

impl<'de> DeserializeSeed<'de> for Json<'de> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Json<'de> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, set: bool) -> Result<Value, E> {
        Ok(Value::Bool(set))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let reject = || E::custom(format_args!("unsupported value: {number}"));
        Number::from_f64(number).map(Value::Number).ok_or_else(reject)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_borrowed_str<E: Error>(self, scalar: &'de str) -> Result<Value, E> {
        Ok(self.source.value(scalar))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Value, A::Error> {
        tagged_text(tagged, self.binary).map(Value::from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element_seed(self)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = pairs.next_key_seed(KeyOf(self))? {
            let value = pairs.next_value_seed(self)?;
            match key {
                Key::Text(text) => drop(map.insert(text, value)),
                Key::Merge => merge(&mut map, value)?,
            }
        }
        Ok(Value::Object(map))
    }
}

/// Merges maps for the key `<<`.
///
/// Compat: as in etcd, merged keys replace earlier keys of the file and are replaced by later ones.
/// Of several maps the first counts.
fn merge<E: Error>(map: &mut Map<String, Value>, value: Value) -> Result<(), E> {
    let others = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    for other in others.into_iter().rev() {
        let Value::Object(other) = other else {
            return Err(E::custom("map merge requires map or sequence of maps as the value"));
        };
        map.extend(other);
    }
    Ok(())
}

/// A key of a map.
enum Key {
    /// An ordinary key.
    Text(String),
    /// The merge key `<<`.
    Merge,
}

/// Deserializes a key, and converts it to a text.
struct KeyOf<'de>(Json<'de>);

impl<'de> DeserializeSeed<'de> for KeyOf<'de> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeyOf<'de> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that JSON has")
    }

    fn visit_bool<E: Error>(self, set: bool) -> Result<Key, E> {
        Ok(Key::Text(set.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Key, E> {
        Ok(Key::Text(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Key, E> {
        Ok(Key::Text(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Key, E> {
        Ok(Key::Text(number.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
        Ok(Key::Text(text.to_owned()))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Key, A::Error> {
        tagged_text(tagged, self.0.binary).map(Key::Text)
    }

    fn visit_borrowed_str<E: Error>(self, scalar: &'de str) -> Result<Key, E> {
        if self.0.source.is_merge(scalar) {
            return Ok(Key::Merge);
        }
        Ok(Key::Text(match self.0.source.value(scalar) {
            Value::String(text) => text,
            other => other.to_string(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn yaml_becomes_json() {
        let cases = [
            ("", json!(null)),
            ("# nothing\n", json!(null)),
            ("a: 1\nb: [x, 2.5, null]\n", json!({"a": 1, "b": ["x", 2.5, null]})),
            (r#"{"a": {"b": true}}"#, json!({"a": {"b": true}})),
            ("1: x\ntrue: z\n", json!({"1": "x", "true": "z"})),
            ("a: 1\na: 2\n", json!({"a": 2})),
            ("a: 1\n---\na: 2\n", json!({"a": 1})),
            ("a: &x [1]\nb: *x\n", json!({"a": [1], "b": [1]})),
            ("a: 99999999999999999999\n", json!({"a": 1e20})),
            ("a: [off, \"off\", 010]\n", json!({"a": [false, "off", 8]})),
            (
                "on: x\n'on': u\n1.5: z\n010: o\n",
                json!({"true": "x", "on": "u", "1.5": "z", "8": "o"}),
            ),
            ("a: |\n  on\nb: >-\n  on\n", json!({"a": "on\n", "b": "on"})),
            ("# \u{e9}\na: \"\u{e9}\"\nb: on\n", json!({"a": "\u{e9}", "b": true})),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text:?}");
        }
    }

    /// The expected values are those of etcd 3.7.
    #[test]
    fn merged_keys_replace_earlier_keys() {
        let cases = [
            ("a: &a {x: 1}\n<<: *a\nz: 2\n", json!({"a": {"x": 1}, "x": 1, "z": 2})),
            ("x: 1\n<<: {x: 2}\n", json!({"x": 2})),
            ("<<: {x: 2}\nx: 1\n", json!({"x": 1})),
            ("<<: [{x: 1}, {x: 2, z: 2}]\n", json!({"x": 1, "z": 2})),
            ("<<: {x: 1}\n<<: {z: 2}\n", json!({"x": 1, "z": 2})),
            ("<<: {<<: {x: 1}}\n", json!({"x": 1})),
            ("!!merge <<: {x: 1}\n", json!({"x": 1})),
            ("a: b !\n<<: {x: 1}\n", json!({"a": "b !", "x": 1})),
            ("a: {b: c, <<: {x: 1}}\n", json!({"a": {"b": "c", "x": 1}})),
            ("\"<<\": {x: 1}\n", json!({"<<": {"x": 1}})),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn only_maps_can_be_merged() {
        for text in ["<<: 5\n", "<<:\n", "<<: [5]\n", "<<: [{}, x]\n"] {
            let error = parse(text.as_bytes()).expect_err(text);
            let words = "yaml: map merge requires map or sequence of maps as the value";
            assert!(error.starts_with(words), "{text:?}: {error}");
        }
    }

    /// The expected values are those of etcd 3.7.
    #[test]
    fn tagged_scalars_are_texts_and_binary_ones_are_decoded() {
        let cases = [
            ("a: !!binary aGk=\n", json!({"a": "hi"})),
            ("a: [!!binary 'aGk=', !!binary \"aGk=\"]\n", json!({"a": ["hi", "hi"]})),
            ("a: !!binary |\n  aG\n  k=\n", json!({"a": "hi"})),
            ("a: &x !!binary aGl=\nb: *x\n", json!({"a": "hi", "b": "hi"})),
            ("!!binary aGk=: x\n", json!({"hi": "x"})),
            ("a: !!binary /w==\n", json!({"a": "\u{fffd}"})),
            ("a: '!!binary aGk='  # !!binary\n", json!({"a": "!!binary aGk="})),
            (
                "a: !!binary aGk=\n'!!binary': '!b000000'\n",
                json!({"a": "hi", "!!binary": "!b000000"}),
            ),
            ("a: !x on\nb: !x 5\nc: ! on\n", json!({"a": "on", "b": "5", "c": "on"})),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text:?}");
        }
        for text in ["a: !!binary on\n", "a: !!binary 'aGk'\n"] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.contains("!!binary value contains invalid base64 data"), "{error}");
        }
    }

    #[test]
    fn keys_without_a_json_form_are_rejected() {
        for text in ["~: x\n", "[a]: x\n", "? {a: b}\n: x\n"] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn infinite_numbers_are_rejected() {
        assert_eq!(
            parse(b"a: .inf"),
            Err("yaml: a: unsupported value: inf at line 1 column 4".to_owned())
        );
    }

    #[test]
    fn alias_bombs_and_deep_nesting_are_rejected() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x]\n".to_owned()
            + &("bcdefgh".chars().zip("abcdefg".chars()))
                .map(|(name, last)| {
                    format!("{name}: &{name} [{}]\n", vec![format!("*{last}"); 8].join(","))
                })
                .collect::<String>();
        assert_eq!(parse(bomb.as_bytes()), Err("yaml: repetition limit exceeded".to_owned()));
        let deep = format!("a: {}", "[".repeat(200));
        assert!(
            parse(deep.as_bytes())
                .is_err_and(|text| text.starts_with("yaml: recursion limit exceeded"))
        );
        let deeper = "[".repeat(5000);
        assert_eq!(
            parse(deeper.as_bytes()),
            Err("yaml: more than 4096 opening brackets".to_owned())
        );
    }

    #[test]
    fn syntax_errors_have_a_position() {
        let error = parse(b"a: b: c").expect_err("rejected");
        assert_eq!(
            error,
            "yaml: mapping values are not allowed in this context at line 1 column 5"
        );
        assert!(parse(b"\xff").is_err());
    }
}
