//! Finds requests whose `:path` has a fragment, such as `/v3/kv/range#x`.
//!
//! HTTP/2 forbids fragments, and Go takes `#` for a character of the path, which then has no
//! method. The `http` crate drops the fragment instead. A proxy that denies paths by their text
//! would be bypassed, so the guard ends the connection of such a client.
//!
//! The header blocks of a client are walked without being decoded:
//!
//! ```text
//!   83 86             44 04 2f 61 23 62             7e 04 2f 61 23 62
//!   indexed fields    name 4 (:path), "/a#b",       name 62: that of the field added last,
//!                     added to the dynamic table    "/a#b", added, too
//! ```
//!
//! Fields of the dynamic table are named by their age, so a set of bits suffices in place of the
//! table: which of the last fields are a `:path`. A field that the real table has evicted is not
//! named again: h2 ends the connection then. It also ends it if a block is malformed, so the walk
//! need not notice that. Indexed fields have been checked when they were added.

use super::huffman::HuffmanScanner;

/// The indexes of `:path` in the static table.
const STATIC_PATHS: std::ops::RangeInclusive<u64> = 4..=5;
/// The first index of the dynamic table. It has at most 128 fields: h2 announces the default size
/// of 4096 bytes, and each field counts for 32 at least.
const DYNAMIC_FIRST: u64 = 62;

/// Walks the header blocks of a connection, in portions of any size.
#[derive(Debug, Default)]
pub(crate) struct PathFragments {
    position: BlockPosition,
    /// Whether each field of the dynamic table is a `:path`: bit 0 is the newest.
    is_path: u128,
    /// The field whose literals are being read.
    field: LiteralField,
    found: bool,
}

/// The position within a block.
#[derive(Debug, Default)]
enum BlockPosition {
    /// Before a field.
    #[default]
    Field,
    /// In the index of a field, or in the name index of a literal.
    Index(FieldKind, PrefixedInteger),
    /// Before the length of a string.
    Length(StringPart),
    /// In the length of a string.
    LongLength(StringPart, bool, PrefixedInteger),
    /// In a string, with this many bytes left.
    Text(StringPart, u64),
}

/// The representation of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    Indexed,
    /// A literal that is added to the dynamic table.
    Added,
    /// A literal that is not.
    NotAdded,
    /// A new size of the dynamic table.
    SizeUpdate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringPart {
    Name,
    Value,
}

/// An integer whose first bits stand in the byte of a representation.
#[derive(Clone, Copy, Debug)]
struct PrefixedInteger {
    value: u64,
    shift: u32,
}

impl PrefixedInteger {
    /// Adds a byte. Returns the integer if it is complete.
    fn add(&mut self, byte: u8) -> Option<u64> {
        let part = u64::from(byte & 0x7f).checked_shl(self.shift).unwrap_or(u64::MAX);
        self.value = self.value.saturating_add(part);
        self.shift = self.shift.saturating_add(7);
        (byte & 0x80 == 0).then_some(self.value)
    }
}

/// The field that is being read, unless it is indexed.
#[derive(Debug)]
struct LiteralField {
    kind: FieldKind,
    is_path: bool,
    /// A name that is not an index.
    name: NameMatcher,
    huffman: Option<HuffmanScanner>,
}

impl Default for LiteralField {
    fn default() -> Self {
        let name = NameMatcher::default();
        Self { kind: FieldKind::NotAdded, is_path: false, name, huffman: None }
    }
}

/// Compares a name with `:path`, in plain or in Huffman coding.
#[derive(Debug, Default)]
struct NameMatcher {
    expected: &'static [u8],
    matched: usize,
    differs: bool,
}

impl NameMatcher {
    const PLAIN: &'static [u8] = b":path";
    const HUFFMAN: &'static [u8] = &[0xb9, 0x58, 0xd3, 0x3f];

    fn new(is_huffman: bool) -> Self {
        let expected = if is_huffman { Self::HUFFMAN } else { Self::PLAIN };
        Self { expected, matched: 0, differs: false }
    }

    fn feed(&mut self, text: &[u8]) {
        let rest = &self.expected[self.matched.min(self.expected.len())..];
        self.differs |= !rest.starts_with(text);
        self.matched += text.len();
    }

    fn is_path(&self) -> bool {
        !self.differs && self.matched == self.expected.len()
    }
}

