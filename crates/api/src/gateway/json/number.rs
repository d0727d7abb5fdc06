//! Integers in all notations of JSON.
//!
//! ```text
//!   12   12.0   1.2e1   120e-1   are all 12;    1.5   1e99   are refused
//! ```

use std::str::FromStr;

/// The number of digits of the largest integer.
const DIGITS_MAX: usize = 20;

/// Returns the number at the start of a string.
///
/// Compat: as in etcd, the text after a delimiter such as a space or a comma is ignored.
pub(super) fn prefix(text: &str) -> Option<&str> {
    let digits = |from: usize| from + text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let int = usize::from(text.starts_with('-'));
    let mut end = match text.as_bytes().get(int)? {
        b'0' => int + 1,
        b'1'..=b'9' => digits(int),
        _ => return None,
    };
    if text[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = end + 1 + sign;
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    let continues = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '_');
    (!text[end..].starts_with(continues)).then(|| &text[..end])
}

/// Parses an integer. The text must be a JSON number. Returns none if it has a fraction or
/// overflows.
pub(super) fn integer<N: FromStr>(text: &str) -> Option<N> {
    plain(text)?.parse().ok()
}

/// Rewrites a number without point and exponent.
fn plain(text: &str) -> Option<String> {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (int, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let int = if int == "0" { "" } else { int };
    let fraction = fraction.trim_end_matches('0');
    if int.is_empty() && fraction.is_empty() {
        return (!mantissa.is_empty()).then(|| "0".to_owned());
    }
    let exponent: i32 = exponent.parse().ok()?;
    let digits = match usize::try_from(exponent) {
        Ok(exponent) => shift_right(int, fraction, exponent)?,
        Err(_) if fraction.is_empty() => shift_left(int, exponent.unsigned_abs() as usize)?,
        Err(_) => return None,
    };
    Some(format!("{sign}{digits}"))
}

/// Moves the decimal point to the right.
fn shift_right(int: &str, fraction: &str, places: usize) -> Option<String> {
    if fraction.len() > places || int.len() + places > DIGITS_MAX {
        return None;
    }
    Some(format!("{int}{fraction}{}", "0".repeat(places - fraction.len())))
}

/// Moves the decimal point to the left, over zeros only.
fn shift_left(int: &str, places: usize) -> Option<String> {
    let (quotient, rest) = int.split_at(int.len().checked_sub(places)?);
    rest.bytes().all(|digit| digit == b'0').then(|| quotient.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_many_notations() {
        for text in ["12", "12.0", "12.000", "1.2e1", "1.2E+1", "120e-1", "0.12e2"] {
            assert_eq!(integer::<i64>(text), Some(12), "{text}");
        }
        assert_eq!(integer::<i64>("-0"), Some(0));
        assert_eq!(integer::<i64>("0e99999999999"), Some(0));
        assert_eq!(integer::<i64>("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer::<u64>("18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn the_number_at_the_start_of_a_string_is_found() {
        for (text, number) in [
            ("5", Some("5")),
            ("-5.25e+3", Some("-5.25e+3")),
            ("5 6", Some("5")),
            ("0,", Some("0")),
            ("05", None),
            ("+5", None),
            ("5x", None),
            ("5.", None),
            ("5e", None),
            ("5e+", None),
            ("", None),
            ("-", None),
            ("0x5", None),
        ] {
            assert_eq!(prefix(text), number, "{text}");
        }
    }

    #[test]
    fn fractions_and_overflows_are_refused() {
        for text in ["1.5", "15e-1", "1e99", "1e-9999999999", "9223372036854775808"] {
            assert_eq!(integer::<i64>(text), None, "{text}");
        }
        assert_eq!(integer::<u64>("-1"), None);
        assert_eq!(integer::<i32>("2147483648"), None);
    }
}
