//! Counters of what a run exercised: a simulation in which nothing happens proves nothing.

use std::fmt;

/// Declares counters with their labels.
macro_rules! totals {
    ($($name:ident: $label:literal,)*) => {
        /// Counters of one run or many.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Totals {
            $(pub(crate) $name: u64,)*
        }

        impl Totals {
            pub(crate) fn add(&mut self, other: &Totals) {
                $(self.$name += other.$name;)*
            }

            /// Returns every counter with its name and label.
            pub(crate) fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $label, self.$name),)*]
            }
        }
    };
}

totals! {
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
    doubled: "messages duplicated",
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
    reads_asked: "reads requested",
    reads_answered: "reads answered",
    proposals: "proposals accepted",
    proposals_dropped: "proposals dropped",
    transfers: "transfers requested",
    campaigns: "campaigns forced",
    helped: "commit indexes set by the operator",
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all().iter().try_for_each(|(_, label, count)| writeln!(f, "  {count:>10} {label}"))
    }
}
