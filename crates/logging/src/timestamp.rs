//! Timestamps of lines and of backup files.
//!
//! ```text
//!   in a line           2026-11-15T17:59:00.194771Z      2026-11-15T18:59:07.171793+0100
//!   in a file's name    2026-11-15T17-59-00.194          2026-11-15T18-59-07.171
//! ```
//!
//! The time zone is read once, from `TZ` or the system setting. If there is none, or it is invalid,
//! UTC is used.

use std::fmt::{self, Write};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// The format of the timestamp in a backup's name, for parsing.
const BACKUP_FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.f";

/// Returns the current time, or the epoch if the clock is outside the years that a date can have.
pub(super) fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The time zone that lines are written in.
#[derive(Clone, Debug)]
pub(super) struct Zone(TimeZone);

impl Zone {
    /// Returns the time zone of the system.
    pub(super) fn system() -> Self {
        Self(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// Returns UTC.
    pub(super) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Returns the timestamp of a line.
    pub(super) fn stamp(&self, at: Timestamp) -> LineTime {
        let offset = self.0.to_offset(at);
        LineTime { at: offset.to_datetime(at), offset }
    }

    /// Returns the timestamp in the name of a backup.
    pub(super) fn backup(&self, at: Timestamp) -> String {
        let at = self.0.to_offset(at).to_datetime(at);
        let mut text = String::with_capacity(24);
        // Writing to a String cannot fail.
        let _ = write!(text, "{}T", at.date());
        let _ = write!(text, "{:02}-{:02}-{:02}", at.hour(), at.minute(), at.second());
        let _ = write!(text, ".{:03}", at.subsec_nanosecond() / 1_000_000);
        text
    }
}

/// Returns whether `text` has the format of [`Zone::backup`]. Such texts sort by time.
pub(super) fn is_backup_stamp(text: &str) -> bool {
    text.len() == "2026-11-15T17-59-00.194".len() && DateTime::strptime(BACKUP_FORMAT, text).is_ok()
}

/// A local time with its offset, printed in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineTime {
    at: DateTime,
    offset: Offset,
}

impl fmt::Display for LineTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        write!(f, "{:04}-{:02}-{:02}T", at.year(), at.month(), at.day())?;
        write!(f, "{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())?;
        write!(f, ".{:06}", at.subsec_nanosecond() / 1000)?;
        write_offset(f, self.offset.seconds())
    }
}

/// Prints an offset as Go's `Z0700` does: `Z` for zero, else `+0100`.
fn write_offset(f: &mut fmt::Formatter<'_>, seconds: i32) -> fmt::Result {
    if seconds == 0 {
        return f.write_char('Z');
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    write!(f, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn zone(hours: i8) -> Zone {
        Zone(TimeZone::fixed(Offset::constant(hours)))
    }

    #[test]
    fn a_timestamp_has_microseconds_and_an_offset_as_in_go() {
        let when = at("2026-11-15T17:59:07.171793999Z");
        assert_eq!(Zone::utc().stamp(when).to_string(), "2026-11-15T17:59:07.171793Z");
        assert_eq!(zone(1).stamp(when).to_string(), "2026-11-15T18:59:07.171793+0100");
        assert_eq!(zone(-9).stamp(when).to_string(), "2026-11-15T08:59:07.171793-0900");
        let india = Zone(TimeZone::fixed(Offset::from_seconds(19_800).unwrap()));
        assert_eq!(india.stamp(when).to_string(), "2026-11-15T23:29:07.171793+0530");
    }

    #[test]
    fn only_backup_timestamps_are_recognized() {
        let text = zone(1).backup(at("2026-11-15T17:59:07.171793Z"));
        assert_eq!(text, "2026-11-15T18-59-07.171");
        assert!(is_backup_stamp(&text));
        for other in
            ["", "2026-13-15T18-59-07.171", "2026-11-15T18-59-07.1711", "2026-11-15 18:59:07.171"]
        {
            assert!(!is_backup_stamp(other), "{other}");
        }
    }

    #[test]
    fn daylight_saving_time_changes_the_offset() {
        let rule = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let zone = Zone(rule);
        let written = |text| zone.stamp(at(text)).to_string();
        assert_eq!(written("2026-01-01T00:00:00Z"), "2026-01-01T01:00:00.000000+0100");
        assert_eq!(written("2026-07-01T00:00:00Z"), "2026-07-01T02:00:00.000000+0200");
    }
}
