//! What must be true at every moment, a file for each idea.
//!
//! | file | what it watches |
//! | --- | --- |
//! | `elections` | one leader a term; one vote a term, also over restarts |
//! | `logs` | two logs that hold the same entry hold the same entries before it |
//! | `commits` | what is committed is durable on a quorum, never changes, and every later leader has it |
//! | `state_machines` | every member applies the same entries in the same order |
//! | `configurations` | every member goes through the same configurations, one safe step at a time |
//! | `reads` | a read sees everything that was committed when it was asked for |
//! | `positions` | terms, commit and applied indexes never go back while a member runs |
//!
//! The checks are incremental: each looks at what the last step changed. They know the whole cluster, also
//! what no member could know, such as all disks.

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

/// What can be violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// At most one leader a term.
    ElectionSafety,
    /// At most one vote a term and member, whatever happens to it.
    OneVoteATerm,
    /// Same index and term, same entry and same history.
    LogMatching,
    /// Committed entries stay as they are.
    CommittedIsForEver,
    /// Committed entries are durable on a quorum.
    CommittedIsDurable,
    /// A new leader has everything committed.
    LeaderCompleteness,
    /// Same index applied, same entry and same state.
    StateMachineSafety,
    /// Applied entries are durable on the member that applied them.
    AppliedIsDurable,
    /// Same configuration at the same index, and safe steps between them.
    ConfigurationSafety,
    /// Reads see what was committed before them.
    LinearizableReads,
    /// Terms and positions do not go back while a member runs.
    MonotonicPositions,
    /// What a member sends is never refused as malformed.
    NothingRefused,
    /// Encoding and decoding gives the message back.
    WireRoundTrip,
    /// A member starts from what its own disk kept.
    Recovery,
    /// The core never panics.
    NoPanic,
    /// Once the faults end, the cluster makes progress.
    Progress,
}

/// An invariant that does not hold, and how that showed.
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

/// The outcome of a check, or of anything that checks on its way.
pub(crate) type Check<T = ()> = Result<T, Violation>;

/// Fails with a violation unless `holds`; the detail is only written then.
pub(crate) fn ensure(holds: bool, invariant: Invariant, detail: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Violation { invariant, detail: detail() }) }
}

/// Everything that is watched across members.
#[derive(Default)]
pub(crate) struct Invariants {
    pub(crate) elections: Elections,
    pub(crate) logs: LogMatching,
    pub(crate) commits: Commits,
    pub(crate) state_machines: StateMachines,
    pub(crate) configurations: Configurations,
    pub(crate) reads: Reads,
}
