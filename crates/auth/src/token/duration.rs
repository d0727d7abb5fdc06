//! Durations as etcd's options write them: `5m`, `1h30m`, `-1.5s`, `300ms`.

/// Nanoseconds in each unit. The long units first, so that `ms` is not taken for `m`.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Digits of a fraction that matter: more of them are below a nanosecond, even of hours.
const FRACTION_DIGITS_MAX: usize = 18;

/// The nanoseconds of a duration. None if it is none, or longer than 64 bits can hold.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, text) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    if text == "0" {
        return Some(0);
    }
    let total = unsigned(text)?;
    i64::try_from(if negative { -total } else { total }).ok()
}

/// One number and unit after another.
fn unsigned(mut text: &str) -> Option<i128> {
    let mut total: i128 = 0;
    loop {
        let (part, rest) = part(text)?;
        total = total.checked_add(part)?;
        // As far as a negative one reaches.
        if total > -i128::from(i64::MIN) {
            return None;
        }
        if rest.is_empty() {
            return Some(total);
        }
        text = rest;
    }
}

/// A number with its unit, and what follows.
fn part(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == name)?;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.into() };
    Some((whole * unit + fraction_of(fraction, *unit)?, rest))
}

/// A fraction of a unit.
fn fraction_of(digits: &str, unit: i128) -> Option<i128> {
    let digits = &digits[..digits.len().min(FRACTION_DIGITS_MAX)];
    if digits.is_empty() {
        return Some(0);
    }
    let scale = 10_i128.pow(u32::try_from(digits.len()).ok()?);
    Some(digits.parse::<i128>().ok()? * unit / scale)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("5m", 300 * SECOND),
            ("1h30m", 5400 * SECOND),
            ("-1.5s", -SECOND * 3 / 2),
            ("+.5s", SECOND / 2),
            ("1.s", SECOND),
            ("300ms", SECOND * 3 / 10),
            ("1us", 1000),
            ("1\u{b5}s", 1000),
            ("1\u{3bc}s2ns", 1002),
            ("1s1s", 2 * SECOND),
            ("0.000000001s", 1),
            ("0.9999999999999999999999s", SECOND - 1),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("2562047h47m16.854775807s", i64::MAX),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "3",
            "-",
            "s",
            ".",
            "-.",
            ".s",
            "+.s",
            "1d",
            "5 m",
            "5mm",
            "1e3s",
            "--1s",
            "3000000h",
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "99999999999999999999s",
            "\u{661}s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
