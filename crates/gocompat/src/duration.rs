//! Durations: a signed number of nanoseconds.

use std::fmt;
use std::time::Duration;

/// Go's `time.Duration`, which may be negative. `Display` prints `-1m30.5s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration {
    nanos: i64,
}

/// A text that `time.ParseDuration` refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a duration, or one of more than 64 bits.
    #[error("time: invalid duration {}", quote_time(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quote_time(.0))]
    MissingUnit(String),
    /// A number with a unit that Go does not know.
    #[error("time: unknown unit {} in duration {}", quote_time(unit), quote_time(duration))]
    UnknownUnit {
        /// The unknown unit.
        unit: String,
        /// The whole text.
        duration: String,
    },
}

/// Nanoseconds per unit. Micro has two spellings: U+00B5 and U+03BC.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The magnitude of `i64::MIN` nanoseconds, the largest that any duration has.
const MAGNITUDE_MAX: u64 = 1 << 63;

impl GoDuration {
    /// Creates a duration from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// Returns the duration in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.nanos
    }

    /// Returns a standard duration; a negative one becomes zero.
    pub fn non_negative(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(0))
    }

    /// Parses a duration: a sequence of decimal numbers, each with a unit.
    ///
    /// # Errors
    /// If `time.ParseDuration` would return an error, with the same text.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(invalid(text));
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (part, tail) = parse_part(rest, text)?;
            total = total
                .checked_add(part)
                .filter(|sum| *sum <= MAGNITUDE_MAX)
                .ok_or_else(|| invalid(text))?;
            rest = tail;
        }
        signed(negative, total).map(Self::from_nanos).ok_or_else(|| invalid(text))
    }
}

/// Parses one number with its unit. Returns its nanoseconds and the remaining text.
fn parse_part<'a>(rest: &'a str, whole: &str) -> Result<(u64, &'a str), DurationError> {
    let (integer, rest) = split_digits(rest);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", rest),
    };
    if integer.is_empty() && fraction.is_empty() {
        return Err(invalid(whole));
    }
    let count =
        if integer.is_empty() { 0 } else { integer.parse::<u64>().map_err(|_| invalid(whole))? };
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(end);
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(whole.to_owned()));
    }
    let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let (unit, duration) = (unit.to_owned(), whole.to_owned());
        return Err(DurationError::UnknownUnit { unit, duration });
    };
    let part = count
        .checked_mul(*nanos)
        .and_then(|whole_units| whole_units.checked_add(fraction_nanos(fraction, *nanos)))
        .filter(|part| *part <= MAGNITUDE_MAX)
        .ok_or_else(|| invalid(whole))?;
    Ok((part, tail))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Returns the nanoseconds of a decimal fraction of a unit.
