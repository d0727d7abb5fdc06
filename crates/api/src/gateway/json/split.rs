//! Where the values of a body end, and what is wrong with its grammar.
//!
//! ```text
//!   {"ID":"1"} {"ID":"2"}{"ID":
//!   └────────┘ └────────┘└────── not all there yet
//! ```
//!
//! A byte is looked at once, however many pieces the body comes in. The words for what is wrong are those of Go's `encoding/json`.

use std::fmt;

use bytes::{Bytes, BytesMut};

/// How deep values may be nested: Go's bound.
const DEPTH_MAX: usize = 10_000;

/// The values of a body.
#[derive(Debug)]
pub(crate) struct Values {
    /// What came, from the first value that was not taken.
    text: BytesMut,
    /// How much of it was looked at.
    scanned: usize,
    scanner: Scanner,
    bytes_max: usize,
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SplitError {
    /// A character that cannot be there.
    #[error("invalid character {found} {place}", found = gocompat::quote_char(char::from(*found)))]
    Character { found: u8, place: Place },
    /// Too many brackets.
    #[error("exceeded max depth")]
    Depth,
    /// The body ends in the middle of a value.
    #[error("unexpected EOF")]
    CutOff,
    /// A value that is longer than any may be.
    #[error("grpc: received message larger than max ({length} vs. {bytes_max})")]
    TooLarge { length: usize, bytes_max: usize },
}

impl Values {
    /// Values of so many bytes at most, each.
    pub(crate) fn new(bytes_max: usize) -> Values {
        Values { text: BytesMut::new(), scanned: 0, scanner: Scanner::default(), bytes_max }
    }

    /// Adds a piece of the body.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
    }

    /// What is held in memory for values that are not taken.
    pub(crate) fn kept(&self) -> usize {
        if self.text.is_empty() { 0 } else { self.text.capacity() }
    }

    /// The next value, if all of it is there.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, SplitError> {
        while let Some(byte) = self.text.get(self.scanned) {
            match self.scanner.step(*byte)? {
                Step::Goes => {
                    self.scanned += 1;
                    self.scanned += self.scanner.skips(&self.text[self.scanned..]);
                }
                Step::EndsBehind => {
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

    /// The last value, at the end of the body; none if there is nothing left but blanks.
    pub(crate) fn last(&mut self) -> Result<Option<Bytes>, SplitError> {
        if let Some(value) = self.next()? {
            return Ok(Some(value));
        }
        match self.scanner.step(b' ') {
            Ok(Step::EndsBehind | Step::EndedBefore) => Ok(Some(self.take())),
            _ if self.text.iter().all(|byte| is_space(*byte)) => Ok(None),
            _ => Err(SplitError::CutOff),
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

/// What a byte did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The value goes on.
    Goes,
    /// It was the last of the value.
    EndsBehind,
    /// The value had ended already: a number does not say so itself.
    EndedBefore,
}

/// Follows the grammar of one value.
#[derive(Debug, Default)]
struct Scanner {
    expects: Expects,
    open: Vec<Open>,
}

/// A bracket that is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// `[`
    Array,
    /// `{`, and what comes is a key.
    Key,
    /// `{`, and what comes is the value of a key.
    Value,
}

/// What may come next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expects {
    #[default]
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    /// What separates values, or closes a bracket.
    Separator,
    /// The rest of a string.
    Text,
    /// What follows a backslash.
    Escape,
    /// So many digits of `\u0041`.
    Hex(u8),
    /// The rest of `true`, `false` or `null`, which begins at this letter.
    Word(&'static str, usize),
    Number(Number),
}

/// What was last in a number.
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

/// Where a character was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::BeginOfValue => "looking for beginning of value",
            Place::BeginOfKey => "looking for beginning of object key string",
            Place::AfterKey => "after object key",
            Place::AfterPair => "after object key:value pair",
            Place::AfterElement => "after array element",
            Place::InString => "in string literal",
            Place::InEscape => "in string escape code",
            Place::InHex => "in \\u hexadecimal character escape",
            Place::InNumber => "in numeric literal",
            Place::AfterPoint => "after decimal point in numeric literal",
            Place::InExponent => "in exponent of numeric literal",
            Place::InWord(word, letter) => {
                return write!(f, "in literal {word} (expecting '{letter}')");
            }
        })
    }
}

