//! JSON values, and Go's error text for a value of the wrong type.

use serde_json::{Number, Value};

/// Returns Go's name for the kind of a value.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns `cannot unmarshal string into Go struct field T.f of type int`. If a number was
/// expected, a number of the wrong kind is printed with its digits.
pub(crate) fn mismatch(
    value: &Value,
    target: &str,
    expected_type: &str,
    wants_number: bool,
) -> String {
    let found = match value {
        Value::Number(number) if wants_number => format!("number {}", digits(number)),
        _ => kind_of(value).to_owned(),
    };
    format!("cannot unmarshal {found} into Go {target} of type {expected_type}")
}

/// Returns an integer if the value is one: `5`, `5.0`, `1e9`.
pub(crate) fn as_integer(value: &Value) -> Option<i128> {
    let Value::Number(number) = value else { return None };
    if let Some(unsigned) = number.as_u64() {
        return Some(i128::from(unsigned));
    }
    if let Some(signed) = number.as_i64() {
        return Some(i128::from(signed));
    }
    // Larger floats do not fit 64 bits and are rejected anyway.
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e19)?;
    format!("{float:.0}").parse().ok()
}

/// Prints a number as Go's encoder does.
fn digits(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float.abs() >= 1e21 => format!("{float:e}").replacen('e', "e+", 1),
        Some(float) => format!("{float}"),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{as_integer, mismatch};

    #[test]
    fn integers_may_be_written_as_floats() {
        assert_eq!(as_integer(&json!(1e9)), Some(1_000_000_000));
        assert_eq!(as_integer(&json!(-3)), Some(-3));
        assert_eq!(as_integer(&json!(u64::MAX)), Some(u64::MAX.into()));
        assert_eq!(as_integer(&json!(1.5)), None);
        assert_eq!(as_integer(&json!(1e300)), None);
        assert_eq!(as_integer(&json!("1")), None);
    }

    #[test]
    fn a_type_mismatch_has_gos_text() {
        let cases = [
            (json!(1.5), true, "cannot unmarshal number 1.5 into Go value of type x"),
            (
                json!(1e20),
                true,
                "cannot unmarshal number 100000000000000000000 into Go value of type x",
            ),
            (json!(1e30), true, "cannot unmarshal number 1e+30 into Go value of type x"),
            (json!(5), false, "cannot unmarshal number into Go value of type x"),
            (json!([]), true, "cannot unmarshal array into Go value of type x"),
        ];
        for (value, wants_number, text) in cases {
            assert_eq!(mismatch(&value, "value", "x", wants_number), text);
        }
    }
}
