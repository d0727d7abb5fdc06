//! Strings in quotes, as Go's `%q` prints them.

use std::fmt::Write as _;

/// `text` in double quotes, with whatever cannot be printed escaped.
pub(crate) fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// Bytes in double quotes: what is UTF-8 as above, and every other byte as `\xff`.
pub(crate) fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_escaped(&mut out, c));
        chunk.invalid().iter().for_each(|byte| push_byte(&mut out, *byte));
    }
    out.push('"');
    out
}

/// Several strings as Go's `%q` prints a slice of them: `["a" "b"]`.
pub(crate) fn quote_list<S: AsRef<str>>(texts: &[S]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

fn push_escaped(out: &mut String, c: char) {
    let named = match c {
        '"' => Some("\\\""),
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

/// Whether Go would print it as it is: of all spaces, only the ASCII one.
fn is_printable(c: char) -> bool {
    c == ' ' || c == '\'' || (!c.is_whitespace() && c.escape_debug().len() == 1)
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
    use super::{quote, quote_bytes, quote_list};

    #[test]
    fn what_can_be_printed_stays_and_the_rest_is_escaped() {
        let cases = [
            ("plain it's", r#""plain it's""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\t\n\u{7}", r#""\t\n\a""#),
            ("\0\u{7f}", r#""\x00\x7f""#),
            ("é\u{a0}\u{200b}", r#""é\u00a0\u200b""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ];
        for (text, quoted) in cases {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        assert_eq!(
            quote_bytes(b"a\xff\xc3\n\xc3\xa9"),
            r#""a\xff\xc3\n\u{e9}""#.replace("\\u{e9}", "\u{e9}")
        );
    }

    #[test]
    fn a_list_is_quoted_in_brackets() {
        assert_eq!(quote_list(&["stdout", "systemd/journal"]), r#"["stdout" "systemd/journal"]"#);
    }
}
