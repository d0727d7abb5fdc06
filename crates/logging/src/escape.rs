//! JSON string escapes, as zap writes them.
//!
//! ```text
//!   say "hi"⏎      →   say \"hi\"\n          quotes, backslash, \n \r \t
//!   bell ^G, é, <  →   bell \u0007, é, <     other control characters; the rest is kept
//! ```
//!
//! [`Escape`] cuts the text at a maximum length and appends `...`, so that a large key or value of
//! a client does not become a line of that size.

use std::fmt;

/// Appends escaped text to a JSON string. The caller writes the quotes.
pub(super) struct Escape<'a> {
    out: &'a mut String,
    len_max: usize,
    cut: bool,
}

impl<'a> Escape<'a> {
    /// Appends to `out` until its whole length reaches `len_max`.
    pub(super) fn new(out: &'a mut String, len_max: usize) -> Self {
        Self { out, len_max, cut: false }
    }

    /// Appends a character. Returns an error when the text is full, which stops the formatter.
    fn push(&mut self, c: char) -> fmt::Result {
        if self.out.len() >= self.len_max {
            return self.cut();
        }
        match c {
            '"' => self.out.push_str("\\\""),
            '\\' => self.out.push_str("\\\\"),
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            '\0'..='\x1f' => push_control(self.out, c),
            _ => self.out.push(c),
        }
        Ok(())
    }

    fn cut(&mut self) -> fmt::Result {
        if !std::mem::replace(&mut self.cut, true) {
            self.out.push_str("...");
        }
        Err(fmt::Error)
    }
}

impl fmt::Write for Escape<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(is_plain) && self.out.len() + text.len() <= self.len_max {
            self.out.push_str(text);
            return Ok(());
        }
        text.chars().try_for_each(|c| self.push(c))
    }
}

fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

fn push_control(out: &mut String, c: char) {
    let digit = |value: u32| char::from_digit(value & 0xf, 16).unwrap_or('0');
    out.push_str("\\u00");
    out.push(digit(u32::from(c) >> 4));
    out.push(digit(u32::from(c)));
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn escaped(text: &str, len_max: usize) -> String {
        let mut out = String::new();
        let _ = Escape::new(&mut out, len_max).write_str(text);
        out
    }

    #[test]
    fn controls_quotes_and_backslashes_are_escaped() {
        assert_eq!(escaped("a\"b\\c\n\r\t\u{7}\u{1f}", 100), r#"a\"b\\c\n\r\t\u0007\u001f"#);
        assert_eq!(escaped("é <&> \u{7f}", 100), "é <&> \u{7f}");
    }

    #[test]
    fn a_long_text_is_cut_once_at_a_character_boundary() {
        assert_eq!(escaped("abcdef", 4), "abcd...");
        assert_eq!(escaped("ééé", 3), "éé...");
        let mut out = String::new();
        let mut escape = Escape::new(&mut out, 2);
        assert!(escape.write_str("abc").is_err());
        assert!(escape.write_str("def").is_err());
        assert_eq!(out, "ab...");
    }
}