impl PathFragments {
    /// Walks the next bytes of a block. Returns whether a fragment was found so far.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> bool {
        while let [byte, rest @ ..] = bytes {
            let used = match self.position {
                BlockPosition::Text(part, left) => self.read_text(part, left, bytes),
                _ => {
                    self.read_byte(*byte);
                    1
                }
            };
            bytes = if used == 1 { rest } else { &bytes[used..] };
        }
        self.found
    }

    fn read_byte(&mut self, byte: u8) {
        match &mut self.position {
            BlockPosition::Field => self.begin_field(byte),
            BlockPosition::Index(kind, integer) => {
                let kind = *kind;
                if let Some(index) = integer.add(byte) {
                    self.end_index(kind, index);
                }
            }
            BlockPosition::Length(part) => {
                let (part, is_huffman) = (*part, byte & 0x80 != 0);
                match u64::from(byte & 0x7f) {
                    0x7f => {
                        let integer = PrefixedInteger { value: 0x7f, shift: 0 };
                        self.position = BlockPosition::LongLength(part, is_huffman, integer);
                    }
                    length => self.begin_text(part, is_huffman, length),
                }
            }
            BlockPosition::LongLength(part, is_huffman, integer) => {
                let (part, is_huffman) = (*part, *is_huffman);
                if let Some(length) = integer.add(byte) {
                    self.begin_text(part, is_huffman, length);
                }
            }
            BlockPosition::Text(..) => {}
        }
    }

    fn begin_field(&mut self, byte: u8) {
        let (kind, prefix_bits) = match byte.leading_zeros() {
            0 => (FieldKind::Indexed, 7),
            1 => (FieldKind::Added, 6),
            2 => (FieldKind::SizeUpdate, 5),
            _ => (FieldKind::NotAdded, 4),
        };
        let mask = (1u8 << prefix_bits) - 1;
        let prefix = u64::from(byte & mask);
        if prefix == u64::from(mask) {
            let integer = PrefixedInteger { value: prefix, shift: 0 };
            self.position = BlockPosition::Index(kind, integer);
        } else {
            self.end_index(kind, prefix);
        }
    }

    fn end_index(&mut self, kind: FieldKind, index: u64) {
        match kind {
            FieldKind::Indexed | FieldKind::SizeUpdate => self.position = BlockPosition::Field,
            FieldKind::Added | FieldKind::NotAdded => {
                let is_path = STATIC_PATHS.contains(&index) || self.is_dynamic_path(index);
                self.field = LiteralField { kind, is_path, ..LiteralField::default() };
                let part = if index == 0 { StringPart::Name } else { StringPart::Value };
                self.position = BlockPosition::Length(part);
            }
        }
    }

    /// Returns whether a field of the dynamic table is a `:path`; false outside of the table.
    fn is_dynamic_path(&self, index: u64) -> bool {
        let age = index.checked_sub(DYNAMIC_FIRST).and_then(|age| u32::try_from(age).ok());
        age.and_then(|age| self.is_path.checked_shr(age)).is_some_and(|bits| bits & 1 != 0)
    }

    fn begin_text(&mut self, part: StringPart, is_huffman: bool, length: u64) {
        match part {
            StringPart::Name => self.field.name = NameMatcher::new(is_huffman),
            StringPart::Value => {
                let is_scanned = is_huffman && self.field.is_path;
                self.field.huffman = is_scanned.then(HuffmanScanner::default);
            }
        }
        self.position = BlockPosition::Text(part, length);
        if length == 0 {
            self.end_text(part);
        }
    }

    /// Reads bytes of a string. Returns how many belong to it.
    fn read_text(&mut self, part: StringPart, left: u64, bytes: &[u8]) -> usize {
        let used = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let text = &bytes[..used];
        match (part, &mut self.field.huffman) {
            (StringPart::Name, _) => self.field.name.feed(text),
            (StringPart::Value, Some(huffman)) => self.found |= huffman.feed(text),
            (StringPart::Value, None) => {
                self.found |= self.field.is_path && text.contains(&b'#');
            }
        }
        let left = left - used as u64;
        self.position = BlockPosition::Text(part, left);
        if left == 0 {
            self.end_text(part);
        }
        used
    }

    fn end_text(&mut self, part: StringPart) {
        if part == StringPart::Name {
            self.field.is_path = self.field.name.is_path();
            self.position = BlockPosition::Length(StringPart::Value);
            return;
        }
        self.position = BlockPosition::Field;
        if self.field.kind == FieldKind::Added {
            self.is_path = self.is_path << 1 | u128::from(self.field.is_path);
        }
    }
}

#[cfg(test)]
mod tests;
