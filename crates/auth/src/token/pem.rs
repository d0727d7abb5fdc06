//! Keys as files hold them: DER, wrapped in PEM, possibly inside a certificate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// The bytes of the first block of a PEM file. None if there is no block.
pub(crate) fn first_block(file: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(file).ok()?;
    let mut lines = text.lines().map(str::trim_end);
    let label = lines.find_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(DASHES))?;
    let end = format!("{END}{label}{DASHES}");
    let mut body = String::new();
    for line in lines {
        if line == end {
            return STANDARD.decode(body).ok();
        }
        // Headers, and the empty line after them, are no part of the key.
        if !line.contains(':') {
            body.push_str(line.trim());
        }
    }
    None
}

/// The public key of a certificate, as a `SubjectPublicKeyInfo`. None if it is no certificate.
///
/// ```text
/// Certificate      SEQUENCE { to be signed, ... }
/// to be signed     SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, public key, ... }
/// ```
pub(crate) fn key_of_certificate(der: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = Element::read(der).filter(|(element, _)| element.tag == SEQUENCE)?;
    let (signed, _) =
        Element::read(certificate.content).filter(|(element, _)| element.tag == SEQUENCE)?;
    let mut fields = signed.content;
    // A certificate of the first version does not say so.
    let (first, rest) = Element::read(fields)?;
    if first.tag == VERSION {
        fields = rest;
    }
    for _ in ["serial", "algorithm", "issuer", "validity", "subject"] {
        (_, fields) = Element::read(fields)?;
    }
    let (key, _) = Element::read(fields).filter(|(element, _)| element.tag == SEQUENCE)?;
    Some(key.whole)
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Most bytes that a length is written in: a key is shorter than 16 MiB.
const LENGTH_BYTES_MAX: usize = 3;

/// An element of DER.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// The element at the beginning, and what follows it.
    fn read(der: &'a [u8]) -> Option<(Element<'a>, &'a [u8])> {
        let (&[tag, first], rest) = der.split_first_chunk()?;
        let (len, rest) = match usize::from(first) {
            short @ ..0x80 => (short, rest),
            long => {
                let count = long - 0x80;
                let (bytes, rest) =
                    rest.split_at_checked(count).filter(|_| count <= LENGTH_BYTES_MAX)?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
        };
        let (content, after) = rest.split_at_checked(len)?;
        let whole = &der[..der.len() - after.len()];
        Some((Element { tag, content, whole }, after))
    }
}
