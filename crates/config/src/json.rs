//! JSON, and how Go says that a value is not of the type that was asked for.

use serde_json::{Number, Value};

/// What Go calls the kind of a value.
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

/// `cannot unmarshal string into Go struct field T.f of type int`. A number where another kind of number was asked for is told of by its digits.
pub(crate) fn mismatch(value: &Value, place: &str, wanted: &str, wants_number: bool) -> String {
    let given = match value {
        Value::Number(number) if wants_number => format!("number {}", digits(number)),
        _ => kind_of(value).to_owned(),
    };
    format!("cannot unmarshal {given} into Go {place} of type {wanted}")
}

/// A whole number, if that is what it is: `5`, `5.0`, `1e9`.
pub(crate) fn whole(value: &Value) -> Option<i128> {
    let Value::Number(number) = value else { return None };
    if let Some(unsigned) = number.as_u64() {
        return Some(i128::from(unsigned));
    }
    if let Some(signed) = number.as_i64() {
        return Some(i128::from(signed));
    }
    // Up to here floats are whole numbers that a 64-bit integer can hold; past it they are refused as too large anyway.
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e19)?;
    format!("{float:.0}").parse().ok()
}

/// A number as Go's encoder writes it.
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

    use super::{mismatch, whole};

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        assert_eq!(whole(&json!(1e9)), Some(1_000_000_000));
        assert_eq!(whole(&json!(-3)), Some(-3));
        assert_eq!(whole(&json!(u64::MAX)), Some(u64::MAX.into()));
        assert_eq!(whole(&json!(1.5)), None);
        assert_eq!(whole(&json!(1e300)), None);
        assert_eq!(whole(&json!("1")), None);
    }

    #[test]
    fn a_mismatch_is_told_in_gos_words() {
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
