//! Keys with their values, and ranges of keys.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A key with its value and metadata, as in etcd's `KeyValue`.
///
/// Keys and values are text, because tests choose them and a history should be readable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Kv {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The revision that created the key.
    pub create: i64,
    /// The revision that last put the key.
    #[serde(rename = "mod")]
    pub modified: i64,
    /// The number of puts since the key was created.
    pub version: i64,
    /// The lease that the key is attached to, or zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease: i64,
}

/// `a="1" (mod 5, created 2, version 3)`.
impl fmt::Display for Kv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kv { key, value, create, modified, version, lease } = self;
        write!(f, "{key}={value:?} (mod {modified}, created {create}, version {version}")?;
        if *lease != 0 {
            write!(f, ", lease {lease}")?;
        }
        f.write_str(")")
    }
}

/// Returns whether serde omits a field.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde's skip_serializing_if")]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A single key or a half-open range of keys: etcd's `key` and `range_end`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The first key.
    pub key: String,
    /// The end (exclusive). `None` means only `key`; `"\0"` means every key from `key` on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

impl Span {
    /// Returns the span of a single key.
    #[must_use]
    pub fn one(key: &str) -> Span {
        Span { key: key.to_owned(), end: None }
    }

    /// Returns the span from `key` to `end` (exclusive).
    #[must_use]
    pub fn between(key: &str, end: &str) -> Span {
        Span { key: key.to_owned(), end: Some(end.to_owned()) }
    }

    /// Returns the span of all keys.
    #[must_use]
    pub fn all() -> Span {
        Span::between("\0", "\0")
    }

    /// Reports whether the span contains `key`.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        match self.end.as_deref() {
            None => key == self.key,
            Some("\0") => key >= self.key.as_str(),
            Some(end) => key >= self.key.as_str() && key < end,
        }
    }

    /// Reports whether the span contains every key of `other`, judged by the bounds.
    #[must_use]
    pub fn covers(&self, other: &Span) -> bool {
        match (self.end.as_deref(), other.end.as_deref()) {
            (_, None) => self.contains(&other.key),
            (None, Some(_)) => false,
            (Some("\0"), Some(_)) => other.key >= self.key,
            (Some(_), Some("\0")) => false,
            (Some(mine), Some(end)) => other.key >= self.key && end <= mine,
        }
    }

    /// Reports whether the two spans may share a key.
    #[must_use]
    pub fn meets(&self, other: &Span) -> bool {
        let before = |one: &Span, two: &Span| match one.end.as_deref() {
            None => one.key < two.key,
            Some("\0") => false,
            Some(end) => end <= two.key.as_str(),
        };
        !before(self, other) && !before(other, self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end.as_deref() {
            None => f.write_str(&self.key),
            Some("\0") if self.key == "\0" => f.write_str("everything"),
            Some("\0") => write!(f, "[{}, ...)", self.key),
            Some(end) => write!(f, "[{}, {end})", self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_contain_the_keys_of_etcd_ranges() {
        assert!(Span::one("a").contains("a") && !Span::one("a").contains("aa"));
        assert!(Span::between("a", "c").contains("bz") && !Span::between("a", "c").contains("c"));
        assert!(Span::between("b", "\0").contains("zz") && !Span::between("b", "\0").contains("a"));
        assert!(!Span::between("c", "a").contains("b"));
    }

    #[test]
    fn a_span_covers_narrower_spans() {
        assert!(
            Span::all().covers(&Span::one("a")) && Span::all().covers(&Span::between("a", "\0"))
        );
        assert!(Span::between("a", "d").covers(&Span::between("b", "d")));
        assert!(!Span::between("a", "d").covers(&Span::between("b", "e")));
        assert!(!Span::between("a", "d").covers(&Span::between("b", "\0")));
        assert!(!Span::one("a").covers(&Span::between("a", "b")));
    }

    #[test]
    fn spans_meet_if_they_overlap() {
        assert!(Span::all().meets(&Span::one("a")));
        assert!(Span::between("a", "c").meets(&Span::one("b")));
        assert!(!Span::between("a", "c").meets(&Span::one("c")));
        assert!(!Span::one("a").meets(&Span::one("b")));
        assert!(Span::between("a", "c").meets(&Span::between("b", "d")));
    }
}
