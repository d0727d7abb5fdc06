//! Splits a body into JSON values and checks its grammar.
//!
//! ```text
//!   {"ID":"1"} {"ID":"2"}{"ID":
//!   └────────┘ └────────┘└────── incomplete
//! ```
//!
//! Each byte is scanned once, however many pieces the body arrives in. The error texts are those of
//! Go's `encoding/json`.

use std::fmt;

use bytes::{Bytes, BytesMut};

/// The greatest depth of nested values, as in Go.
const DEPTH_MAX: usize = 10_000;

/// The values of a body.
#[derive(Debug)]
pub(crate) struct Values {
    /// The received text, from the first value that was not taken.
    text: BytesMut,
    /// The number of scanned bytes.
    scanned: usize,
    scanner: Scanner,
    bytes_max: usize,
}

/// The reason why a value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SplitError {
    /// An invalid character.
    #[error("invalid character {found} {position}", found = gocompat::quote_char(char::from(*found)))]
    Character { found: u8, position: SyntaxPosition },
    /// Nested too deeply.
    #[error("exceeded max depth")]
    Depth,
    /// The body ends within a value.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// The value is longer than the limit.
    #[error("grpc: received message larger than max ({length} vs. {bytes_max})")]
    TooLarge { length: usize, bytes_max: usize },
}

impl Values {
    /// Creates a splitter for values of at most `bytes_max` bytes each.
    pub(crate) fn new(bytes_max: usize) -> Values {
        Values { text: BytesMut::new(), scanned: 0, scanner: Scanner::default(), bytes_max }
    }

    /// Adds a piece of the body.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
    }

    /// The memory that is held for values that were not taken.
    pub(crate) fn kept_bytes(&self) -> usize {
        if self.text.is_empty() { 0 } else { self.text.capacity() }
    }

    /// Takes the next value, if it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, SplitError> {
        while let Some(byte) = self.text.get(self.scanned) {
            match self.scanner.step(*byte)? {
                Step::Continues => {
                    self.scanned += 1;
                    self.scanned += self.scanner.skippable(&self.text[self.scanned..]);
                }
                Step::EndsAfter => {
                    self.scanned += 1;
                    return Ok(Some(self.take()));
                }
                Step::EndedBefore => return Ok(Some(self.take())),
            }
            if self.scanned > self.bytes_max {
                let (length, bytes_max) = (self.text.len(), self.bytes_max);
                return Err(SplitError::TooLarge { length, bytes_max });
            }
        }
        Ok(None)
    }

    /// Takes the last value, at the end of the body; none if only white space is left.
    pub(crate) fn last(&mut self) -> Result<Option<Bytes>, SplitError> {
        if let Some(value) = self.next()? {
            return Ok(Some(value));
        }
        match self.scanner.step(b' ') {
            Ok(Step::EndsAfter | Step::EndedBefore) => Ok(Some(self.take())),
            _ if self.text.iter().all(|byte| is_space(*byte)) => Ok(None),
            _ => Err(SplitError::UnexpectedEof),
        }
    }

    fn take(&mut self) -> Bytes {
        self.scanner = Scanner::default();
        self.text.split_to(std::mem::take(&mut self.scanned)).freeze()
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The effect of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The value continues.
    Continues,
    /// The byte is the last of the value.
    EndsAfter,
    /// The value ended before the byte: a number has no end of its own.
    EndedBefore,
}

/// A state machine for the grammar of one value.
#[derive(Debug, Default)]
struct Scanner {
    expects: Expects,
    open: Vec<OpenBracket>,
}

/// A bracket that is not yet closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenBracket {
    /// `[`
    Array,
    /// `{`, before a key.
    Key,
    /// `{`, after a key.
    Value,
}

/// The expected input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expects {
    #[default]
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    /// A comma, a colon or a closing bracket.
    Separator,
    /// The rest of a string.
    Text,
    /// The character after a backslash.
    Escape,
    /// The remaining digits of `\u0041`.
    Hex(u8),
    /// The rest of `true`, `false` or `null`, from this letter.
    Word(&'static str, usize),
    Number(Number),
}

/// The last part of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Digit,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// The position of an invalid character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyntaxPosition {
    BeginOfValue,
    BeginOfKey,
    AfterKey,
    AfterPair,
    AfterElement,
    InString,
    InEscape,
    InHex,
    InNumber,
    AfterPoint,
    InExponent,
    InWord(&'static str, char),
}

impl fmt::Display for SyntaxPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SyntaxPosition::BeginOfValue => "looking for beginning of value",
            SyntaxPosition::BeginOfKey => "looking for beginning of object key string",
            SyntaxPosition::AfterKey => "after object key",
            SyntaxPosition::AfterPair => "after object key:value pair",
            SyntaxPosition::AfterElement => "after array element",
            SyntaxPosition::InString => "in string literal",
            SyntaxPosition::InEscape => "in string escape code",
            SyntaxPosition::InHex => "in \\u hexadecimal character escape",
            SyntaxPosition::InNumber => "in numeric literal",
            SyntaxPosition::AfterPoint => "after decimal point in numeric literal",
            SyntaxPosition::InExponent => "in exponent of numeric literal",
            SyntaxPosition::InWord(word, letter) => {
                return write!(f, "in literal {word} (expecting '{letter}')");
            }
        })
    }
}

