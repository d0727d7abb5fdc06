//! Durations as Go writes them.

use std::time::Duration;

/// Units, and how many nanoseconds they have. Longer names before those that begin them.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 6e10),
    ("h", 3.6e12),
];

/// `1.5s`, `100ms`, `1m30s`; none if it is not one. What is below zero is zero.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, size) = UNITS.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        nanoseconds += number * size;
        rest = &rest[unit.len()..];
    }
    match text.is_empty() {
        true => None,
        false if negative => Some(Duration::ZERO),
        false => Duration::try_from_secs_f64(nanoseconds / 1e9).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_go_reads_them() {
        assert_eq!(parse("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(parse("1m30.5s"), Some(Duration::from_millis(90_500)));
        assert_eq!(parse("20us"), Some(Duration::from_micros(20)));
        assert_eq!(parse("-1s"), Some(Duration::ZERO));
        assert_eq!(parse("0"), Some(Duration::ZERO));
        for wrong in ["", "5", "ms", "5 ms", "5x", "1e400h"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
