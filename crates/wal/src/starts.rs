//! Snapshots from which the log can be replayed after a power cut.
//!
//! ```text
//!  records    snapshot{0} e1 .. e20 state{commit 5}  snapshot{18}          valid 0, uncovered 18
//!                                                                 state{18}  durable: valid 18
//! ```
//!
//! A reader starts at the last snapshot record that the last commit index covers. A snapshot ahead
//! of it is not valid yet: nothing in the log proves that its index was committed. It becomes valid
//! with a durable state whose commit index covers it. Until then, the previous snapshot and all
//! segments from there on are needed.

/// Indexes of the snapshots that a reader may start from.
#[derive(Debug)]
pub(crate) struct ReplayStarts {
    /// The last snapshot that a durable state covers.
    valid: u64,
    /// Later snapshots in the log, with ascending indexes. There are few: a member takes no
    /// snapshot of uncommitted entries, and a leader's snapshot comes with its state.
    uncovered: Vec<u64>,
}

impl ReplayStarts {
    /// Creates the starts of a log that can be replayed from an index.
    pub(crate) fn new(valid: u64) -> ReplayStarts {
        ReplayStarts { valid, uncovered: Vec::new() }
    }

    /// Adds a snapshot, which follows all others in the log.
    pub(crate) fn add(&mut self, index: u64) {
        // A state that covers a later index covers this one too, and this record comes last.
        while self.uncovered.pop_if(|later| *later >= index).is_some() {}
        self.uncovered.push(index);
    }

    /// Records that all added snapshots and a state with this commit index are durable.
    pub(crate) fn confirm(&mut self, commit: u64) {
        let covered = self.uncovered.partition_point(|&index| index <= commit);
        self.valid = self.uncovered.drain(..covered).next_back().unwrap_or(self.valid);
    }

    /// Index of the snapshot at which a reader starts, at the least.
    pub(crate) fn valid(&self) -> u64 {
        self.valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_valid_once_a_state_covers_it() {
        let mut starts = ReplayStarts::new(3);
        [9, 18, 30].into_iter().for_each(|index| starts.add(index));
        assert_eq!(starts.valid(), 3);
        for (commit, valid) in [(8, 3), (9, 9), (29, 18), (u64::MAX, 30)] {
            starts.confirm(commit);
            assert_eq!(starts.valid(), valid, "commit {commit}");
        }
    }

    #[test]
    fn the_start_is_the_last_record_not_the_highest_index() {
        let mut starts = ReplayStarts::new(0);
        [9, 18, 12].into_iter().for_each(|index| starts.add(index));
        for (commit, valid) in [(11, 9), (20, 12)] {
            starts.confirm(commit);
            assert_eq!(starts.valid(), valid, "commit {commit}");
        }
    }
}
