//! The order of permissions with equal keys.
//!
//! etcd appends a permission to a role and sorts the permissions by key with Go's unstable sort.
//! The order of equal keys is visible in the database and decides which permission a later grant
//! finds ([`grant`](crate::roles)), so every member has to arrive at the same order. Go's sort does
//! this to a list that is sorted except for its last item:
//!
//! | length | effect |
//! | --- | --- |
//! | up to 12, and from 50 on | the last item moves before all greater ones (stable) |
//! | 13 to 49 | nothing if the list is sorted; otherwise a quicksort, with its swaps |
//!
//! The quicksort, `pdqsort`, takes the median of three items as its pivot, sorts up to 12 items by
//! insertion, gathers items that equal the previous pivot, and after an unbalanced split swaps
//! three items for others at positions from a fixed pseudo-random sequence.

use std::ops::Range;

/// The longest list that is sorted by insertion.
const INSERTION_MAX: usize = 12;
/// The shortest list that Go repairs by insertion if it is nearly sorted.
const REPAIR_MIN: usize = 50;

/// Sorts a list that is sorted except for its last item, as Go does.
pub(crate) fn sort_appended<T, K: Ord + ?Sized>(items: &mut [T], key: impl Fn(&T) -> &K) {
    let less = |one: &T, other: &T| key(one) < key(other);
    match items.len() {
        0..=INSERTION_MAX | REPAIR_MIN.. => insertion(items, &less),
        len => Quicksort { items, less: &less }.sort(0..len),
    }
}

fn insertion<T>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && less(&items[at], &items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// The sort of a list of medium length. Spans are ranges of one list, because a span compares with
/// the item before it.
struct Quicksort<'a, T, L> {
    items: &'a mut [T],
    less: &'a L,
}

impl<T, L: Fn(&T, &T) -> bool> Quicksort<'_, T, L> {
    fn sort(&mut self, mut span: Range<usize>) {
        let (mut balanced, mut untouched) = (true, true);
        while span.len() > INSERTION_MAX {
            if !balanced {
                self.scatter(&span);
            }
            let (pivot, in_order) = self.pivot(&span);
            if balanced && untouched && in_order && self.is_sorted(&span) {
                return;
            }
            if span.start > 0 && !self.is_less(span.start - 1, pivot) {
                span.start = self.gather_equal(&span, pivot);
                continue;
            }
            let (middle, moved) = self.split(&span, pivot);
            untouched = !moved;
            let (left, right) = (span.start..middle, middle + 1..span.end);
            balanced = left.len().min(span.end - middle) >= span.len() / 8;
            // Recurse into the shorter side and continue with the longer one.
            span = if left.len() < span.end - middle {
                self.sort(left);
                right
            } else {
                self.sort(right);
                left
            };
        }
        insertion(&mut self.items[span], self.less);
    }

    fn is_less(&self, one: usize, other: usize) -> bool {
        (self.less)(&self.items[one], &self.items[other])
    }

    fn is_sorted(&self, span: &Range<usize>) -> bool {
        (span.start + 1..span.end).all(|at| !self.is_less(at, at - 1))
    }

    /// Returns the median of the items at one, two and three quarters, and whether they were in
    /// order.
    fn pivot(&self, span: &Range<usize>) -> (usize, bool) {
        let quarter = span.len() / 4;
        let mut positions = [1, 2, 3].map(|quarters| span.start + quarters * quarter);
        let mut in_order = true;
        for (one, other) in [(0, 1), (1, 2), (0, 1)] {
            if self.is_less(positions[other], positions[one]) {
                positions.swap(one, other);
                in_order = false;
            }
        }
        (positions[1], in_order)
    }

    /// Moves items less than the pivot before it, and the others after. Returns the position of the
    /// pivot, and whether anything moved.
    fn split(&mut self, span: &Range<usize>, pivot: usize) -> (usize, bool) {
        let first = span.start;
        self.items.swap(first, pivot);
        // Items before `low` are less than the pivot; items from `high` on are not.
        let (mut low, mut high, mut moved) = (first + 1, span.end, false);
        loop {
            while low < high && self.is_less(low, first) {
                low += 1;
            }
            while low < high && !self.is_less(high - 1, first) {
                high -= 1;
            }
            if low >= high {
                break;
            }
            self.items.swap(low, high - 1);
            (low, high, moved) = (low + 1, high - 1, true);
        }
        self.items.swap(high - 1, first);
        (high - 1, moved)
    }

    /// Moves items equal to the pivot, the smallest of the span, to the front. Returns where the
    /// others begin.
    fn gather_equal(&mut self, span: &Range<usize>, pivot: usize) -> usize {
        let first = span.start;
        self.items.swap(first, pivot);
        let (mut low, mut high) = (first + 1, span.end);
        loop {
            while low < high && !self.is_less(first, low) {
                low += 1;
            }
            while low < high && self.is_less(first, high - 1) {
                high -= 1;
            }
            if low >= high {
                return low;
            }
            self.items.swap(low, high - 1);
            (low, high) = (low + 1, high - 1);
        }
    }

    /// Swaps the three items in the middle with pseudo-random ones.
    fn scatter(&mut self, span: &Range<usize>) {
        let mut drawn = span.len() as u64;
        let mask = (span.len() + 1).next_power_of_two() - 1;
        let middle = span.start + span.len() / 4 * 2;
        for at in middle - 1..=middle + 1 {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            #[expect(clippy::cast_possible_truncation, reason = "it is masked to below 64")]
            let other = drawn as usize & mask;
            let other = if other >= span.len() { other - span.len() } else { other };
            self.items.swap(at, span.start + other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys in the order in which they were appended, and their positions after Go's sort.
    const GO_ORDER: &str = include_str!("../testdata/order.txt");

    #[test]
    fn equal_keys_are_ordered_as_by_gos_sort() {
        let mut unstable = 0;
        for line in GO_ORDER.lines() {
            let (keys, expected) = line.split_once('=').unwrap();
            let numbers = |text: &str| -> Vec<usize> {
                text.split_whitespace().map(|number| number.parse().unwrap()).collect()
            };
            let mut items: Vec<(usize, usize)> = Vec::new();
            for (position, key) in numbers(keys).into_iter().enumerate() {
                items.push((key, position));
                sort_appended(&mut items, |(key, _)| key);
            }
            let found: Vec<usize> = items.iter().map(|(_, position)| *position).collect();
            assert_eq!(found, numbers(expected), "{line}");
            unstable += usize::from(!items.is_sorted());
        }
        assert!(unstable > 10, "only {unstable} lists show the difference to a stable sort");
    }
}
