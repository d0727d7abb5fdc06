//! One line, as it is written.
//!
//! ```text
//!   json      {"level":"info","ts":"2026-11-15T17:59:00.198683Z","caller":"storage/backend.rs:80","msg":"opened backend db","path":"m/db"}
//!   console   2026-11-15T17:59:00.198683Z⇥info⇥storage/backend.rs:80⇥opened backend db⇥{"path": "m/db"}
//! ```
//!
//! `logger` comes between the time and the caller where there is one; `stacktrace` comes last, on the console in lines of its own.

use std::borrow::Cow;
use std::fmt::Write;

use jiff::Timestamp;

use super::fields::{Fields, TEXT_BYTES_MAX, push_quoted};
use super::origin::Caller;
use super::stamp::Zone;
use super::{Format, Level};

/// What is to be written, before it is laid out.
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

/// A finished line, with what a journal wants to know beside the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) level: Level,
    pub(super) package: Cow<'static, str>,
    /// With its newline.
    pub(super) text: String,
}

/// Lays lines out: `--log-format` and the time zone.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) zone: Zone,
}

impl Layout {
    /// Room for fields in this format.
    pub(super) fn fields(&self) -> Fields {
        Fields::new(self.format)
    }

    /// The text of a line.
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

    // Writing to a String cannot fail, hence the results let go below.

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

/// As much of a text as a line has room for.
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
    fn json_puts_the_stack_last() {
        let expected = concat!(
            r#"{"level":"info","ts":"2026-11-15T17:59:00.198683Z","logger":"bbolt","caller":"bolt/db.rs:80","#,
            r#""msg":"opened\tbackend db","path":"m/db","size":24576,"stacktrace":"a\n\tb"}"#,
            "\n"
        );
        assert_eq!(text(Format::Json, Some("a\n\tb")), expected);
    }

    #[test]
    fn the_console_puts_the_stack_below() {
        let expected = "2026-11-15T17:59:00.198683Z\tinfo\tbbolt\tbolt/db.rs:80\topened\tbackend db\t\
                        {\"path\": \"m/db\", \"size\": 24576}\na\n\tb\n";
        assert_eq!(text(Format::Console, Some("a\n\tb")), expected);
    }

    #[test]
    fn a_long_stack_is_cut() {
        let stack = "é".repeat(TEXT_BYTES_MAX);
        for format in [Format::Json, Format::Console] {
            assert!(text(format, Some(&stack)).len() < TEXT_BYTES_MAX + 400);
        }
    }
}
