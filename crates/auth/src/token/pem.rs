//! Key files: DER in PEM, possibly inside a certificate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Decodes the first block of a PEM file.
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
        // Skip headers and the empty line after them.
        if !line.contains(':') {
            body.push_str(line.trim());
        }
    }
    None
}

/// Returns the public key of a certificate, as a `SubjectPublicKeyInfo`.
///
/// ```text
/// Certificate      SEQUENCE { tbsCertificate, ... }
/// tbsCertificate   SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject,
///                             public key, ... }
/// ```
pub(crate) fn key_of_certificate(der: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = Element::read(der).filter(|(element, _)| element.tag == SEQUENCE)?;
    let (signed, _) =
        Element::read(certificate.content).filter(|(element, _)| element.tag == SEQUENCE)?;
    let mut fields = signed.content;
    // Certificates of version 1 have no version field.
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

/// The most bytes of an encoded length: a key is shorter than 16 MiB.
const LENGTH_BYTES_MAX: usize = 3;

/// A DER element.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// Splits the first element off.
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
