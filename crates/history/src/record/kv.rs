//! KeyHistory: what is stored under one, and ranges of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A key with what the store has for it, as in etcd's `KeyValue`.
///
/// KeyHistory and values are text: tests choose them, and a history should be readable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Kv {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The revision that created it.
    pub create: i64,
    /// The revision that last changed it.
    #[serde(rename = "mod")]
    pub modified: i64,
    /// How often it was put since it was created.
    pub version: i64,
    /// The lease it hangs on, or zero.
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

/// Whether a number is left out of the file.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// One key, or all keys from one up to another: etcd's `key` and `range_end`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The first key.
    pub key: String,
    /// The key that is just too far. None: only `key` itself; `"\0"`: everything from `key` on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

impl Span {
    /// This key alone.
    #[must_use]
    pub fn one(key: &str) -> Span {
        Span { key: key.to_owned(), end: None }
    }

    /// From `key` up to `end`, which is not among them.
    #[must_use]
    pub fn between(key: &str, end: &str) -> Span {
        Span { key: key.to_owned(), end: Some(end.to_owned()) }
    }

    /// Every key there is.
    #[must_use]
    pub fn all() -> Span {
        Span::between("\0", "\0")
    }

    /// Whether `key` is among them.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        match self.end.as_deref() {
            None => key == self.key,
            Some("\0") => key >= self.key.as_str(),
            Some(end) => key >= self.key.as_str() && key < end,
        }
    }

    /// Whether every key of `other` is among them, as far as their bounds tell.
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

    /// Whether some key could be in both.
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
    fn spans_hold_what_etcd_says_they_hold() {
        assert!(Span::one("a").contains("a") && !Span::one("a").contains("aa"));
        assert!(Span::between("a", "c").contains("bz") && !Span::between("a", "c").contains("c"));
        assert!(Span::between("b", "\0").contains("zz") && !Span::between("b", "\0").contains("a"));
        assert!(!Span::between("c", "a").contains("b"));
    }

    #[test]
    fn spans_cover_what_is_within_them() {
        assert!(
            Span::all().covers(&Span::one("a")) && Span::all().covers(&Span::between("a", "\0"))
        );
        assert!(Span::between("a", "d").covers(&Span::between("b", "d")));
        assert!(!Span::between("a", "d").covers(&Span::between("b", "e")));
        assert!(!Span::between("a", "d").covers(&Span::between("b", "\0")));
        assert!(!Span::one("a").covers(&Span::between("a", "b")));
    }

    #[test]
    fn spans_meet_if_they_could_share_a_key() {
        assert!(Span::all().meets(&Span::one("a")));
        assert!(Span::between("a", "c").meets(&Span::one("b")));
        assert!(!Span::between("a", "c").meets(&Span::one("c")));
        assert!(!Span::one("a").meets(&Span::one("b")));
        assert!(Span::between("a", "c").meets(&Span::between("b", "d")));
    }
}
