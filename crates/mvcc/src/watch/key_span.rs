//! The keys that a watcher watches.

use bytes::Bytes;

/// Replaces an empty key: the smallest key.
const SMALLEST_KEY: &[u8] = &[0];
/// As the end of a range: no end.
const NO_END: &[u8] = &[0];

/// A key or a range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySpan {
    /// A single key.
    Key(Bytes),
    /// The keys from `start` up to, and not including, `end`.
    Range { start: Bytes, end: SpanEnd },
}

/// The end of a range. Ordered like the ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpanEnd {
    /// Ends before this key.
    Before(Bytes),
    /// Has no end.
    Open,
}

impl KeySpan {
    /// Parses the key and the end of a request. Returns `None` if the range is empty.
    ///
    /// The bytes are copied: a long-lived watcher must not keep its request message in memory.
    pub(super) fn new(key: &[u8], range_end: &[u8]) -> Option<KeySpan> {
        let key = if key.is_empty() { SMALLEST_KEY } else { key };
        let start = Bytes::copy_from_slice(key);
        match range_end {
            [] => Some(KeySpan::Key(start)),
            NO_END => Some(KeySpan::Range { start, end: SpanEnd::Open }),
            end if end <= key => None,
            end => {
                Some(KeySpan::Range { start, end: SpanEnd::Before(Bytes::copy_from_slice(end)) })
            }
        }
    }
}

impl SpanEnd {
    /// Returns whether the end is after a key.
    pub(super) fn is_after(&self, key: &[u8]) -> bool {
        match self {
            SpanEnd::Before(end) => key < &end[..],
            SpanEnd::Open => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &'static str, end: SpanEnd) -> Option<KeySpan> {
        Some(KeySpan::Range { start: start.into(), end })
    }

    #[test]
    fn range_ends_have_the_meaning_of_a_range_request() {
        assert_eq!(KeySpan::new(b"a", b""), Some(KeySpan::Key("a".into())));
        assert_eq!(KeySpan::new(b"", b""), Some(KeySpan::Key("\0".into())));
        assert_eq!(KeySpan::new(b"a", b"\0"), range("a", SpanEnd::Open));
        assert_eq!(KeySpan::new(b"", b"\0"), range("\0", SpanEnd::Open));
        assert_eq!(KeySpan::new(b"a", b"b"), range("a", SpanEnd::Before("b".into())));
        assert_eq!(KeySpan::new(b"b", b"a"), None);
        assert_eq!(KeySpan::new(b"b", b"b"), None);
    }

    #[test]
    fn an_open_end_is_after_every_key() {
        assert!(SpanEnd::Open.is_after(b"\xff\xff"));
        assert!(SpanEnd::Before("b".into()).is_after(b"a\xff"));
        assert!(!SpanEnd::Before("b".into()).is_after(b"b"));
        assert!(SpanEnd::Before("\u{7f}\u{7f}".into()) < SpanEnd::Open);
    }
}
