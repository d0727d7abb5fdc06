//! Unknown writes: writes whose outcome no client learned, and revocations, whose response does not
//! say whether keys were deleted.
//!
//! ```text
//! write          lowest revision              highest   may be
//! put a="7"      4: 3 existed when it began   any       9 if a="7" (mod 9) was read; else any hole
//! revoke 5 → 6   4                            6         6 if lease 5 had keys; else none
//! ```
//!
//! Unknown writes that differ only in a value that no observation shows, or in the content of their
//! lost responses, form a *class*. If one of them cannot fill a hole, no other one of its class
//! can.

use std::collections::BTreeMap;

use super::constraints::{Constraints, excluded};
use super::footprint::{self, LeasedKeys};
use super::leases::Leases;
use super::revision_table::RevisionTable;
use super::timeline::Timeline;
use crate::record::{History, Kv, Op, Put, Request, Span};

/// A write that may have been executed.
#[derive(Debug)]
pub(crate) struct UnknownWrite<'a> {
    /// The position of the operation in the history.
    pub(crate) operation: usize,
    /// The request.
    pub(crate) request: &'a Request,
    /// The bounds of the revisions that it may have made.
    from: i64,
    to: i64,
    /// The class of interchangeable writes.
    pub(crate) class: usize,
    /// The keys that it may change, and the keys that its effect depends on.
    pub(crate) writes: Vec<Span>,
    pub(crate) touches: Vec<Span>,
}

/// All unknown writes, by invocation time.
#[derive(Debug)]
pub(crate) struct UnknownWrites<'a> {
    pub(crate) all: Vec<UnknownWrite<'a>>,
}

impl<'a> UnknownWrites<'a> {
    pub(crate) fn new(
        history: &'a History,
        timeline: &Timeline,
        table: &RevisionTable<'a>,
        constraints: &Constraints<'a>,
        leased: &LeasedKeys,
    ) -> UnknownWrites<'a> {
        let mut classes = BTreeMap::new();
        let mut all: Vec<UnknownWrite<'a>> = Vec::new();
        for (operation, it) in history.operations.iter().enumerate() {
            let request = &it.request;
            let last = match (it.answer(), request) {
                (Some((_, response)), Request::Revoke { .. }) => response.revision,
                (None, _) if it.is_unknown() => table.last(),
                _ => continue,
            };
            let writes = footprint::writes(request, leased);
            let from = timeline.earliest_write(it.invoked_ns);
            if !writes.is_empty() && from <= last {
                let next = classes.len();
                let class =
                    *classes.entry((normalized(constraints, request), last)).or_insert(next);
                let touches = footprint::touches(request, leased);
                all.push(UnknownWrite {
                    operation,
                    request,
                    from,
                    to: last,
                    class,
                    writes,
                    touches,
                });
            }
        }
        all.sort_by_key(|write| history.operations[write.operation].invoked_ns);
        let mut unknown_writes = UnknownWrites { all };
        unknown_writes.pin(table, constraints);
        unknown_writes
    }

    /// Returns the writes that may have made `revision`, judged without the state.
    pub(crate) fn eligible(
        &self,
        constraints: &Constraints<'_>,
        leases: &Leases<'_>,
        revision: i64,
    ) -> Vec<usize> {
        let fits = |write: &UnknownWrite<'_>| {
            write.from <= revision
                && revision <= write.to
                && !excluded(constraints, write.request, revision)
                && lease_permits(leases, write.request, revision)
        };
        (0..self.all.len()).filter(|i| fits(&self.all[*i])).collect()
    }

    /// Pins a write to a hole if it is the only one that can have put an observed value.
    fn pin(&mut self, table: &RevisionTable<'_>, constraints: &Constraints<'_>) {
        let mut putters: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for (i, write) in self.all.iter().enumerate() {
            for Put { key, value, .. } in footprint::puts(write.request) {
                putters.entry((key, value)).or_default().push(i);
            }
        }
        let mut pins: Vec<(usize, i64)> = Vec::new();
        for (revision, Kv { key, value, .. }) in constraints.all_known_puts() {
            let hole = (2..=table.last()).contains(&revision) && table.writer(revision).is_none();
            if let (true, Some([only])) =
                (hole, putters.get(&(&**key, &**value)).map(Vec::as_slice))
            {
                pins.push((*only, revision));
            }
        }
        for (i, revision) in pins {
            self.all[i].from = self.all[i].from.max(revision);
            self.all[i].to = self.all[i].to.min(revision);
        }
    }
}

/// Reports whether the lease of a put may exist at `revision`.
fn lease_permits(leases: &Leases<'_>, request: &Request, revision: i64) -> bool {
    match request {
        Request::Put(put) => leases.permits(put.lease, revision).is_ok(),
        _ => true,
    }
}

/// Replaces every value on which no observation depends.
const UNSEEN: &str = "\0unseen";

/// Returns the request without unobserved values and without the options that only shape its lost
/// response.
fn normalized(constraints: &Constraints<'_>, request: &Request) -> Request {
    let mut request = request.clone();
    let blank = |put: &mut Put| {
        put.prev_kv = false;
        if constraints.is_value_unobserved(&put.key, &put.value) {
            UNSEEN.clone_into(&mut put.value);
        }
    };
    match &mut request {
        Request::Put(put) => blank(put),
        Request::Delete(delete) => delete.prev_kv = false,
        Request::Txn(txn) => {
            for ops in [&mut txn.then, &mut txn.otherwise] {
                // Keep historical reads: one of a missing revision makes the whole transaction
                // fail.
                ops.retain(|op| !matches!(op, Op::Range(range) if range.revision == 0));
                for op in ops {
                    match op {
                        Op::Put(put) => blank(put),
                        Op::Delete(delete) => delete.prev_kv = false,
                        Op::Range(_) => {}
                    }
                }
            }
        }
        _ => {}
    }
    request
}
