//! What a checker needs to know of the store, beyond the history.

/// What a checker needs to know of the store, beyond the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// By how much a lease may expire before its time: how far the clock of a member may run ahead of that of the history.
    pub lease_slack_ns: u64,
    /// Whether some may not read everything: then a watch may end for that reason.
    pub has_permissions: bool,
    /// Whether the store compacts without being asked.
    pub auto_compaction: bool,
}
