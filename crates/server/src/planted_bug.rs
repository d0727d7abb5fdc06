//! Mistakes on purpose, to see that the simulation finds them. There are none without the feature `planted`, and none with it until one is planted.
//!
//! It is planted for a thread, since a simulated cluster has one and others run beside it.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// What is not durable yet is acknowledged.
    AcknowledgeBeforeSync,
    /// The applied index does not become durable with what was applied.
    SkipAppliedIndex,
    /// A leader reads without asking whether it still is one.
    ReadWithoutQuorum,
    /// Watchers are not told of some revisions.
    DropEvents,
    /// Leases expire before their time.
    ExpireEarly,
    /// No lease expires.
    NeverExpire,
    /// Watchers that are behind stay so.
    NeverCatchUp,
    /// For whom a member has voted is not written down.
    ForgetVote,
    /// What a snapshot says of who votes is passed over.
    SkipConfState,
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::PlantedBug;

    thread_local! {
        static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) };
    }

    /// Has the members of this thread make a mistake from now on, or none.
    pub fn plant(mistake: Option<PlantedBug>) {
        PLANTED.set(mistake);
    }

    pub(crate) fn is_planted(mistake: PlantedBug) -> bool {
        PLANTED.get() == Some(mistake)
    }
}

#[cfg(feature = "planted")]
pub(crate) use switch::is_planted;
#[cfg(feature = "planted")]
pub use switch::plant;

/// Whether a mistake is to be made.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is_planted(_: PlantedBug) -> bool {
    false
}
