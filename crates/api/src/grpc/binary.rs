//! Metadata that is not text: headers whose names end in `-bin`.
//!
//! ```text
//!   trace-bin: AAEC       three bytes: base64, padded or not
//!   trace-bin: !!!        refused, before anything is done
//! ```
//!
//! No service here reads any. But a call that has some which makes no sense is none for etcd.

use http::HeaderMap;

const SUFFIX: &[u8] = b"-bin";
const PADDING: u8 = b'=';

/// What is wrong with the metadata of a call, in Go's words: its name, its value and what.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Malformed> {
    for (name, value) in headers {
        if name.as_str().as_bytes().ends_with(SUFFIX)
            && let Some(at) = illegal_at(value.as_bytes())
        {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            return Err(Malformed { value, name: name.as_str().to_owned(), at });
        }
    }
    Ok(())
}

/// Metadata that is no base64.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "malformed binary metadata {value:?} in header {name:?}: illegal base64 data at input byte {at}"
)]
pub(super) struct Malformed {
    pub(super) value: String,
    pub(super) name: String,
    pub(super) at: usize,
}

/// Where base64 goes wrong, as Go counts; nowhere, if it does not. What has a multiple of four characters may have padding, and nothing else.
pub(crate) fn illegal_at(text: &[u8]) -> Option<usize> {
    let is_padded = text.len().is_multiple_of(4);
    let (groups, rest) = text.as_chunks::<4>();
    for (number, group) in groups.iter().enumerate() {
        let Some(bad) = group.iter().position(|byte| !is_letter(*byte)) else { continue };
        let (at, is_last) = (4 * number + bad, number + 1 == groups.len());
        return match (is_padded && group[bad] == PADDING, bad) {
            // Behind padding there is nothing.
            (true, 2) if group[3] == PADDING && is_last => None,
            (true, 3) if is_last => None,
            (true, 3) => Some(at + 1),
            (true, 2) if group[3] == PADDING => Some(at + 2),
            _ => Some(at),
        };
    }
    let bad = rest.iter().position(|byte| !is_letter(*byte));
    // A single character is less than a byte.
    let bad = bad.or((rest.len() == 1).then_some(0))?;
    Some(4 * groups.len() + bad)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taken from Go's `base64`.
    #[test]
    fn base64_goes_wrong_where_go_says() {
        let good = ["", "AAEC", "AA==", "AAE=", "AA", "AAE", "AAECAw", "AAECAw==", "+/+/"];
        for text in good {
            assert_eq!(illegal_at(text.as_bytes()), None, "{text}");
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
            assert_eq!(illegal_at(text.as_bytes()), Some(at), "{text}");
        }
    }

    #[test]
    fn only_what_is_said_to_be_binary_is_looked_at() {
        let mut headers = HeaderMap::new();
        headers.insert("binary", "!!!".parse().unwrap());
        assert_eq!(check(&headers), Ok(()));
        headers.append("x-bin", "AAEC".parse().unwrap());
        assert_eq!(check(&headers), Ok(()));
        headers.append("x-bin", "!!!".parse().unwrap());
        let text = "malformed binary metadata \"!!!\" in header \"x-bin\": illegal base64 data at input byte 0";
        assert_eq!(check(&headers).unwrap_err().to_string(), text);
    }
}
