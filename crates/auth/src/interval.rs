//! Sets of keys, as intervals.
//!
//! Requests write a range as a key and an end:
//!
//! ```text
//!   key  range_end   keys
//!   a    (empty)     a alone
//!   a    c           a <= key < c
//!   a    \0          a <= key            \0 \0 is every key
//! ```
//!
//! [`Intervals`] is a merged union of such ranges. After granting `[a, c)`, `[b, d)`, `[d, e)` and
//! `k`:
//!
//! ```text
//!   a ──► e     k ──► k\0          contains [a, e), though no single grant covers it
//! ```
//!
//! Invariants: the intervals are sorted, none is empty, and between any two lies at least one key
//! that is in neither.

use bytes::Bytes;

/// The `range_end` of a request that is open-ended.
pub(crate) const OPEN_END: &[u8] = &[0];

/// A set of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intervals(Vec<Interval>);

/// The keys from `begin` (inclusive) to `end` (exclusive).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interval {
    begin: Bytes,
    end: End,
}

/// The end of an interval. Every key is before the open end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Before(Bytes),
    Open,
}

impl Intervals {
    /// Merges ranges.
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

    /// Returns whether a range of a request is completely inside.
    ///
    /// Compat: as in etcd, a range that ends before it begins is judged by its key, though it is
    /// empty.
    pub(crate) fn contain(&self, key: &[u8], range_end: &[u8]) -> bool {
        let Some(interval) = self.holding(key) else { return false };
        match range_end {
            [] => true,
            OPEN_END => interval.end == End::Open,
            end => interval.end.reaches(end),
        }
    }

    /// Returns the interval that contains a key.
    fn holding(&self, key: &[u8]) -> Option<&Interval> {
        let after = self.0.partition_point(|interval| interval.begin <= key);
        let interval = self.0.get(after.checked_sub(1)?)?;
        interval.end.is_after(key).then_some(interval)
    }
}

impl Interval {
    /// Returns `None` for an empty range. A range without a key is one: keys are never empty.
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
    /// Returns whether a key is before this end.
    fn is_after(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => key < end,
            End::Open => true,
        }
    }

    /// Returns whether an interval with this end leaves no gap before a key.
    fn reaches(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => key <= end,
            End::Open => true,
        }
    }
}

/// Returns whether a permission may be granted over a range: it has a key and does not end before
/// it.
pub(crate) fn is_valid(key: &[u8], range_end: &[u8]) -> bool {
    !key.is_empty() && (range_end.is_empty() || range_end == OPEN_END || key < range_end)
}

/// Returns the next key in byte order.
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
    fn a_range_may_be_covered_by_several_grants_together() {
        let granted = union(&[("b", "d"), ("a", "c"), ("d", "e"), ("k", "")]);
        assert_eq!(granted.0.len(), 2, "as in the module's docs");
        assert!(granted.contain(b"a", b"e"));
        assert!(granted.contain(b"c", b"dd"));
        assert!(!granted.contain(b"a", b"ee"));
        assert!(!granted.contain(b"a", b"l"), "a gap");
    }

    #[test]
    fn a_grant_without_an_end_covers_one_key() {
        let granted = union(&[("k", "")]);
        assert!(granted.contain(b"k", b""));
        assert!(granted.contain(b"k", b"k\0"), "the same range with an end");
        for other in [&b"j"[..], b"k\0", b"kk", b"l", b""] {
            assert!(!granted.contain(other, b""), "{other:?}");
        }
        assert!(!granted.contain(b"k", b"l"));
        assert!(!granted.contain(b"k", OPEN_END));
    }

    #[test]
    fn an_open_end_covers_all_later_keys() {
        let granted = union(&[("b", "\0"), ("a", "b")]);
        assert!(granted.contain(b"a", OPEN_END));
        assert!(granted.contain(b"a", b"\xff\xff\xff"));
        assert!(granted.contain(b"\xff", b""));
        let ended = union(&[("a", "\u{7f}")]);
        assert!(!ended.contain(b"a", OPEN_END));
    }

    #[test]
    fn adjacent_grants_merge_and_a_gap_keeps_them_apart() {
        assert_eq!(union(&[("a", ""), ("a\0", "")]).0.len(), 1);
        assert_eq!(union(&[("a", "b"), ("b", "c")]).0.len(), 1);
        assert_eq!(union(&[("a", ""), ("b", "c")]).0.len(), 2);
        assert_eq!(union(&[("a", "z"), ("b", "c")]), union(&[("a", "z")]));
    }

    #[test]
    fn empty_ranges_grant_nothing() {
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
    fn a_valid_permission_has_a_key_and_ends_after_it() {
        for (key, end) in [("a", ""), ("a", "b"), ("a", "\0"), ("\0", "\0"), ("a", "a\0")] {
            assert!(is_valid(key.as_bytes(), end.as_bytes()), "{key:?} {end:?}");
        }
        for (key, end) in [("", ""), ("", "a"), ("", "\0"), ("a", "a"), ("b", "a"), ("b", "\0\0")] {
            assert!(!is_valid(key.as_bytes(), end.as_bytes()), "{key:?} {end:?}");
        }
    }
}
