//! Property tests of what a leader tracks per member: the window of appends in flight, and the
//! progress through probing, replication and snapshots.

use proptest::collection::vec;
use proptest::prelude::*;
use raft::tracker::{Inflights, Progress, ProgressState};
use types::Index;

/// An operation on a window.
#[derive(Clone, Debug)]
enum WindowOp {
    /// Sends an append of this many entries and bytes, if the window is not full.
    Send {
        entries: u64,
        bytes: u64,
    },
    /// Acknowledges up to this distance from the last sent index.
    Free {
        behind: u64,
    },
    Reset,
}

fn window_op() -> impl Strategy<Value = WindowOp> {
    prop_oneof![
        6 => (1..4u64, 0..50u64).prop_map(|(entries, bytes)| WindowOp::Send { entries, bytes }),
        2 => (0..12u64).prop_map(|behind| WindowOp::Free { behind }),
        1 => Just(WindowOp::Reset),
    ]
}

/// The appends in flight, each with its last index and bytes.
struct WindowModel {
    sent: Vec<(Index, u64)>,
    max_messages: usize,
    max_bytes: u64,
}

impl WindowModel {
    fn is_full(&self) -> bool {
        let bytes: u64 = self.sent.iter().map(|(_, bytes)| bytes).sum();
        let too_many_bytes = self.max_bytes != 0 && bytes >= self.max_bytes;
        self.sent.len() >= self.max_messages || too_many_bytes
    }
}

proptest! {
    #[test]
    fn the_window_equals_its_model(
        max_messages in 1..8usize,
        max_bytes in prop_oneof![Just(0u64), 1..150u64],
        ops in vec(window_op(), 0..60),
    ) {
        let mut window = Inflights::new(max_messages, max_bytes);
        let mut model = WindowModel { sent: Vec::new(), max_messages, max_bytes };
        let mut last = Index::ZERO;
        for op in ops {
            match op {
                WindowOp::Send { entries, bytes } if !model.is_full() => {
                    last += entries;
                    window.add(last, bytes);
                    model.sent.push((last, bytes));
                }
                WindowOp::Send { .. } => {}
                WindowOp::Free { behind } => {
                    let acked = Index(last.0.saturating_sub(behind));
                    window.free_le(acked);
                    model.sent.retain(|(index, _)| *index > acked);
                }
                WindowOp::Reset => {
                    window.reset();
                    model.sent.clear();
                }
            }
            prop_assert_eq!(window.count(), model.sent.len());
            prop_assert_eq!(window.is_full(), model.is_full());
        }
        window.free_le(Index::MAX);
        prop_assert_eq!(window.count(), 0);
        prop_assert!(!window.is_full(), "bytes were not released");
    }
}

#[test]
fn an_append_larger_than_the_byte_limit_is_sent_alone() {
    let mut window = Inflights::new(8, 100);
    window.add(Index(1), 1000);
    assert!(window.is_full());
    window.free_le(Index(1));
    assert!(!window.is_full());
}

#[test]
#[should_panic(expected = "full window")]
fn adding_to_a_full_window_panics() {
    let mut window = Inflights::new(1, 0);
    window.add(Index(1), 1);
    window.add(Index(2), 1);
}

/// An operation between a leader and a member. Numbers are limited to valid values.
#[derive(Clone, Copy, Debug)]
enum ProgressOp {
    /// The leader's log grows.
    Grow(u64),
    /// The leader sends what fits, if it may.
    Send {
        entries: usize,
        bytes: u64,
    },
    /// The member acknowledges an index; see `record_ack` in the core.
    Accept(u64),
    /// The member rejects the append after an index, with a hint.
    Refuse {
        rejected: u64,
        hint: u64,
    },
    /// The member's next entry is compacted, and the leader sends a snapshot.
    SendSnapshot {
        covers: u64,
    },
    /// The transport reports the result of sending the snapshot.
    SnapshotReport {
        arrived: bool,
    },
    Unreachable,
    HeartbeatAnswered,
}