impl Scanner {
    fn step(&mut self, byte: u8) -> Result<Step, SplitError> {
        let wrong = |position| Err(SplitError::Character { found: byte, position });
        let next = match self.expects {
            Expects::Separator => return self.separator(byte),
            Expects::Number(number) => match number.step(byte)? {
                Some(number) => Expects::Number(number),
                None => return self.separator(byte),
            },
            Expects::Text => match byte {
                b'"' => Expects::Separator,
                b'\\' => Expects::Escape,
                ..0x20 => return wrong(SyntaxPosition::InString),
                _ => Expects::Text,
            },
            Expects::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Expects::Text,
                b'u' => Expects::Hex(4),
                _ => return wrong(SyntaxPosition::InEscape),
            },
            Expects::Hex(_) if !byte.is_ascii_hexdigit() => return wrong(SyntaxPosition::InHex),
            Expects::Hex(1) => Expects::Text,
            Expects::Hex(left) => Expects::Hex(left - 1),
            Expects::Word(word, at) => match word.as_bytes()[at] {
                letter if letter != byte => {
                    return wrong(SyntaxPosition::InWord(word, letter.into()));
                }
                _ if at + 1 == word.len() => Expects::Separator,
                _ => Expects::Word(word, at + 1),
            },
            expects if is_space(byte) => expects,
            Expects::ValueOrEnd if byte == b']' => return self.separator(byte),
            Expects::Value | Expects::ValueOrEnd => return self.value(byte),
            Expects::KeyOrEnd if byte == b'}' => {
                self.open.pop();
                return Ok(self.closed());
            }
            Expects::Key | Expects::KeyOrEnd if byte == b'"' => Expects::Text,
            Expects::Key | Expects::KeyOrEnd => return wrong(SyntaxPosition::BeginOfKey),
        };
        self.expects = next;
        Ok(Step::Continues)
    }

    /// Returns the number of following bytes that do not change the state. Nearly all of a long
    /// value is text, and searching it is many times faster than single steps.
    fn skippable(&self, bytes: &[u8]) -> usize {
        match self.expects {
            Expects::Text => {
                let is_special = |byte: &u8| matches!(*byte, ..0x20 | b'"' | b'\\');
                bytes.iter().position(is_special).unwrap_or(bytes.len())
            }
            _ => 0,
        }
    }

    /// Handles the first byte of a value.
    fn value(&mut self, byte: u8) -> Result<Step, SplitError> {
        self.expects = match byte {
            b'{' => self.push(OpenBracket::Key, Expects::KeyOrEnd)?,
            b'[' => self.push(OpenBracket::Array, Expects::ValueOrEnd)?,
            b'"' => Expects::Text,
            b't' => Expects::Word("true", 1),
            b'f' => Expects::Word("false", 1),
            b'n' => Expects::Word("null", 1),
            b'-' => Expects::Number(Number::Minus),
            b'0' => Expects::Number(Number::Zero),
            b'1'..=b'9' => Expects::Number(Number::Digit),
            _ => {
                return Err(SplitError::Character {
                    found: byte,
                    position: SyntaxPosition::BeginOfValue,
                });
            }
        };
        Ok(Step::Continues)
    }

    fn push(&mut self, bracket: OpenBracket, then: Expects) -> Result<Expects, SplitError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(SplitError::Depth);
        }
        self.open.push(bracket);
        Ok(then)
    }

    /// Handles a byte after a value or a key.
    fn separator(&mut self, byte: u8) -> Result<Step, SplitError> {
        let Some(open) = self.open.last_mut() else { return Ok(Step::EndedBefore) };
        if is_space(byte) {
            self.expects = Expects::Separator;
            return Ok(Step::Continues);
        }
        (self.expects, *open) = match (*open, byte) {
            (OpenBracket::Key, b':') => (Expects::Value, OpenBracket::Value),
            (OpenBracket::Value, b',') => (Expects::Key, OpenBracket::Key),
            (OpenBracket::Array, b',') => (Expects::Value, OpenBracket::Array),
            (OpenBracket::Value, b'}') | (OpenBracket::Array, b']') => {
                self.open.pop();
                return Ok(self.closed());
            }
            (open, found) => {
                let position = match open {
                    OpenBracket::Key => SyntaxPosition::AfterKey,
                    OpenBracket::Value => SyntaxPosition::AfterPair,
                    OpenBracket::Array => SyntaxPosition::AfterElement,
                };
                return Err(SplitError::Character { found, position });
            }
        };
        Ok(Step::Continues)
    }

    /// Returns the step after a closing bracket.
    fn closed(&mut self) -> Step {
        self.expects = Expects::Separator;
        if self.open.is_empty() { Step::EndsAfter } else { Step::Continues }
    }
}

impl Number {
    /// Returns the next part of the number; none if the byte is beyond it.
    fn step(self, byte: u8) -> Result<Option<Number>, SplitError> {
        let wrong = |position| Err(SplitError::Character { found: byte, position });
        let is_digit = byte.is_ascii_digit();
        Ok(match (self, byte) {
            (Number::Minus, b'0') => Some(Number::Zero),
            (Number::Minus, _) if is_digit => Some(Number::Digit),
            (Number::Minus, _) => return wrong(SyntaxPosition::InNumber),
            (Number::Digit, _) if is_digit => Some(Number::Digit),
            (Number::Digit | Number::Zero, b'.') => Some(Number::Point),
            (Number::Point | Number::Fraction, _) if is_digit => Some(Number::Fraction),
            (Number::Point, _) => return wrong(SyntaxPosition::AfterPoint),
            (Number::Digit | Number::Zero | Number::Fraction, b'e' | b'E') => Some(Number::E),
            (Number::E, b'+' | b'-') => Some(Number::Sign),
            (Number::E | Number::Sign | Number::Exponent, _) if is_digit => Some(Number::Exponent),
            (Number::E | Number::Sign, _) => return wrong(SyntaxPosition::InExponent),
            (Number::Digit | Number::Zero | Number::Fraction | Number::Exponent, _) => None,
        })
    }
}

#[cfg(test)]
mod tests;
