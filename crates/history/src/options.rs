//! Facts about the store that a history does not contain.

/// Facts about the store that a history does not contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The time by which a lease may expire early: the lead that a member's clock may have over
    /// the clock of the history.
    pub lease_slack_ns: u64,
    /// Whether the store enforces permissions; a watch may then be canceled for lack of one.
    pub has_permissions: bool,
    /// Whether the store compacts automatically.
    pub auto_compaction: bool,
}