fn progress_op() -> impl Strategy<Value = ProgressOp> {
    use ProgressOp::*;
    prop_oneof![
        2 => (1..5u64).prop_map(Grow),
        6 => (0..4usize, 0..40u64).prop_map(|(entries, bytes)| Send { entries, bytes }),
        4 => (0..40u64).prop_map(Accept),
        3 => (0..40u64, 0..60u64).prop_map(|(rejected, hint)| Refuse { rejected, hint }),
        // Only a rejection of the last append counts.
        2 => (0..60u64).prop_map(|hint| Refuse { rejected: u64::MAX, hint }),
        1 => (0..40u64).prop_map(|covers| SendSnapshot { covers }),
        1 => any::<bool>().prop_map(|arrived| SnapshotReport { arrived }),
        1 => Just(Unreachable),
        2 => Just(HeartbeatAnswered),
    ]
}

/// The progress of a member with the last index of its leader.
struct TrackedMember {
    progress: Progress,
    last: Index,
}

impl TrackedMember {
    fn apply(&mut self, op: ProgressOp) {
        let progress = &mut self.progress;
        match op {
            ProgressOp::Grow(entries) => self.last += entries,
            ProgressOp::Send { entries, bytes } => self.send(entries, bytes),
            ProgressOp::Accept(index) => self.accept(Index(index).min(self.last)),
            ProgressOp::Refuse { rejected, hint } => {
                let rejected = Index(rejected).min(progress.next.prev());
                let decreased = progress.maybe_decrease_to(rejected, Index(hint));
                if decreased && progress.state == ProgressState::Replicate {
                    progress.become_probe();
                }
            }
            ProgressOp::SendSnapshot { covers } => {
                // The snapshot covers everything compacted.
                let pending = Index(covers).max(progress.next).min(self.last);
                if !progress.is_paused() && pending >= progress.next {
                    progress.become_snapshot(pending);
                }
            }
            ProgressOp::SnapshotReport { arrived } => {
                if matches!(progress.state, ProgressState::Snapshot { .. }) {
                    if arrived {
                        progress.become_probe();
                    } else {
                        progress.become_probe_after_failed_snapshot();
                    }
                    progress.append_paused = true;
                }
            }
            ProgressOp::Unreachable if progress.state == ProgressState::Replicate => {
                progress.become_probe();
            }
            ProgressOp::Unreachable => {}
            ProgressOp::HeartbeatAnswered => progress.append_paused = false,
        }
    }

    fn send(&mut self, entries: usize, bytes: u64) {
        let progress = &mut self.progress;
        if progress.is_paused() {
            return;
        }
        let throttled = progress.state == ProgressState::Replicate && progress.inflights.is_full();
        let available = (progress.next.0..=self.last.0).count();
        let entries = if throttled { 0 } else { entries.min(available) };
        progress.sent_entries(entries, bytes);
    }

    fn accept(&mut self, acked: Index) {
        let progress = &mut self.progress;
        let news = progress.maybe_update(acked);
        let confirms = progress.matched == acked && progress.state == ProgressState::Probe;
        if !news && !confirms {
            return;
        }
        match progress.state {
            ProgressState::Probe => progress.become_replicate(),
            ProgressState::Replicate => progress.inflights.free_le(acked),
            ProgressState::Snapshot { pending } if acked >= pending => {
                progress.become_probe();
                progress.become_replicate();
            }
            ProgressState::Snapshot { .. } => {}
        }
    }

    fn check(&self, matched_before: Index) -> Result<(), TestCaseError> {
        let TrackedMember { progress, last } = self;
        prop_assert!(progress.matched >= matched_before, "the match index decreased");
        prop_assert!(progress.matched < progress.next, "{progress}");
        prop_assert!(progress.next <= last.next(), "{progress} beyond {last}");
        prop_assert!(progress.inflights.count() <= WINDOW);
        match progress.state {
            ProgressState::Probe => prop_assert_eq!(progress.inflights.count(), 0),
            ProgressState::Replicate => {}
            ProgressState::Snapshot { pending } => {
                prop_assert!(progress.is_paused());
                prop_assert!(pending <= *last);
            }
        }
        Ok(())
    }
}

/// Messages in flight to the member.
const WINDOW: usize = 4;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_match_index_stays_below_the_next_index(
        last in 0..20u64,
        max_bytes in prop_oneof![Just(0u64), 1..100u64],
        ops in vec(progress_op(), 0..60),
    ) {
        let inflights = Inflights::new(WINDOW, max_bytes);
        let progress = Progress::new(Index(last).next(), inflights, false);
        let mut led = TrackedMember { progress, last: Index(last) };
        for op in ops {
            let matched = led.progress.matched;
            led.apply(op);
            led.check(matched)?;
        }
    }
}
