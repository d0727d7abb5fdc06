//! Counters of what a run exercised: a simulation in which nothing happens proves nothing.

simkit::counters! {
    /// Counters of one run or many.
    pub(crate) struct Totals {
        seeds: "seeds",
        events: "events",
        committed: "entries committed",
        elections: "elections won",
        crashes: "crashes",
        restarts: "restarts",
        lost_writes: "unsynced writes lost",
        partitions: "partitions",
        messages: "messages delivered",
        dropped: "messages lost",
        duplicated: "messages duplicated",
        encoded: "messages encoded and decoded",
        asynchronous: "incarnations with asynchronous storage",
        synchronous: "incarnations with synchronous storage",
        membership: "conf changes applied",
        joint: "joint configurations entered",
        refused_changes: "conf changes refused when applied",
        joined: "members joined",
        snapshots_made: "snapshots made",
        snapshots_sent: "snapshots sent",
        snapshots_restored: "snapshots restored",
        reads_requested: "reads requested",
        reads_answered: "reads answered",
        proposals: "proposals accepted",
        proposals_dropped: "proposals dropped",
        transfers: "transfers requested",
        campaigns: "campaigns forced",
        commit_indexes_set: "commit indexes set by the operator",
    }
}