///
/// Like Go, computes in floating point and ignores the digits that no longer fit 63 bits, so that
/// `0.9999999999999999999999s` is a whole second.
fn fraction_nanos(digits: &str, unit_nanos: u64) -> u64 {
    let (mut fraction, mut scale) = (0_u64, 1.0_f64);
    for byte in digits.bytes() {
        let next = fraction.checked_mul(10).and_then(|f| f.checked_add(u64::from(byte - b'0')));
        match next.filter(|next| *next <= MAGNITUDE_MAX) {
            Some(next) => (fraction, scale) = (next, scale * 10.0),
            None => break,
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of a unit fits, as in Go")]
    let nanos = (fraction as f64 * (unit_nanos as f64 / scale)) as u64;
    nanos
}

fn signed(negative: bool, magnitude: u64) -> Option<i64> {
    if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        0_i64.checked_add_unsigned(magnitude)
    }
}

/// Returns `text` in double quotes, as Go's `time` package does: every byte of a non-ASCII or
/// control character becomes `\xNN`.
fn quote_time(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='\u{7f}' => out.push(c),
            _ => c.to_string().bytes().for_each(|byte| out += &format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

fn invalid(whole: &str) -> DurationError {
    DurationError::Invalid(whole.to_owned())
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.nanos.unsigned_abs();
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        match magnitude {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{magnitude}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(magnitude, 3)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(magnitude, 6)),
            _ => write_clock(f, magnitude),
        }
    }
}

/// Prints hours and minutes if there are any, then seconds.
fn write_clock(f: &mut fmt::Formatter<'_>, magnitude: u64) -> fmt::Result {
    const MINUTE: u64 = 60_000_000_000;
    let minutes = magnitude / MINUTE;
    if minutes >= 60 {
        write!(f, "{}h", minutes / 60)?;
    }
    if minutes > 0 {
        write!(f, "{}m", minutes % 60)?;
    }
    write!(f, "{}s", decimal(magnitude % MINUTE, 9))
}

/// Prints `value` divided by ten to the `places`, without trailing zeros: `decimal(1500, 3)` is
/// `1.5`.
fn decimal(value: u64, places: usize) -> String {
    let digits = format!("{value:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::GoDuration;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn every_notation_of_go_is_accepted() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("5s", 5 * SECOND),
            ("+5s", 5 * SECOND),
            ("-5s", -5 * SECOND),
            ("300ms", 300_000_000),
            ("5m", 300 * SECOND),
            ("1h30m", 5400 * SECOND),
            ("1m30s", 90 * SECOND),
            ("1m30.5s", 90 * SECOND + SECOND / 2),
            ("1.5h", 5400 * SECOND),
            ("-1.5s", -SECOND * 3 / 2),
            (".5s", SECOND / 2),
            ("+.5s", SECOND / 2),
            ("1.s", SECOND),
            ("100\u{b5}s", 100_000),
            ("100\u{3bc}s", 100_000),
            ("1\u{3bc}s2ns", 1_002),
            ("100us", 100_000),
            ("7ns", 7),
            ("1s1s", 2 * SECOND),
            ("1h0m0.000000001s", 3600 * SECOND + 1),
            ("0.9999999999999999999999s", SECOND),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("2562047h47m16.854775807s", i64::MAX),
        ];
        for (text, nanos) in cases {
            assert_eq!(GoDuration::parse(text), Ok(GoDuration::from_nanos(nanos)), "{text:?}");
        }
    }

    #[test]
    fn parse_errors_read_as_in_go() {
        let invalid = [
            "",
            "-",
            "s",
            ".",
            "-.",
            ".s",
            "+.s",
            "x",
            "ms",
            "--1s",
            "3000000h",
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "99999999999999999999s",
        ];
        for text in invalid {
            let error = GoDuration::parse(text).expect_err(text).to_string();
            assert_eq!(error, format!("time: invalid duration {}", crate::quote(text)));
        }
        let cases = [
            ("\u{661}s", r#"time: invalid duration "\xd9\xa1s""#),
            ("3", r#"time: missing unit in duration "3""#),
            ("1h5", r#"time: missing unit in duration "1h5""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
            ("5 m", r#"time: unknown unit " m" in duration "5 m""#),
            ("5mm", r#"time: unknown unit "mm" in duration "5mm""#),
            ("1e3s", r#"time: unknown unit "e" in duration "1e3s""#),
        ];
        for (text, error) in cases {
            assert_eq!(GoDuration::parse(text).expect_err(text).to_string(), error);
        }
    }

    #[test]
    fn durations_print_as_in_go() {
        let cases = [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (300_000_000, "300ms"),
            (-90 * SECOND - SECOND / 2, "-1m30.5s"),
            (2 * 3600 * SECOND, "2h0m0s"),
            (60 * SECOND, "1m0s"),
            (SECOND, "1s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(GoDuration::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn a_negative_duration_becomes_zero_as_a_standard_one() {
        assert_eq!(GoDuration::from_nanos(-1).non_negative(), Duration::ZERO);
        assert_eq!(GoDuration::from_nanos(1).non_negative(), Duration::from_nanos(1));
    }
}
