//! Numbers and booleans, as `strconv` parses them.

/// The cause of a failed number conversion. Go's `flag` and `strconv` packages name it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// The text is not a number.
    Syntax,
    /// The number has too many bits.
    Range,
}

impl NumberError {
    /// Returns the text of the `flag` package.
    pub fn flag_text(self) -> &'static str {
        match self {
            Self::Syntax => "parse error",
            Self::Range => "value out of range",
        }
    }

    /// Returns the text of the `strconv` package.
    pub fn strconv_text(self) -> &'static str {
        match self {
            Self::Syntax => "invalid syntax",
            Self::Range => "value out of range",
        }
    }
}

/// Parses an unsigned number of at most `bits` bits: decimal, or with a prefix `0x`, `0b`, `0o` or
/// `0`.
///
/// # Errors
/// If `strconv.ParseUint` with base 0 would return an error.
pub fn parse_uint(text: &str, bits: u32) -> Result<u64, NumberError> {
    let (base, digits) = split_prefix(text);
    if digits.is_empty() && base != 8 {
        return Err(NumberError::Syntax);
    }
    if text.contains('_') && !underscores_separate_digits(text) {
        return Err(NumberError::Syntax);
    }
    let value = accumulate(digits.bytes().filter(|byte| *byte != b'_'), base)?;
    if value > u64::MAX >> (64 - bits) {
        return Err(NumberError::Range);
    }
    Ok(value)
}

/// Parses a signed 64-bit number in the notations of [`parse_uint`].
///
/// # Errors
/// If `strconv.ParseInt` with base 0 would return an error.
pub fn parse_int(text: &str) -> Result<i64, NumberError> {
    let (negative, magnitude) = split_sign(text);
    apply_sign(negative, parse_uint(magnitude, 64)?)
}

/// Parses a signed 64-bit decimal number without prefix and underscores.
///
/// # Errors
/// If `strconv.Atoi` would return an error.
pub fn parse_decimal(text: &str) -> Result<i64, NumberError> {
    let (negative, magnitude) = split_sign(text);
    if magnitude.is_empty() {
        return Err(NumberError::Syntax);
    }
    apply_sign(negative, accumulate(magnitude.bytes(), 10)?)
}

/// Parses a boolean in any of the twelve spellings of `strconv.ParseBool`.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

fn apply_sign(negative: bool, magnitude: u64) -> Result<i64, NumberError> {
    let value = if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        0_i64.checked_add_unsigned(magnitude)
    };
    value.ok_or(NumberError::Range)
}

/// Splits off the prefix and returns the base. A lone `0` is octal without further digits: zero.
fn split_prefix(text: &str) -> (u32, &str) {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'0') {
        return (10, text);
    }
    match bytes.get(1).map(u8::to_ascii_lowercase) {
        Some(b'b') if bytes.len() > 2 => (2, &text[2..]),
        Some(b'o') if bytes.len() > 2 => (8, &text[2..]),
        Some(b'x') if bytes.len() > 2 => (16, &text[2..]),
        _ => (8, &text[1..]),
    }
}

fn accumulate(digits: impl Iterator<Item = u8>, base: u32) -> Result<u64, NumberError> {
    let mut value: u64 = 0;
    for byte in digits {
        let digit = char::from(byte).to_digit(base).ok_or(NumberError::Syntax)?;
        value = value
            .checked_mul(u64::from(base))
            .and_then(|shifted| shifted.checked_add(u64::from(digit)))
            .ok_or(NumberError::Range)?;
    }
    Ok(value)
}

/// Returns whether underscores stand only between digits, or between a prefix and the first digit.
fn underscores_separate_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_prefix = bytes.len() > 1
        && bytes[0] == b'0'
        && matches!(bytes[1].to_ascii_lowercase(), b'b' | b'o' | b'x');
    let digits = if has_prefix { &bytes[1..] } else { bytes };
    let last = digits.len() - 1;
    digits.iter().enumerate().all(|(at, byte)| {
        *byte != b'_' || (at > 0 && at < last && digits[at - 1] != b'_' && digits[at + 1] != b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::NumberError::{Range, Syntax};
    use super::{parse_bool, parse_decimal, parse_int, parse_uint};

    #[test]
    fn unsigned_numbers_have_four_bases() {
        let cases = [
            ("0", Ok(0)),
            ("42", Ok(42)),
            ("0x2A", Ok(42)),
            ("0b101010", Ok(42)),
            ("0o52", Ok(42)),
            ("052", Ok(42)),
            ("1_000", Ok(1000)),
            ("0x_2a", Ok(42)),
            ("0_52", Ok(42)),
            ("", Err(Syntax)),
            ("x", Err(Syntax)),
            ("-1", Err(Syntax)),
            ("+1", Err(Syntax)),
            ("0x", Err(Syntax)),
            ("08", Err(Syntax)),
            ("_1", Err(Syntax)),
            ("1_", Err(Syntax)),
            ("1__0", Err(Syntax)),
            ("1.0", Err(Syntax)),
            (" 1", Err(Syntax)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(Range)),
            ("99999999999999999999", Err(Range)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_uint(text, 64), expected, "{text:?}");
        }
        assert_eq!(parse_uint("4294967295", 32), Ok(4_294_967_295));
        assert_eq!(parse_uint("4294967296", 32), Err(Range));
    }

    #[test]
    fn signed_numbers_may_carry_a_sign() {
        let cases = [
            ("-5", Ok(-5)),
            ("+5", Ok(5)),
            ("-0x10", Ok(-16)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("9223372036854775808", Err(Range)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("-9223372036854775809", Err(Range)),
            ("-", Err(Syntax)),
            ("--5", Err(Syntax)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_int(text), expected, "{text:?}");
        }
    }

    #[test]
    fn decimals_have_no_prefix() {
        assert_eq!(parse_decimal("010"), Ok(10));
        assert_eq!(parse_decimal("-3"), Ok(-3));
        assert_eq!(parse_decimal("1h"), Err(Syntax));
        assert_eq!(parse_decimal(""), Err(Syntax));
    }

    #[test]
    fn booleans_have_twelve_spellings() {
        assert_eq!(parse_bool("T"), Some(true));
        assert_eq!(parse_bool("False"), Some(false));
        assert_eq!(parse_bool("yes"), None);
        assert_eq!(parse_bool(""), None);
    }
}
