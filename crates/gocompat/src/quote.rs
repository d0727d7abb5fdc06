//! Quoted strings, as `strconv.Quote` and the `%q` verb print them.

use std::fmt::Write as _;

/// Returns `text` in double quotes, with unprintable characters escaped.
pub fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// Returns bytes in double quotes: UTF-8 as in [`quote`], every other byte as `\xff`.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_escaped(&mut out, c, '"'));
        chunk.invalid().iter().for_each(|byte| push_byte(&mut out, *byte));
    }
    out.push('"');
    out
}

/// Returns a character in single quotes, as `strconv.QuoteRune` does.
pub fn quote_char(c: char) -> String {
    let mut out = String::from("'");
    push_escaped(&mut out, c, '\'');
    out.push('\'');
    out
}

/// Returns several strings as `%q` prints a slice: `["a" "b"]`.
pub fn quote_list<S: AsRef<str>>(texts: &[S]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// Appends a character of a text that stands between two `delimiter`s.
fn push_escaped(out: &mut String, c: char, delimiter: char) {
    let named = match c {
        '"' if c == delimiter => Some("\\\""),
        '\'' if c == delimiter => Some("\\'"),
        '\\' => Some("\\\\"),
        '\u{7}' => Some("\\a"),
        '\u{8}' => Some("\\b"),
        '\u{c}' => Some("\\f"),
        '\n' => Some("\\n"),
        '\r' => Some("\\r"),
        '\t' => Some("\\t"),
        '\u{b}' => Some("\\v"),
        _ => None,
    };
    match named {
        Some(escape) => out.push_str(escape),
        None if is_printable(c) => out.push(c),
        None => push_code(out, u32::from(c)),
    }
}

/// Returns whether `strconv.IsPrint` would: of all spaces, only the ASCII one.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // Rust escapes a combining mark only at the start of a text, and Go nowhere.
    !c.is_whitespace() && format!("a{c}").escape_debug().count() == 2
}

fn push_byte(out: &mut String, byte: u8) {
    let written = write!(out, "\\x{byte:02x}");
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

fn push_code(out: &mut String, code: u32) {
    let written = match code {
        0..0x80 => write!(out, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::{quote, quote_bytes, quote_char, quote_list};

    #[test]
    fn unprintable_characters_are_escaped() {
        let cases = [
            ("plain it's", r#""plain it's""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\t\n\r\u{7}\u{8}\u{b}\u{c}", r#""\t\n\r\a\b\v\f""#),
            ("\0\u{7f}", r#""\x00\x7f""#),
            ("é\u{85}\u{a0}\u{ad}\u{200b}", r#""é\u0085\u00a0\u00ad\u200b""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ];
        for (text, quoted) in cases {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn bytes_outside_utf8_are_escaped() {
        assert_eq!(
            quote_bytes(b"a\xff\xc3\n\xc3\xa9"),
            r#""a\xff\xc3\n\u{e9}""#.replace("\\u{e9}", "\u{e9}")
        );
    }

    #[test]
    fn a_list_stands_in_brackets() {
        assert_eq!(quote_list(&["stdout", "systemd/journal"]), r#"["stdout" "systemd/journal"]"#);
    }

    #[test]
    fn a_character_stands_in_single_quotes() {
        let cases = [
            ('x', "'x'"),
            ('"', "'\"'"),
            ('\'', r"'\''"),
            ('\\', r"'\\'"),
            ('\n', r"'\n'"),
            ('\0', r"'\x00'"),
            ('\u{85}', r"'\u0085'"),
        ];
        for (c, quoted) in cases {
            assert_eq!(quote_char(c), quoted);
        }
    }
}
