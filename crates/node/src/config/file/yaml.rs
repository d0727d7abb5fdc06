//! YAML read as JSON.
//!
//! Keys become texts, and of two that are the same the last one counts; a number that no 64 bits hold becomes a float, as Go would have it; one
//! without an end is refused. Bounded: in bytes, in brackets (the parser takes the square of their number), in depth and in what
//! aliases unfold to (those two by the parser).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most opening brackets in a file.
const BRACKETS_MAX: usize = 4096;

/// The first document; nothing if there is none.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let brackets = bytes.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if brackets > BRACKETS_MAX {
        return Err(format!("yaml: more than {BRACKETS_MAX} opening brackets"));
    }
    let Some(document) = serde_norway::Deserializer::from_slice(bytes).next() else {
        return Ok(Value::Null);
    };
    match Json::deserialize(document) {
        Ok(Json(value)) => Ok(value),
        Err(error) => Err(format!("yaml: {error}")),
    }
}

/// A value on its way from YAML.
struct Json(Value);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor).map(Json)
    }
}

/// A key on its way from YAML, whatever it looks like.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Key)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
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
        let refuse = || E::custom(format_args!("unsupported value: {number}"));
        Number::from_f64(number).map(Value::Number).ok_or_else(refuse)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Json(value)) = values.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((Key(key), Json(value))) = pairs.next_entry()? {
            map.insert(key, value);
        }
        Ok(Value::Object(map))
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
            ("1: x\ntrue: y\n", json!({"1": "x", "true": "y"})),
            ("a: 1\na: 2\n", json!({"a": 2})),
            ("a: 1\n---\na: 2\n", json!({"a": 1})),
            ("a: &x [1]\nb: *x\n", json!({"a": [1], "b": [1]})),
            ("a: 99999999999999999999\n", json!({"a": 1e20})),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn numbers_without_an_end_are_refused() {
        assert_eq!(
            parse(b"a: .inf"),
            Err("yaml: a: unsupported value: inf at line 1 column 4".to_owned())
        );
    }

    #[test]
    fn what_would_not_end_is_refused() {
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
    fn what_is_no_yaml_is_told_where() {
        let error = parse(b"a: b: c").expect_err("refused");
        assert_eq!(
            error,
            "yaml: mapping values are not allowed in this context at line 1 column 5"
        );
        assert!(parse(b"\xff").is_err());
    }
}
