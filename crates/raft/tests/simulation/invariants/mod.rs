//! The invariants, one file per idea.
//!
//! | file | invariant |
//! | --- | --- |
//! | `elections` | one leader per term; one vote per member and term, across restarts |
//! | `logs` | logs that share an entry share all entries before it |
//! | `commits` | committed entries are durable on a quorum, immutable, and in every later log |
//! | `state_machines` | all members apply the same entries in the same order |
//! | `configurations` | all members apply the same configurations, one safe step at a time |
//! | `reads` | a read reflects everything committed when it was requested |
//! | `positions` | term, commit and applied index never decrease while a member runs |
//!
//! The checks are incremental: each examines what the last step changed. They see the whole
//! cluster, including state that no member could know, such as all disks.

mod commits;
mod configurations;
mod elections;
mod logs;
mod positions;
mod reads;
mod state_machines;

pub(crate) use commits::Commits;
pub(crate) use configurations::Configurations;
pub(crate) use elections::Elections;
pub(crate) use logs::{LogMatching, LogView};
pub(crate) use positions::check_positions;
pub(crate) use reads::Reads;
pub(crate) use state_machines::StateMachines;

use std::fmt;

/// The checked invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// At most one leader per term.
    ElectionSafety,
    /// At most one vote per member and term, across crashes.
    OneVotePerTerm,
    /// Equal index and term imply the same entry and the same log before it.
    LogMatching,
    /// Committed entries never change.
    CommittedIsImmutable,
    /// Committed entries are durable on a quorum.
    CommittedIsDurable,
    /// A new leader has all committed entries.
    LeaderCompleteness,
    /// Members that have applied the same index are in the same state.
    StateMachineSafety,
    /// Applied entries are durable on the member that applied them.
    AppliedIsDurable,
    /// All members have the same configuration at an index, with safe steps in between.
    ConfigurationSafety,
    /// Reads reflect everything committed before them.
    LinearizableReads,
    /// Terms and positions never decrease while a member runs.
    MonotonicPositions,
    /// Messages of members are never refused as malformed.
    NoMessageRefused,
    /// Encoding and decoding preserves a message.
    WireRoundTrip,
    /// A member can start from its own disk.
    Recovery,
    /// The core never panics.
    NoPanic,
    /// Once the faults end, the cluster makes progress.
    Progress,
}

/// A violated invariant with its details.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.detail)
    }
}

/// The result of a check, or of an operation that includes checks.
pub(crate) type Check<T = ()> = Result<T, Violation>;

/// Returns a violation unless `holds`; the detail is only built in that case.
pub(crate) fn ensure(holds: bool, invariant: Invariant, detail: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Violation { invariant, detail: detail() }) }
}

/// The invariants across members.
#[derive(Default)]
pub(crate) struct Invariants {
    pub(crate) elections: Elections,
    pub(crate) logs: LogMatching,
    pub(crate) commits: Commits,
    pub(crate) state_machines: StateMachines,
    pub(crate) configurations: Configurations,
    pub(crate) reads: Reads,
}
