//! The format of a line.
//!
//! ```text
//!   json      {"level":"info","ts":"2026-11-15T17:59:00.198683Z","caller":"storage/backend.rs:80",
//!              "msg":"opened backend db","path":"m/db"}
//!   console   2026-11-15T17:59:00.198683Z⇥info⇥storage/backend.rs:80⇥opened db⇥{"path": "m/db"}
//! ```
//!
//! A `logger`, if any, stands between time and caller. A `stacktrace` comes last, on the console in
//! lines of its own.

use std::borrow::Cow;
use std::fmt::Write;

use jiff::Timestamp;

use super::fields::{Fields, TEXT_BYTES_MAX, push_quoted};
use super::origin::Caller;
use super::timestamp::Zone;
use super::{Format, Level};

/// The parts of a line, not yet formatted.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) level: Level,
    pub(super) at: Timestamp,
    pub(super) logger: Option<&'static str>,
    pub(super) caller: Caller<'a>,
    pub(super) message: &'a str,
    pub(super) fields: &'a Fields,
    pub(super) stack: Option<&'a str>,
}

/// A formatted line, with the level and package that the journal needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) level: Level,
    pub(super) package: Cow<'static, str>,
    /// The text with its newline.
    pub(super) text: String,
}

/// Formats lines by `--log-format` and time zone.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) zone: Zone,
}

impl Layout {
    /// Creates an empty list of fields in this format.
    pub(super) fn fields(&self) -> Fields {
        Fields::new(self.format)
    }

    /// Formats a line.
    pub(super) fn text(&self, entry: &Entry<'_>) -> String {
        let len = 128 + entry.message.len() + entry.fields.as_str().len();
        let mut out = String::with_capacity(len);
        match self.format {
            Format::Json => self.json(&mut out, entry),
            Format::Console => self.console(&mut out, entry),
        }
        out.push('\n');
        out
    }

    // Writing to a String cannot fail, so the results below are ignored.

    fn json(&self, out: &mut String, entry: &Entry<'_>) {
        let ts = self.zone.stamp(entry.at);
        let _ = write!(out, r#"{{"level":"{}","ts":"{ts}","#, entry.level);
        if let Some(logger) = entry.logger {
            let _ = write!(out, r#""logger":"{logger}","#);
        }
        out.push_str("\"caller\":");
        quote(out, format_args!("{}", entry.caller));
        out.push_str(",\"msg\":");
        quote(out, format_args!("{}", entry.message));
        if !entry.fields.as_str().is_empty() {
            out.push(',');
            out.push_str(entry.fields.as_str());
        }
        if let Some(stack) = entry.stack {
            out.push_str(",\"stacktrace\":");
            quote(out, format_args!("{stack}"));
        }
        out.push('}');
    }

    fn console(&self, out: &mut String, entry: &Entry<'_>) {
        let _ = write!(out, "{}\t{}", self.zone.stamp(entry.at), entry.level);
        if let Some(logger) = entry.logger {
            let _ = write!(out, "\t{logger}");
        }
        let _ = write!(out, "\t{}\t{}", entry.caller, cut(entry.message));
        if !entry.fields.as_str().is_empty() {
            let _ = write!(out, "\t{{{}}}", entry.fields.as_str());
        }
        if let Some(stack) = entry.stack {
            let _ = write!(out, "\n{}", cut(stack));
        }
    }
}

fn quote(out: &mut String, value: std::fmt::Arguments<'_>) {
    let len_max = out.len() + TEXT_BYTES_MAX;
    push_quoted(out, len_max, value);
}

/// Cuts a text to [`TEXT_BYTES_MAX`].
fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}...", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: Format, stack: Option<&str>) -> String {
        let layout = Layout { format, zone: Zone::utc() };
        let mut fields = layout.fields();
        fields.quoted("path", format_args!("m/db"));
        fields.bare("size", 24576);
        layout.text(&Entry {
            level: Level::Info,
            at: "2026-11-15T17:59:00.198683Z".parse().unwrap(),
            logger: Some("bbolt"),
            caller: Caller::new("crates/bolt/src/db.rs", 80),
            message: "opened\tbackend db",
            fields: &fields,
            stack,
        })
    }

    #[test]
    fn json_ends_with_the_stack_trace() {
        let expected = concat!(
            r#"{"level":"info","ts":"2026-11-15T17:59:00.198683Z","logger":"bbolt","caller":"bolt/db.rs:80","#,
            r#""msg":"opened\tbackend db","path":"m/db","size":24576,"stacktrace":"a\n\tb"}"#,
            "\n"
        );
        assert_eq!(text(Format::Json, Some("a\n\tb")), expected);
    }

    #[test]
    fn the_console_prints_the_stack_trace_below_the_line() {
        let expected = "2026-11-15T17:59:00.198683Z\tinfo\tbbolt\tbolt/db.rs:80\topened\tbackend db\t\
                        {\"path\": \"m/db\", \"size\": 24576}\na\n\tb\n";
        assert_eq!(text(Format::Console, Some("a\n\tb")), expected);
    }

    #[test]
    fn a_long_stack_trace_is_cut() {
        let stack = "é".repeat(TEXT_BYTES_MAX);
        for format in [Format::Json, Format::Console] {
            assert!(text(format, Some(&stack)).len() < TEXT_BYTES_MAX + 400);
        }
    }
}
