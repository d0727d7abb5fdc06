//! Sets of keys, as intervals.
//!
//! A range is written as requests write it: a key and an end. What they mean:
//!
//! ```text
//!   key  range_end   keys
//!   a    (empty)     a alone
//!   a    c           a <= key < c
//!   a    \0          a <= key            \0 \0 is every key
//! ```
//!
//! An [`Intervals`] is a union of such ranges, kept merged: after granting `[a, c)`, `[b, d)`, `[d, e)` and `k`
//!
//! ```text
//!   a ──► e     k ──► k\0          and [a, e) is inside, though no single grant covers it
//! ```
//!
//! Invariants: the intervals are sorted, none is empty, and between any two lies at least one key that is in neither.

use bytes::Bytes;

/// In requests, an end after every key.
pub(crate) const OPEN_END: &[u8] = &[0];

/// A set of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intervals(Vec<Interval>);

/// Keys from one on, and before another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interval {
    begin: Bytes,
    end: End,
}

/// Where an interval ends. Any key is before the open end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Before(Bytes),
    Open,
}

impl Intervals {
    /// The union of ranges.
    pub(crate) fn union<'a>(ranges: impl IntoIterator<Item = (&'a Bytes, &'a Bytes)>) -> Intervals {
        let mut all: Vec<Interval> =
            ranges.into_iter().filter_map(|(key, end)| Interval::new(key, end)).collect();
        all.sort_unstable_by(|one, other| one.begin.cmp(&other.begin));
        let mut merged: Vec<Interval> = Vec::with_capacity(all.len());
        for next in all {
            match merged.last_mut() {
                Some(last) if last.end.reaches(&next.begin) => {
                    last.end = std::cmp::max(std::mem::replace(&mut last.end, End::Open), next.end);
                }
                _ => merged.push(next),
            }
        }
        Intervals(merged)
    }

    /// Whether all of a range, as a request writes it, is inside.
    ///
    /// Compat: as in etcd, a range that ends before it begins is judged by its key, though it is empty.
    pub(crate) fn contain(&self, key: &[u8], range_end: &[u8]) -> bool {
        let Some(interval) = self.holding(key) else { return false };
        match range_end {
            [] => true,
            OPEN_END => interval.end == End::Open,
            end => interval.end.reaches(end),
        }
    }

    /// The interval that a key is in.
    fn holding(&self, key: &[u8]) -> Option<&Interval> {
        let after = self.0.partition_point(|interval| interval.begin <= key);
        let interval = self.0.get(after.checked_sub(1)?)?;
        interval.end.is_after(key).then_some(interval)
    }
}

impl Interval {
    /// None if it would be empty. No key is, so neither is a range that begins with none.
    fn new(key: &Bytes, range_end: &Bytes) -> Option<Interval> {
        if key.is_empty() {
            return None;
        }
        let end = match &range_end[..] {
            [] => End::Before(after(key)),
            OPEN_END => End::Open,
            _ => End::Before(range_end.clone()),
        };
        end.is_after(key).then(|| Interval { begin: key.clone(), end })
    }
}

impl End {
    /// Whether a key comes before it.
    fn is_after(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => key < end,
            End::Open => true,
        }
    }

    /// Whether nothing is left out between this and where something else begins or ends.
    fn reaches(&self, place: &[u8]) -> bool {
        match self {
            End::Before(end) => place <= end,
            End::Open => true,
        }
    }
}

/// Whether a permission over a range means something: it begins with a key, and does not end before.
pub(crate) fn is_valid(key: &[u8], range_end: &[u8]) -> bool {
    !key.is_empty() && (range_end.is_empty() || range_end == OPEN_END || key < range_end)
}

/// The key right after another.
fn after(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn union(ranges: &[(&'static str, &'static str)]) -> Intervals {
        let ranges: Vec<(Bytes, Bytes)> =
            ranges.iter().map(|&(key, end)| (key.into(), end.into())).collect();
        Intervals::union(ranges.iter().map(|(key, end)| (key, end)))
    }

    #[test]
    fn a_range_may_lie_in_several_grants_together() {
        let granted = union(&[("b", "d"), ("a", "c"), ("d", "e"), ("k", "")]);
        assert_eq!(granted.0.len(), 2, "as drawn");
        assert!(granted.contain(b"a", b"e"));
        assert!(granted.contain(b"c", b"dd"));
        assert!(!granted.contain(b"a", b"ee"));
        assert!(!granted.contain(b"a", b"l"), "a gap");
    }

    #[test]
    fn a_single_key_is_that_key_alone() {
        let granted = union(&[("k", "")]);
        assert!(granted.contain(b"k", b""));
        assert!(granted.contain(b"k", b"k\0"), "the same in other words");
        for other in [&b"j"[..], b"k\0", b"kk", b"l", b""] {
            assert!(!granted.contain(other, b""), "{other:?}");
        }
        assert!(!granted.contain(b"k", b"l"));
        assert!(!granted.contain(b"k", OPEN_END));
    }

    #[test]
    fn an_open_end_is_past_every_other() {
        let granted = union(&[("b", "\0"), ("a", "b")]);
        assert!(granted.contain(b"a", OPEN_END));
        assert!(granted.contain(b"a", b"\xff\xff\xff"));
        assert!(granted.contain(b"\xff", b""));
        let ended = union(&[("a", "\u{7f}")]);
        assert!(!ended.contain(b"a", OPEN_END));
    }

    #[test]
    fn neighbours_merge_and_a_key_between_keeps_apart() {
        assert_eq!(union(&[("a", ""), ("a\0", "")]).0.len(), 1);
        assert_eq!(union(&[("a", "b"), ("b", "c")]).0.len(), 1);
        assert_eq!(union(&[("a", ""), ("b", "c")]).0.len(), 2);
        assert_eq!(union(&[("a", "z"), ("b", "c")]), union(&[("a", "z")]));
    }

    #[test]
    fn what_is_empty_grants_nothing() {
        assert_eq!(union(&[("", ""), ("", "\0"), ("", "z"), ("b", "a"), ("b", "b")]).0, []);
        assert!(!union(&[]).contain(b"a", b""));
        assert!(!union(&[("\0", "\0")]).contain(b"", b""));
        assert!(!union(&[("\0", "\0")]).contain(b"", OPEN_END));
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_judged_by_its_key() {
        let granted = union(&[("b", "d")]);
        assert!(granted.contain(b"c", b"a"));
        assert!(granted.contain(b"c", b"c"));
        assert!(!granted.contain(b"e", b"c"));
    }

    #[test]
    fn a_permission_begins_with_a_key_and_ends_after_it() {
        for (key, end) in [("a", ""), ("a", "b"), ("a", "\0"), ("\0", "\0"), ("a", "a\0")] {
            assert!(is_valid(key.as_bytes(), end.as_bytes()), "{key:?} {end:?}");
        }
        for (key, end) in [("", ""), ("", "a"), ("", "\0"), ("a", "a"), ("b", "a"), ("b", "\0\0")] {
            assert!(!is_valid(key.as_bytes(), end.as_bytes()), "{key:?} {end:?}");
        }
    }
}
