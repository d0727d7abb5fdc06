//! Call stacks with counters, before their addresses are resolved.

use std::collections::{BTreeSet, HashMap};

/// The most distinct stacks of a profile. More are counted as lost.
pub(crate) const STACKS_MAX: usize = 1 << 16;

/// A call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Stack {
    /// An address within each call, innermost first.
    pub(crate) addresses: Vec<u64>,
    /// The name of the thread; empty if it does not matter.
    pub(crate) thread: String,
}

/// Counters by call stack; `N` is the number of counters.
#[derive(Clone, Debug)]
pub(crate) struct StackCounts<const N: usize> {
    counts: HashMap<Stack, [i64; N]>,
    lost: u64,
}

impl<const N: usize> Default for StackCounts<N> {
    fn default() -> Self {
        StackCounts { counts: HashMap::new(), lost: 0 }
    }
}

impl<const N: usize> StackCounts<N> {
    /// Adds to the counters of a stack.
    pub(crate) fn add(&mut self, stack: Stack, counts: [i64; N]) {
        if self.counts.len() >= STACKS_MAX && !self.counts.contains_key(&stack) {
            self.lost += 1;
            return;
        }
        let sum = self.counts.entry(stack).or_insert([0; N]);
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }

    /// Counts samples that were lost before they could be added.
    pub(crate) fn add_lost(&mut self, lost: u64) {
        self.lost += lost;
    }

    /// Returns a remark about lost samples, if there are any.
    pub(crate) fn lost_comment(&self) -> Option<String> {
        (self.lost > 0).then(|| format!("{} samples were lost", self.lost))
    }

    /// Returns the sum of the counters over all stacks.
    pub(crate) fn total(&self) -> [i64; N] {
        let mut total = [0_i64; N];
        for counts in self.counts.values() {
            total.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        }
        total
    }

    /// Subtracts earlier counters, and drops the stacks that did not change.
    pub(crate) fn subtract(&mut self, earlier: StackCounts<N>) {
        for (stack, counts) in earlier.counts {
            self.add(stack, counts.map(i64::saturating_neg));
        }
        self.counts.retain(|_, counts| counts.iter().any(|count| *count != 0));
    }

    /// Returns all addresses of all stacks.
    pub(crate) fn addresses(&self) -> BTreeSet<u64> {
        self.counts.keys().flat_map(|stack| stack.addresses.iter().copied()).collect()
    }

    /// Returns the stacks, those with the highest first counter first.
    pub(crate) fn sorted(&self) -> Vec<(&Stack, &[i64; N])> {
        let mut stacks: Vec<_> = self.counts.iter().collect();
        stacks.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        stacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(addresses: &[u64]) -> Stack {
        Stack { addresses: addresses.to_vec(), thread: String::new() }
    }

    #[test]
    fn equal_stacks_are_counted_together() {
        let mut counts = StackCounts::default();
        counts.add(stack(&[1, 2]), [1, 10]);
        counts.add(stack(&[3]), [5, 50]);
        counts.add(stack(&[1, 2]), [2, 20]);
        assert_eq!(counts.sorted(), [(&stack(&[3]), &[5, 50]), (&stack(&[1, 2]), &[3, 30])]);
        assert_eq!(counts.total(), [8, 80]);
    }

    #[test]
    fn the_difference_has_only_stacks_that_changed() {
        let mut earlier = StackCounts::default();
        earlier.add(stack(&[1]), [5]);
        earlier.add(stack(&[2]), [5]);
        let mut later = earlier.clone();
        later.add(stack(&[1]), [2]);
        later.subtract(earlier);
        assert_eq!(later.sorted(), [(&stack(&[1]), &[2])]);
    }

    #[test]
    fn stacks_beyond_the_bound_are_counted_as_lost() {
        let mut counts = StackCounts::default();
        for address in 0..STACKS_MAX as u64 + 3 {
            counts.add(stack(&[address]), [1]);
        }
        counts.add(stack(&[0]), [1]);
        assert_eq!(counts.sorted().len(), STACKS_MAX);
        assert_eq!(counts.lost_comment().as_deref(), Some("3 samples were lost"));
        assert_eq!(counts.total(), [STACKS_MAX as i64 + 1]);
    }
}