impl Scanner {
    fn step(&mut self, byte: u8) -> Result<Step, SplitError> {
        let wrong = |place| Err(SplitError::Character { found: byte, place });
        let next = match self.expects {
            Expects::Separator => return self.separator(byte),
            Expects::Number(number) => match number.step(byte)? {
                Some(number) => Expects::Number(number),
                None => return self.separator(byte),
            },
            Expects::Text => match byte {
                b'"' => Expects::Separator,
                b'\\' => Expects::Escape,
                ..0x20 => return wrong(Place::InString),
                _ => Expects::Text,
            },
            Expects::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Expects::Text,
                b'u' => Expects::Hex(4),
                _ => return wrong(Place::InEscape),
            },
            Expects::Hex(_) if !byte.is_ascii_hexdigit() => return wrong(Place::InHex),
            Expects::Hex(1) => Expects::Text,
            Expects::Hex(left) => Expects::Hex(left - 1),
            Expects::Word(word, at) => match word.as_bytes()[at] {
                letter if letter != byte => return wrong(Place::InWord(word, letter.into())),
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
            Expects::Key | Expects::KeyOrEnd => return wrong(Place::BeginOfKey),
        };
        self.expects = next;
        Ok(Step::Goes)
    }

    /// How many of the bytes that follow change nothing. Nearly all of a long value is text, which is looked through many times faster than by steps.
    fn skips(&self, bytes: &[u8]) -> usize {
        match self.expects {
            Expects::Text => {
                let tells = |byte: &u8| matches!(*byte, ..0x20 | b'"' | b'\\');
                bytes.iter().position(tells).unwrap_or(bytes.len())
            }
            _ => 0,
        }
    }

    /// The first byte of a value.
    fn value(&mut self, byte: u8) -> Result<Step, SplitError> {
        self.expects = match byte {
            b'{' => self.opens(Open::Key, Expects::KeyOrEnd)?,
            b'[' => self.opens(Open::Array, Expects::ValueOrEnd)?,
            b'"' => Expects::Text,
            b't' => Expects::Word("true", 1),
            b'f' => Expects::Word("false", 1),
            b'n' => Expects::Word("null", 1),
            b'-' => Expects::Number(Number::Minus),
            b'0' => Expects::Number(Number::Zero),
            b'1'..=b'9' => Expects::Number(Number::Digit),
            _ => {
                return Err(SplitError::Character { found: byte, place: Place::BeginOfValue });
            }
        };
        Ok(Step::Goes)
    }

    fn opens(&mut self, bracket: Open, then: Expects) -> Result<Expects, SplitError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(SplitError::Depth);
        }
        self.open.push(bracket);
        Ok(then)
    }

    /// What comes behind a value, or a key.
    fn separator(&mut self, byte: u8) -> Result<Step, SplitError> {
        let Some(open) = self.open.last_mut() else { return Ok(Step::EndedBefore) };
        if is_space(byte) {
            self.expects = Expects::Separator;
            return Ok(Step::Goes);
        }
        (self.expects, *open) = match (*open, byte) {
            (Open::Key, b':') => (Expects::Value, Open::Value),
            (Open::Value, b',') => (Expects::Key, Open::Key),
            (Open::Array, b',') => (Expects::Value, Open::Array),
            (Open::Value, b'}') | (Open::Array, b']') => {
                self.open.pop();
                return Ok(self.closed());
            }
            (open, found) => {
                let place = match open {
                    Open::Key => Place::AfterKey,
                    Open::Value => Place::AfterPair,
                    Open::Array => Place::AfterElement,
                };
                return Err(SplitError::Character { found, place });
            }
        };
        Ok(Step::Goes)
    }

    /// A bracket was closed.
    fn closed(&mut self) -> Step {
        self.expects = Expects::Separator;
        if self.open.is_empty() { Step::EndsBehind } else { Step::Goes }
    }
}

impl Number {
    /// What comes next in it; none if this is behind it.
    fn step(self, byte: u8) -> Result<Option<Number>, SplitError> {
        let wrong = |place| Err(SplitError::Character { found: byte, place });
        let is_digit = byte.is_ascii_digit();
        Ok(match (self, byte) {
            (Number::Minus, b'0') => Some(Number::Zero),
            (Number::Minus, _) if is_digit => Some(Number::Digit),
            (Number::Minus, _) => return wrong(Place::InNumber),
            (Number::Digit, _) if is_digit => Some(Number::Digit),
            (Number::Digit | Number::Zero, b'.') => Some(Number::Point),
            (Number::Point | Number::Fraction, _) if is_digit => Some(Number::Fraction),
            (Number::Point, _) => return wrong(Place::AfterPoint),
            (Number::Digit | Number::Zero | Number::Fraction, b'e' | b'E') => Some(Number::E),
            (Number::E, b'+' | b'-') => Some(Number::Sign),
            (Number::E | Number::Sign | Number::Exponent, _) if is_digit => Some(Number::Exponent),
            (Number::E | Number::Sign, _) => return wrong(Place::InExponent),
            (Number::Digit | Number::Zero | Number::Fraction | Number::Exponent, _) => None,
        })
    }
}

#[cfg(test)]
mod tests;
