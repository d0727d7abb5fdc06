//! Durations: a signed number of nanoseconds.

use std::fmt;
use std::time::Duration;

use super::quote;

/// A duration as Go has it, which may be negative: `-1m30.5s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration {
    nanos: i64,
}

/// The units and their nanoseconds. Both letters that look like a micro sign are one.
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

/// The magnitude of the shortest duration, and one more than that of the longest.
const MAGNITUDE_MAX: u64 = 1 << 63;

impl GoDuration {
    /// From nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// As nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.nanos
    }

    /// Without the sign: what is negative is no time at all.
    pub fn or_zero(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(0))
    }

    /// Reads what [`Display`](fmt::Display) writes, and all else that Go takes for a duration.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
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

/// One number with its unit, and what follows it.
fn parse_part<'a>(rest: &'a str, whole: &str) -> Result<(u64, &'a str), String> {
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
        return Err(format!("time: missing unit in duration {}", quote(whole)));
    }
    let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(whole)));
    };
    let part = count
        .checked_mul(*nanos)
        .and_then(|whole_units| whole_units.checked_add(part_of(fraction, *nanos)))
        .filter(|part| *part <= MAGNITUDE_MAX)
        .ok_or_else(|| invalid(whole))?;
    Ok((part, tail))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The decimal fraction of a unit, rounded down. Digits past the eighteenth would be less than a nanosecond of any unit.
fn part_of(fraction: &str, unit_nanos: u64) -> u64 {
    let (mut numerator, mut denominator): (u128, u128) = (0, 1);
    for byte in fraction.bytes().take(18) {
        numerator = numerator * 10 + u128::from(byte - b'0');
        denominator *= 10;
    }
    u64::try_from(numerator * u128::from(unit_nanos) / denominator).unwrap_or(unit_nanos)
}

fn signed(negative: bool, magnitude: u64) -> Option<i64> {
    if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        0_i64.checked_add_unsigned(magnitude)
    }
}

fn invalid(whole: &str) -> String {
    format!("time: invalid duration {}", quote(whole))
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

/// Hours and minutes as far as there are any, then seconds.
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

/// `value` divided by ten to the `places`, without trailing zeros: `decimal(1500, 3)` is `1.5`.
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
    fn every_notation_that_go_takes() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("5s", 5 * SECOND),
            ("+5s", 5 * SECOND),
            ("-5s", -5 * SECOND),
            ("300ms", 300_000_000),
            ("1m30s", 90 * SECOND),
            ("1.5h", 5400 * SECOND),
            (".5s", SECOND / 2),
            ("1.s", SECOND),
            ("100µs", 100_000),
            ("100μs", 100_000),
            ("100us", 100_000),
            ("7ns", 7),
            ("1h0m0.000000001s", 3600 * SECOND + 1),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ];
        for (text, nanos) in cases {
            assert_eq!(GoDuration::parse(text), Ok(GoDuration::from_nanos(nanos)), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_duration_says_why() {
        let cases = [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("x", r#"time: invalid duration "x""#),
            (".s", r#"time: invalid duration ".s""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1h5", r#"time: missing unit in duration "1h5""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("3000000h", r#"time: invalid duration "3000000h""#),
        ];
        for (text, error) in cases {
            assert_eq!(GoDuration::parse(text), Err(error.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn durations_print_as_go_prints_them() {
        let cases = [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (300_000_000, "300ms"),
            (-90 * SECOND - SECOND / 2, "-1m30.5s"),
            (2 * 3600 * SECOND, "2h0m0s"),
            (60 * SECOND, "1m0s"),
            (SECOND, "1s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(GoDuration::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn what_is_negative_is_no_time_at_all() {
        assert_eq!(GoDuration::from_nanos(-1).or_zero(), Duration::ZERO);
        assert_eq!(GoDuration::from_nanos(1).or_zero(), Duration::from_nanos(1));
    }
}
