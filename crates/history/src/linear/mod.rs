//! Whether one order of everything explains all answers.
//!
//! A history is linearizable if every operation can be given a moment between its request and its answer, such that a store that does them
//! one after the other in that order answers just so. Finding such an order is hard in general. Here each answer carries the revision
//! of the store, which leaves little to find: a write that made revision 5 comes after the one that made 4, and whoever saw revision
//! 5 comes between the writes of 5 and 6. What remains is to check, and to explain the revisions that nobody was told to have made.
//!
//! ```text
//! client 1   |- put a="1" → 2 -|              |- put a="3" → 4 -|
//! client 2         |- put a="2" → ?                                         no answer
//! client 3                        |- read a → "2" (mod 3), at 3 -|          so it happened, as revision 3
//! client 4                                       |- read b → none, at 4 -|
//!
//! verdict: put a="1", put a="2", read a, put a="3", read b
//! ```
//!
//! What is assumed of revisions is checked too: that no two writes claim one ([`revision_table`]), and that they do not go against time
//! ([`timeline`]).
//!
//! In the order in which to read: [`timeline`], [`revision_table`], [`footprint`], [`constraints`], [`leases`], [`compactions`], [`unknown_writes`], [`lives`], [`observable`], [`search`], [`holes`], [`observations`].

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

/// Finds an order that explains all answers, and if possible also what watchers were told.
///
/// An order that agrees with every watcher is looked for first. If there is none, the watcher that stands in the way is left out, and in
/// the end all are: then it is the watchers who were told something wrong, and they are held against an order that agrees with all others.
pub(crate) fn check(
    history: &History,
    options: &Options,
    mut believed: Vec<Coverage<'_>>,
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
        match search(&believed) {
            Ok(log) => return Ok(log),
            Err(no_order) if believed.is_empty() => return Err(no_order.violation),
            Err(NoOrder { contradicting_watch: Some(i), .. }) => _ = believed.remove(i),
            Err(NoOrder { contradicting_watch: None, .. }) => believed.clear(),
        }
    }
}
