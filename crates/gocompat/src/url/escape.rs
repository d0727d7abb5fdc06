//! Percent-encoding: which bytes stand for themselves depends on the part of the URL.

use std::fmt::Write as _;

use crate::quote;

/// The part of a URL that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrlPart {
    Path,
    Host,
    /// The zone of an IPv6 address: `[fe80::1%25eth0]`.
    Zone,
    User,
    Fragment,
}

impl UrlPart {
    /// Bytes that need no escape here, besides letters, digits and `-._~`.
    fn allowed(self) -> &'static [u8] {
        match self {
            Self::Path => b"$&+,/:;=@",
            Self::Host | Self::Zone => b"!\"$&'()*+,:;<=>[]",
            Self::User => b"$&+,;=",
            Self::Fragment => b"!$&()*+,/:;=?@",
        }
    }
}

fn needs_no_escape(byte: u8, part: UrlPart) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || part.allowed().contains(&byte)
}

/// Replaces every byte that needs it by `%XX`.
pub(super) fn escape(text: impl AsRef<[u8]>, part: UrlPart) -> String {
    let text = text.as_ref();
    let mut out = String::with_capacity(text.len());
    for &byte in text {
        if needs_no_escape(byte, part) {
            out.push(char::from(byte));
        } else {
            let written = write!(out, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
        }
    }
    out
}

/// Returns whether Go would print `text` as it was given.
pub(super) fn is_escaped(text: impl AsRef<[u8]>, part: UrlPart) -> bool {
    let stays = |&byte: &u8| b"!$&'()*+,;=:@[]%".contains(&byte) || needs_no_escape(byte, part);
    text.as_ref().iter().all(stays)
}

/// Replaces every `%XX` by its byte, or returns none if one is malformed.
pub(super) fn unescape_bytes(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut out, mut bytes) = (Vec::with_capacity(text.len()), text.iter().copied());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => 16 * digit(bytes.next()?)? + digit(bytes.next()?)?,
            byte => byte,
        });
    }
    Some(out)
}

/// Decodes a path, as `url.PathUnescape` does.
///
/// # Errors
/// If Go would return an error, with the same text; or if the decoded path is not UTF-8.
pub fn path_unescape(text: &str) -> Result<String, String> {
    unescape(text, UrlPart::Path)
}

/// Decodes a name or value of a query, as `url.QueryUnescape` does: `+` is a space.
///
/// # Errors
/// As for [`path_unescape`].
pub fn query_unescape(text: &str) -> Result<String, String> {
    unescape(&text.replace('+', " "), UrlPart::Path)
}

/// Replaces every `%XX` by its byte.
pub(super) fn unescape(text: &str, part: UrlPart) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            out.push(unescape_one(text, at, part)?);
            at += 3;
        } else {
            check_unescaped(bytes[at], part)?;
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).map_err(|_| format!("invalid URL escape {}: not UTF-8", quote(text)))
}

fn unescape_one(text: &str, at: usize, part: UrlPart) -> Result<u8, String> {
    let bytes = text.as_bytes();
    let shown = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]);
    let refuse = || format!("invalid URL escape {}", quote(&shown));
    let digit =
        |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
    let (Some(high), Some(low)) = (digit(1), digit(2)) else { return Err(refuse()) };
    let value = u8::try_from(high * 16 + low).map_err(|_| refuse())?;
    let may_be_escaped = match part {
        UrlPart::Path | UrlPart::User | UrlPart::Fragment => true,
        // In a host, Go accepts escapes of non-ASCII bytes and of the percent sign before a zone.
        UrlPart::Host => value >= 0x80 || value == b'%',
        UrlPart::Zone => value == b'%' || value == b' ' || needs_no_escape(value, UrlPart::Host),
    };
    if may_be_escaped { Ok(value) } else { Err(refuse()) }
}

fn check_unescaped(byte: u8, part: UrlPart) -> Result<(), String> {
    let in_host = matches!(part, UrlPart::Host | UrlPart::Zone);
    if in_host && byte.is_ascii() && !needs_no_escape(byte, part) {
        return Err(format!(
            "invalid character {} in host name",
            quote(&char::from(byte).to_string())
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_decoded_as_in_go() {
        assert_eq!(path_unescape("a%20b+c"), Ok("a b+c".to_owned()));
        assert_eq!(query_unescape("a%20b+c%2B"), Ok("a b c+".to_owned()));
        for text in ["%", "%4", "%zz", "a%4"] {
            let shown = quote(&text[text.find('%').unwrap_or_default()..]);
            assert_eq!(path_unescape(text), Err(format!("invalid URL escape {shown}")));
        }
        assert!(query_unescape("%ff").is_err(), "not UTF-8");
    }
}
