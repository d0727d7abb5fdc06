//! Scalars with a tag that YAML 1.2 does not have.
//!
//! ```text
//!     name: !x on              "on": a scalar with a tag of the file is a text
//!     name: !!binary aGk=      "hi": base64, decoded
//! ```
//!
//! The parser reports the first kind, and drops `!!binary`. The file is therefore parsed with
//! another tag in its place, of the same length and found nowhere else in the file.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde::de::{EnumAccess, Error, VariantAccess as _};
use serde_json::{Map, Value};

/// The tag of base64.
const BINARY: &str = "!!binary";
/// The number of tags that may take its place: more than there are places in a file.
const SUBSTITUTES: usize = 1_000_000;

/// A file whose tags `!!binary` are replaced by one that the parser reports.
pub(super) struct RenamedBinary {
    /// The file.
    pub(super) bytes: Vec<u8>,
    /// The tag that stands for `!!binary`.
    pub(super) tag: String,
}

impl RenamedBinary {
    /// Renames the tags. Returns none if there are none, or if the file is no text, which the
    /// parser rejects.
    pub(super) fn new(bytes: &[u8]) -> Option<RenamedBinary> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.contains(BINARY))?;
        let mut tags = (0..SUBSTITUTES).map(|number| format!("!b{number:06}"));
        let tag = tags.find(|tag| !text.contains(tag.as_str()))?;
        Some(RenamedBinary { bytes: text.replace(BINARY, &tag).into_bytes(), tag })
    }

    /// Undoes the renaming in keys and texts, which may have contained the same characters.
    pub(super) fn restore(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.restore_text(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.restore(value)),
            Value::Object(map) => {
                let pairs = std::mem::take(map).into_iter().map(|(mut key, mut value)| {
                    self.restore_text(&mut key);
                    self.restore(&mut value);
                    (key, value)
                });
                *map = pairs.collect::<Map<_, _>>();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn restore_text(&self, text: &mut String) {
        if text.contains(&self.tag) {
            *text = text.replace(&self.tag, BINARY);
        }
    }
}

/// Returns the text of a scalar with a tag. Decodes it if that is the tag that stands for
/// `!!binary`.
pub(super) fn tagged_text<'de, A: EnumAccess<'de>>(
    tagged: A,
    binary: Option<&str>,
) -> Result<String, A::Error> {
    let (tag, scalar) = tagged.variant::<String>()?;
    let text = scalar.newtype_variant::<String>()?;
    if binary.and_then(|binary| binary.strip_prefix('!')) != Some(&tag) {
        return Ok(text);
    }
    let invalid = format_args!("{BINARY} value contains invalid base64 data");
    decode(&text).ok_or_else(|| A::Error::custom(invalid))
}

/// Decodes base64 as Go does: line ends are skipped, and unused bits may be set. Bytes that are not
/// UTF-8 are replaced, as in JSON.
fn decode(text: &str) -> Option<String> {
    let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let text = text.replace(['\r', '\n'], "");
    let bytes = GeneralPurpose::new(&STANDARD, config).decode(text).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
