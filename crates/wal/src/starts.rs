//! From where the log could be replayed if the power went now.
//!
//! ```text
//!  records    snapshot{0} e1 .. e20 state{commit 5}  snapshot{18}             valid 0, waiting 18
//!                                                                 state{18}   durable: valid 18
//! ```
//!
//! A reader starts at the last snapshot record that the last commit index covers. A snapshot ahead of that is no start:
//! nothing in the log says yet that what it stands for was committed. It waits for a state that says so and that
//! survives a power cut. Until then the start before is needed, with all segments from there on.

/// The snapshots that a reader may start from, by index.
#[derive(Debug)]
pub(crate) struct Starts {
    /// The last that a durable state covers.
    valid: u64,
    /// Those behind it in the log, each at a higher index than the one before. Few: a member takes no snapshot of what is
    /// not committed, and a leader's comes with its state.
    waiting: Vec<u64>,
}

impl Starts {
    /// A log that can be replayed from an index.
    pub(crate) fn new(valid: u64) -> Starts {
        Starts { valid, waiting: Vec::new() }
    }

    /// The log has a snapshot at this index, behind all others.
    pub(crate) fn add(&mut self, index: u64) {
        // Whatever state covers a later index covers this one too, and this one is the last.
        while self.waiting.pop_if(|later| *later >= index).is_some() {}
        self.waiting.push(index);
    }

    /// All that was added is durable, and so is a state with this commit index.
    pub(crate) fn confirm(&mut self, commit: u64) {
        let covered = self.waiting.partition_point(|&index| index <= commit);
        self.valid = self.waiting.drain(..covered).next_back().unwrap_or(self.valid);
    }

    /// Where a reader starts, at least.
    pub(crate) fn valid(&self) -> u64 {
        self.valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_counts_once_a_state_covers_it() {
        let mut starts = Starts::new(3);
        [9, 18, 30].into_iter().for_each(|index| starts.add(index));
        assert_eq!(starts.valid(), 3);
        for (commit, valid) in [(8, 3), (9, 9), (29, 18), (u64::MAX, 30)] {
            starts.confirm(commit);
            assert_eq!(starts.valid(), valid, "commit {commit}");
        }
    }

    #[test]
    fn the_last_record_is_the_start_and_not_the_highest() {
        let mut starts = Starts::new(0);
        [9, 18, 12].into_iter().for_each(|index| starts.add(index));
        for (commit, valid) in [(11, 9), (20, 12)] {
            starts.confirm(commit);
            assert_eq!(starts.valid(), valid, "commit {commit}");
        }
    }
}
