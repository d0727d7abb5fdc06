//! Binary metadata: headers whose names end in `-bin`.
//!
//! ```text
//!   trace-bin: AAEC       three bytes: base64, padded or not
//!   trace-bin: !!!        the call is refused
//! ```
//!
//! No service here reads binary metadata. It is validated because grpc-go refuses malformed values.

use http::HeaderMap;

const SUFFIX: &[u8] = b"-bin";
const PADDING: u8 = b'=';

/// Validates all binary metadata of a call.
pub(super) fn validate(headers: &HeaderMap) -> Result<(), MalformedMetadata> {
    for (name, value) in headers {
        if name.as_str().as_bytes().ends_with(SUFFIX)
            && let Some(at) = illegal_base64_at(value.as_bytes())
        {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            return Err(MalformedMetadata { value, name: name.as_str().to_owned(), at });
        }
    }
    Ok(())
}

/// Binary metadata that is not base64. The text is that of grpc-go.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "malformed binary metadata {value:?} in header {name:?}: illegal base64 data at input byte {at}"
)]
pub(super) struct MalformedMetadata {
    pub(super) value: String,
    pub(super) name: String,
    pub(super) at: usize,
}

/// Returns the offset of the first illegal character of base64, as Go counts it, or none. Padding
/// is allowed only in text whose length is a multiple of four.
pub fn illegal_base64_at(text: &[u8]) -> Option<usize> {
    let is_padded = text.len().is_multiple_of(4);
    let (groups, rest) = text.as_chunks::<4>();
    for (number, group) in groups.iter().enumerate() {
        let Some(bad) = group.iter().position(|byte| !is_letter(*byte)) else { continue };
        let (at, is_last) = (4 * number + bad, number + 1 == groups.len());
        return match (is_padded && group[bad] == PADDING, bad) {
            // Nothing may follow padding.
            (true, 2) if group[3] == PADDING && is_last => None,
            (true, 3) if is_last => None,
            (true, 3) => Some(at + 1),
            (true, 2) if group[3] == PADDING => Some(at + 2),
            _ => Some(at),
        };
    }
    let bad = rest.iter().position(|byte| !is_letter(*byte));
    // A single remaining character encodes less than a byte.
    let bad = bad.or((rest.len() == 1).then_some(0))?;
    Some(4 * groups.len() + bad)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets were taken from Go's `encoding/base64`.
    #[test]
    fn illegal_base64_is_found_at_the_offset_that_go_reports() {
        let good = ["", "AAEC", "AA==", "AAE=", "AA", "AAE", "AAECAw", "AAECAw==", "+/+/"];
        for text in good {
            assert_eq!(illegal_base64_at(text.as_bytes()), None, "{text}");
        }
        let wrong = [
            ("!!!", 0),
            ("A", 0),
            ("AAECA", 4),
            ("AA=", 2),
            ("AA=A", 2),
            ("A===", 1),
            ("====", 0),
            ("AA==AAEC", 4),
            ("AAE=AAEC", 4),
            ("AAEC AEC", 4),
            ("AAECAAE_", 7),
            ("AAECAA-", 6),
            ("\u{e4}AA", 0),
        ];
        for (text, at) in wrong {
            assert_eq!(illegal_base64_at(text.as_bytes()), Some(at), "{text}");
        }
    }

    #[test]
    fn only_headers_with_the_suffix_are_validated() {
        let mut headers = HeaderMap::new();
        headers.insert("binary", "!!!".parse().unwrap());
        assert_eq!(validate(&headers), Ok(()));
        headers.append("x-bin", "AAEC".parse().unwrap());
        assert_eq!(validate(&headers), Ok(()));
        headers.append("x-bin", "!!!".parse().unwrap());
        let text = "malformed binary metadata \"!!!\" in header \"x-bin\": illegal base64 data at input byte 0";
        assert_eq!(validate(&headers).unwrap_err().to_string(), text);
    }
}
