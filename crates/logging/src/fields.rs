//! The fields of an event or a span, formatted.
//!
//! ```text
//!   info!(local_member_id = %id, leases = 3, urls = ?["http://a:1", "http://b:2"], "...")
//!   json      "local-member-id":"8e9e05c52164694d","leases":3,"urls":["http://a:1","http://b:2"]
//!   console   "local-member-id": "8e9e05c52164694d", "leases": 3, "urls": ["http://a:1"]
//! ```
//!
//! Invariants: the text is the inside of a JSON object; fields keep their order; underscores in
//! names become dashes as in etcd, except for [`WITH_UNDERSCORES`]; only names and numbers can
//! exceed [`TEXT_BYTES_MAX`].
//!
//! A list or map given with `?` becomes a JSON list or map. tracing passes both `%x` and `?x` as
//! `Debug` values, so a text that begins like a list is printed again with `{:#?}`: only a value
//! with parts then prints differently. A string from a client never does, whatever it contains.

use std::error::Error;
use std::fmt::{self, Debug, Write};
use std::io;

use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter};
use tracing::field::{Field, Visit};

use super::Format;
use super::escape::Escape;

/// The maximum size of the message, of all fields together, or of the stack trace of a line.
pub(super) const TEXT_BYTES_MAX: usize = 32 * 1024;

/// Names with underscores in etcd: the fields of the line `trace`.
const WITH_UNDERSCORES: [&str; 2] = ["trace_id", "step_count"];

/// Formatted fields, without the enclosing braces.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    text: String,
    format: Format,
}

impl Fields {
    /// Creates an empty list of fields.
    pub(super) fn new(format: Format) -> Self {
        Self { text: String::new(), format }
    }

    /// Returns the formatted fields.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Appends the fields of `other` if they fit.
    pub(super) fn append(&mut self, other: &Self) {
        if other.text.is_empty() || self.text.len() + other.text.len() > TEXT_BYTES_MAX {
            return;
        }
        self.separate();
        self.text.push_str(&other.text);
    }

    /// Adds a value without quotes.
    pub(super) fn bare(&mut self, name: &str, value: impl fmt::Display) {
        self.name(name);
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// Adds a string.
    pub(super) fn quoted(&mut self, name: &str, value: fmt::Arguments<'_>) {
        self.name(name);
        push_quoted(&mut self.text, TEXT_BYTES_MAX, value);
    }

    fn name(&mut self, name: &str) {
        self.separate();
        self.text.push('"');
        let name = name.strip_prefix("r#").unwrap_or(name);
        let dash = if WITH_UNDERSCORES.contains(&name) { '_' } else { '-' };
        self.text.extend(name.chars().map(|c| if c == '_' { dash } else { c }));
        self.text.push_str(if self.is_spaced() { "\": " } else { "\":" });
    }

    fn separate(&mut self) {
        if !self.text.is_empty() {
            self.text.push_str(if self.is_spaced() { ", " } else { "," });
        }
    }

    fn is_spaced(&self) -> bool {
        self.format == Format::Console
    }

    fn json(&self, value: &Value) -> String {
        if self.is_spaced() { printed(value, Spaced) } else { printed(value, CompactFormatter) }
    }
}

/// Appends a value in quotes.
pub(super) fn push_quoted(out: &mut String, len_max: usize, value: fmt::Arguments<'_>) {
    out.push('"');
    // On an error, the text was cut or the value failed to print; the part so far is kept.
    let _ = Escape::new(out, len_max).write_fmt(value);
    out.push('"');
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        match value {
            _ if value.is_nan() => self.quoted(field.name(), format_args!("NaN")),
            f64::INFINITY => self.quoted(field.name(), format_args!("+Inf")),
            f64::NEG_INFINITY => self.quoted(field.name(), format_args!("-Inf")),
            _ => self.bare(field.name(), value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.bare(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.bare(field.name(), value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.bare(field.name(), value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.bare(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.bare(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() != MESSAGE {
            self.quoted(field.name(), format_args!("{value}"));
        }
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        self.quoted(field.name(), format_args!("{}", Chain(error)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == MESSAGE {
            return;
        }
        self.name(field.name());
        let start = self.text.len();
        push_quoted(&mut self.text, TEXT_BYTES_MAX, format_args!("{value:?}"));
        if self.text[start + 1..].starts_with(['[', '{'])
            && let Some(parts) = parts_of(value)
        {
            self.text.truncate(start);
            let json = self.json(&parts);
            self.text.push_str(&json);
        }
    }
}

/// The field in which tracing passes the message.
const MESSAGE: &str = "message";

/// The message of an event, formatted first because sampling depends on it.
#[derive(Debug, Default)]
pub(super) struct Message {
    text: String,
}

impl Message {
    /// Returns the message.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

impl Visit for Message {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            let _ = self.write_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == MESSAGE {
            let _ = write!(self, "{value:?}");
        }
    }
}

impl Write for Message {
    /// Appends what fits. Returns an error when the text is cut, which stops the formatter.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = TEXT_BYTES_MAX - self.text.len();
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

/// An error with its sources. A source that the error already prints is not repeated.
struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = self.0.to_string();
        f.write_str(&printed)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            let text = error.to_string();
            if !printed.contains(&text) {
                write!(f, ": {text}")?;
                printed = text;
            }
            source = error.source();
        }
        Ok(())
    }
}

/// Returns a value as a JSON list or map, if it is one.
fn parts_of(value: &dyn Debug) -> Option<Value> {
    let plain = bounded(format_args!("{value:?}"))?;
    let is_empty = plain == "[]" || plain == "{}";
    if !is_empty && bounded(format_args!("{value:#?}")).is_some_and(|spread| spread == plain) {
        return None;
    }
    serde_json::from_str(&plain).ok()
}

/// Formats a value, or returns `None` if it is longer than a line may be.
fn bounded(value: fmt::Arguments<'_>) -> Option<String> {
    let mut out = Bounded(String::new());
    out.write_fmt(value).ok()?;
    Some(out.0)
}

/// A text bounded by twice [`TEXT_BYTES_MAX`], which leaves room for indentation.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > 2 * TEXT_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn printed(value: &Value, formatter: impl Formatter) -> String {
    let mut out = Vec::new();
    let mut printer = serde_json::Serializer::with_formatter(&mut out, formatter);
    match serde::Serialize::serialize(value, &mut printer) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => String::from("null"),
    }
}

/// Formats JSON with a space after each comma and colon, as zap's console does.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        writer.write_all(if is_first { b"" } else { b", " })
    }

    fn begin_object_key<W>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        writer.write_all(if is_first { b"" } else { b", " })
    }

    fn begin_object_value<W>(&mut self, writer: &mut W) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests;
