//! The keys that a watcher is for.

use bytes::Bytes;

/// The key that stands for an empty one: the smallest there can be.
const SMALLEST_KEY: &[u8] = &[0];
/// As the end of a range: there is none.
const NO_END: &[u8] = &[0];

/// One key, or all keys between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySpan {
    /// One key.
    Key(Bytes),
    /// The keys from `start` on, and before `end`.
    Range { start: Bytes, end: SpanEnd },
}

/// Where a range ends. The order is that of the ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpanEnd {
    /// Before this key.
    Before(Bytes),
    /// Nowhere.
    Open,
}

impl KeySpan {
    /// From a request's key and end. None if no key could be in it.
    ///
    /// The bytes are copied: a watcher lives long, and must not keep alive the whole message that it came in.
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
    /// Whether a key is before the end.
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
    fn ends_are_read_as_in_a_range_request() {
        assert_eq!(KeySpan::new(b"a", b""), Some(KeySpan::Key("a".into())));
        assert_eq!(KeySpan::new(b"", b""), Some(KeySpan::Key("\0".into())));
        assert_eq!(KeySpan::new(b"a", b"\0"), range("a", SpanEnd::Open));
        assert_eq!(KeySpan::new(b"", b"\0"), range("\0", SpanEnd::Open));
        assert_eq!(KeySpan::new(b"a", b"b"), range("a", SpanEnd::Before("b".into())));
        assert_eq!(KeySpan::new(b"b", b"a"), None);
        assert_eq!(KeySpan::new(b"b", b"b"), None);
    }

    #[test]
    fn no_end_is_after_every_key() {
        assert!(SpanEnd::Open.is_after(b"\xff\xff"));
        assert!(SpanEnd::Before("b".into()).is_after(b"a\xff"));
        assert!(!SpanEnd::Before("b".into()).is_after(b"b"));
        assert!(SpanEnd::Before("\u{7f}\u{7f}".into()) < SpanEnd::Open);
    }
}
