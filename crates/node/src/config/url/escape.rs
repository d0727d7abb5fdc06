//! Percent signs in URLs: which bytes may stand for themselves, and where.

use std::fmt::Write as _;

use crate::config::go::quote;

/// The part of a URL that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Host,
    /// The zone of an IPv6 address: `[fe80::1%25eth0]`.
    Zone,
    User,
    Fragment,
}

impl Place {
    /// What may stand here for itself, besides letters, digits and `-._~`.
    fn allowed(self) -> &'static [u8] {
        match self {
            Self::Path => b"$&+,/:;=@",
            Self::Host | Self::Zone => b"!\"$&'()*+,:;<=>[]",
            Self::User => b"$&+,;=",
            Self::Fragment => b"!$&()*+,/:;=?@",
        }
    }
}

fn stands_for_itself(byte: u8, place: Place) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || place.allowed().contains(&byte)
}

/// `text` with whatever may not stand for itself as `%XX`.
pub(super) fn escape(text: &str, place: Place) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if stands_for_itself(byte, place) {
            out.push(char::from(byte));
        } else {
            let written = write!(out, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
        }
    }
    out
}

/// Whether `text` is already escaped well enough to be kept as it was written.
pub(super) fn is_escaped(text: &str, place: Place) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || stands_for_itself(byte, place))
}

/// What the `%XX` in `text` stand for.
pub(super) fn unescape(text: &str, place: Place) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            out.push(unescape_one(text, at, place)?);
            at += 3;
        } else {
            check_plain(bytes[at], place)?;
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).map_err(|_| format!("invalid URL escape {}: not UTF-8", quote(text)))
}

fn unescape_one(text: &str, at: usize, place: Place) -> Result<u8, String> {
    let bytes = text.as_bytes();
    let shown = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]);
    let refuse = || format!("invalid URL escape {}", quote(&shown));
    let digit =
        |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
    let (Some(high), Some(low)) = (digit(1), digit(2)) else { return Err(refuse()) };
    let value = u8::try_from(high * 16 + low).map_err(|_| refuse())?;
    let fits = match place {
        Place::Path | Place::User | Place::Fragment => true,
        // In a host only what is not ASCII may be escaped, and the percent sign before a zone.
        Place::Host => value >= 0x80 || value == b'%',
        Place::Zone => value == b'%' || value == b' ' || stands_for_itself(value, Place::Host),
    };
    if fits { Ok(value) } else { Err(refuse()) }
}

fn check_plain(byte: u8, place: Place) -> Result<(), String> {
    let in_host = matches!(place, Place::Host | Place::Zone);
    if in_host && byte.is_ascii() && !stands_for_itself(byte, place) {
        return Err(format!(
            "invalid character {} in host name",
            quote(&char::from(byte).to_string())
        ));
    }
    Ok(())
}
