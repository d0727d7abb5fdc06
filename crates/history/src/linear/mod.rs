//! Linearizability: the search for one order of operations that explains every response.
//!
//! A history is *linearizable* if each operation can be assigned an instant between its invocation
//! and its response so that a store that executes the operations in the order of these instants
//! returns exactly the recorded responses. Finding such an order is NP-complete in general. Here
//! nearly every response carries the revision of the store, which fixes most of the order: the
//! write of revision 5 follows the write of revision 4, and a read at revision 5 lies between the
//! writes of 5 and 6. What remains is to verify the responses and to explain *holes*: revisions
//! that no response claims to have written.
//!
//! ```text
//! client 1   |- put a="1" → 2 -|                |- put a="3" → 4 -|
//! client 2         |- put a="2" → timeout                                   an unknown write
//! client 3                       |- read a → "2" (mod 3), at 3 -|           revision 3 is a hole
//! client 4                                       |- read b → none, at 4 -|
//!
//! revision   writer                       observations of the state after it
//!        2   client 1: put a="1"
//!        3   hole, filled by client 2:    client 3: a="2" (mod 3)
//!            put a="2"
//!        4   client 1: put a="3"          client 4: b does not exist
//!
//! order: put a="1", put a="2", read a, put a="3", read b
//! ```
//!
//! A hole is filled by an *unknown write* (a write whose client never learned the outcome), or by
//! the expiry of a lease. Where several candidates fit, the search tries one and backtracks if a
//! later observation contradicts it. Three facts about the history prune the candidates before and
//! during the search:
//!
//! - *constraints*: a read of `a` at version 4, modified at revision 7, excludes every change of
//!   `a` between 7 and the revision of the read ([`constraints`]);
//! - *version bounds*: the version of a key counts its puts, so it limits how many holes may put
//!   that key ([`version_bounds`]);
//! - *conflicts*: a failure depends on few keys and few writes, and the search jumps back to the
//!   last choice that involves one of them ([`conflict`]).
//!
//! The search relies on two properties of revisions and checks both: no two writes claim the same
//! revision ([`revision_table`]), and revisions agree with real time ([`timeline`]).
//!
//! Reading order: [`timeline`], [`revision_table`], [`footprint`], [`constraints`], [`leases`],
//! [`compactions`], [`unknown_writes`], [`version_bounds`], [`conflict`], [`observable`],
//! [`search`], [`holes`], [`observations`].

mod compactions;
mod conflict;
mod constraints;
mod footprint;
mod holes;
mod leases;
mod observable;
mod observations;
mod revision_table;
mod search;
mod timeline;
mod unknown_writes;
mod version_bounds;

use constraints::Constraints;
use footprint::LeasedKeys;
use leases::Leases;
use revision_table::RevisionTable;
use search::{NoOrder, Search, SearchInput};
use timeline::Timeline;
use unknown_writes::UnknownWrites;
use version_bounds::VersionBounds;

use crate::log::Log;
use crate::options::Options;
use crate::record::History;
use crate::violation::Violation;
use crate::watch::Coverage;

/// Finds an order that explains all responses and, if possible, all watches.
///
/// The first search must agree with every watch. If it fails, the search is repeated without the
/// watch that contradicts it, and finally without any. A watch that was left out is then compared
/// with the order that explains everything else, and reported as wrong.
pub(crate) fn check(
    history: &History,
    options: &Options,
    mut trusted: Vec<Coverage<'_>>,
) -> Result<Log, Violation> {
    let timeline = Timeline::new(history);
    let table = RevisionTable::new(history, timeline.last_revision())?;
    timeline.check(history)?;
    let leases = Leases::new(history, &timeline, options.lease_slack_ns);
    leases.check()?;
    compactions::check(history, &timeline, options.auto_compaction)?;
    let leased = LeasedKeys::new(history);
    let search = |watches: &[Coverage<'_>]| {
        let constraints = Constraints::new(history, watches);
        let unknown_writes = UnknownWrites::new(history, &timeline, &table, &constraints, &leased);
        let version_bounds =
            VersionBounds::new(history, &table, &constraints, &leases, &unknown_writes);
        let input = SearchInput {
            history,
            timeline: &timeline,
            table: &table,
            constraints: &constraints,
            version_bounds: &version_bounds,
            leases: &leases,
            leased: &leased,
            unknown_writes: &unknown_writes,
            watches,
        };
        Search::new(input).run()
    };
    loop {
        match search(&trusted) {
            Ok(log) => return Ok(log),
            Err(no_order) if trusted.is_empty() => return Err(no_order.violation),
            Err(NoOrder { contradicting_watch: Some(i), .. }) => _ = trusted.remove(i),
            Err(NoOrder { contradicting_watch: None, .. }) => trusted.clear(),
        }
    }
}
