//! What was exercised: a simulation in which nothing happens proves nothing.

use std::fmt;

/// Declares counters with the words they are reported by.
macro_rules! totals {
    ($($name:ident: $label:literal,)*) => {
        /// Counters of one run, or of many.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Totals {
            $(pub(crate) $name: u64,)*
        }

        impl Totals {
            pub(crate) fn add(&mut self, other: &Totals) {
                $(self.$name += other.$name;)*
            }

            /// Every counter with its field and what it counts.
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
    doubled: "messages doubled",
    encoded: "messages through the wire form",
    asynchronous: "lives with asynchronous storage",
    classic: "lives with synchronous storage",
    membership: "membership changes in force",
    joint: "joint configurations entered",
    refused_changes: "membership changes refused when applied",
    joined: "members joined",
    snapshots_made: "snapshots made",
    snapshots_sent: "snapshots sent",
    snapshots_restored: "snapshots restored",
    reads_asked: "reads asked for",
    reads_answered: "reads answered",
    proposals: "proposals taken",
    proposals_dropped: "proposals dropped",
    transfers: "transfers asked for",
    campaigns: "campaigns forced",
    helped: "members told what they had committed",
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all().iter().try_for_each(|(_, label, count)| writeln!(f, "  {count:>10} {label}"))
    }
}
