//! Planted bugs, which the simulation must find. They exist only with the feature `planted`, and
//! none is active until it is planted.
//!
//! A bug is planted for the current thread, because each simulated cluster has a thread of its own.

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// The log writer acknowledges entries before the sync.
    AcknowledgeBeforeSync,
    /// The applied index is not written with the changes of an entry.
    SkipAppliedIndex,
    /// A leader reads without a confirmation by a quorum.
    ReadWithoutQuorum,
    /// Watchers miss the events of some revisions.
    DropEvents,
    /// Leases expire too early.
    ExpireEarly,
    /// Leases never expire.
    NeverExpire,
    /// Unsynced watchers never catch up.
    NeverCatchUp,
    /// The vote is not written to the log.
    ForgetVote,
    /// The configuration in a snapshot is ignored.
    SkipConfState,
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::PlantedBug;

    thread_local! {
        static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) };
    }

    /// Plants a bug in the members of this thread, or none.
    pub fn plant(bug: Option<PlantedBug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is_planted(bug: PlantedBug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub(crate) use switch::is_planted;
#[cfg(feature = "planted")]
pub use switch::plant;

/// Returns whether a bug is planted.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is_planted(_: PlantedBug) -> bool {
    false
}
