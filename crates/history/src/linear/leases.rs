//! Checks leases: keys are attached only to existing leases, and a lease lives as long as promised.
//!
//! A keep-alive that was sent at 10 s and returned a TTL of 5 s took effect at 10 s or later, so
//! the lease lives at least until 15 s:
//!
//! ```text
//! 0 s          5 s          10 s         15 s
//! |- grant, 5 s -|
//!                        |- keep-alive -|
//!              |---------- must not expire ----------|
//! ```
//!
//! An expiring lease deletes its keys in a write that no client requested. The expiry can fill a
//! hole, but only after that time. The member that expires the lease has its own clock, so
//! [`lease_slack_ns`](crate::Options::lease_slack_ns) is allowed for.
//!
//! A lease id that is granted more than once is not checked further: any of the grants could be
//! meant.

use std::collections::BTreeMap;

use super::footprint::puts;
use super::timeline::Timeline;
use crate::record::{Body, History, Millis, Operation, Outcome, Refusal, Request};
use crate::violation::{Rule, Violation};

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The known facts about one lease.
#[derive(Debug, Default)]
struct Lease {
    /// The number of grants, including those of unknown outcome.
    grants: usize,
    /// The first revision that may attach a key to the lease.
    usable_from: Option<i64>,
    /// The latest time at which the lease was granted.
    granted_ns: Option<u64>,
    /// The earliest expiry time, and the operation that implies it.
    alive_until: Option<(u64, usize)>,
    /// The time of the first request to revoke the lease.
    revoke_requested_ns: Option<u64>,
    /// The revision at which the lease was certainly revoked, and the operation that implies it.
    ended_at: Option<(i64, usize)>,
}

/// The known facts about all leases.
#[derive(Debug)]
pub(crate) struct Leases<'a> {
    history: &'a History,
    leases: BTreeMap<i64, Lease>,
}

impl<'a> Leases<'a> {
    pub(crate) fn new(history: &'a History, timeline: &Timeline, slack_ns: u64) -> Leases<'a> {
        let mut leases = Leases { history, leases: BTreeMap::new() };
        for (i, operation) in history.operations.iter().enumerate() {
            leases.record(timeline, slack_ns, i, operation);
        }
        leases
    }

    /// Returns the earliest time at which `lease` may expire, and the operation that implies it.
    pub(crate) fn alive_until(&self, lease: i64) -> Option<(u64, &'a Operation)> {
        let lease = self.leases.get(&lease).filter(|lease| lease.grants == 1)?;
        lease.alive_until.map(|(until, by)| (until, &self.history.operations[by]))
    }

    /// Reports whether the lease was granted at most once, so that it cannot exist again after its
    /// end.
    pub(crate) fn granted_at_most_once(&self, lease: i64) -> bool {
        self.leases.get(&lease).is_none_or(|lease| lease.grants <= 1)
    }

    /// Reports whether `revision` may attach a key to `lease`; the error is the reason.
    pub(crate) fn permits(&self, lease: i64, revision: i64) -> Result<(), String> {
        if lease == 0 {
            return Ok(());
        }
        let known = self.leases.get(&lease);
        if known.and_then(|lease| lease.usable_from).is_none_or(|from| from > revision) {
            return Err(format!("lease {lease} had not been granted by then"));
        }
        match known.filter(|lease| lease.grants == 1).and_then(|lease| lease.ended_at) {
            Some((ended_at, by)) if ended_at < revision => {
                Err(format!("lease {lease} had ended by then: {}", self.history.operations[by]))
            }
            _ => Ok(()),
        }
    }

    /// Checks all lease responses that can be judged without the keys.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        self.history.operations.iter().try_for_each(|operation| {
            self.check_puts(operation)?;
            self.check_missing(operation)?;
            self.check_exists(operation)
        })
    }

    /// Checks that keys are attached to existing leases.
    fn check_puts(&self, operation: &Operation) -> Result<(), Violation> {
        let Some((_, response)) = operation.answer() else { return Ok(()) };
        let done = leases_used(operation, &response.body);
        done.into_iter().try_for_each(|lease| {
            self.permits(lease, response.revision)
                .map_err(|reason| Violation::new(Rule::Lease, format!("{operation}; {reason}")))
        })
    }

    /// Checks that no response reports a missing lease that must still be alive.
    fn check_missing(&self, operation: &Operation) -> Result<(), Violation> {
        let at_ns = match &operation.outcome {
            Outcome::Refused { at_ns, refusal: Refusal::LeaseNotFound } => *at_ns,
            Outcome::Answered { at_ns, response }
                if response.body == (Body::KeepAlive { ttl_s: 0 }) =>
            {
                *at_ns
            }
            _ => return Ok(()),
        };
        let named = leases_named(&operation.request);
        let alive =
            named.iter().all(|lease| self.certainly_alive(*lease, operation.invoked_ns, at_ns));
        if named.is_empty() || !alive {
            return Ok(());
        }
        let promise = named.iter().find_map(|lease| self.alive_until(*lease));
        let text = match promise {
            Some((until, by)) => {
                format!("{operation}; it lives until {} ms at least: {by}", Millis(until))
            }
            None => operation.to_string(),
        };
        Err(Violation::new(Rule::ExpiredEarly, text))
    }

    /// Checks that a `LeaseExists` refusal follows another grant of that id.
    fn check_exists(&self, operation: &Operation) -> Result<(), Violation> {
        let Outcome::Refused { refusal: Refusal::LeaseExists, .. } = operation.outcome else {
            return Ok(());
        };
        let Request::Grant { lease, .. } = operation.request else { return Ok(()) };
        if self.leases.get(&lease).is_some_and(|lease| lease.grants > 0) {
            return Ok(());
        }
        Err(Violation::new(Rule::Lease, format!("{operation}; no other request granted that id")))
    }

    /// Reports whether the lease existed during the whole interval.
    fn certainly_alive(&self, lease: i64, from_ns: u64, to_ns: u64) -> bool {
        let Some(known) = self.leases.get(&lease) else { return false };
        known.grants == 1
            && known.granted_ns.is_some_and(|at| at < from_ns)
            && known.revoke_requested_ns.is_none_or(|at| at > to_ns)
            && known.alive_until.is_some_and(|(until, _)| until > to_ns)
    }

    fn record(&mut self, timeline: &Timeline, slack_ns: u64, i: usize, operation: &Operation) {
        let answer = operation.answer();
        let refused = matches!(operation.outcome, Outcome::Refused { .. });
        match (&operation.request, answer) {
            (Request::Grant { .. }, Some((at_ns, response))) => {
                let Body::Grant { lease, ttl_s } = response.body else { return };
                let known = self.granted(lease, response.revision + 1);
                known.granted_ns = Some(at_ns);
                known.extend(operation.invoked_ns, ttl_s, slack_ns, i);
            }
            (Request::Grant { lease, .. }, None) if *lease != 0 && !refused => {
                self.granted(*lease, timeline.earliest_write(operation.invoked_ns));
            }
            (Request::KeepAlive { lease }, Some((_, response))) => {
                if let Body::KeepAlive { ttl_s: ttl_s @ 1.. } = response.body {
                    let known = self.leases.entry(*lease).or_default();
                    known.extend(operation.invoked_ns, ttl_s, slack_ns, i);
                }
            }
            (Request::Revoke { lease }, answer) if !refused => {
                let known = self.leases.entry(*lease).or_default();
                let earlier = known.revoke_requested_ns.unwrap_or(u64::MAX);
                known.revoke_requested_ns = Some(earlier.min(operation.invoked_ns));
                if let Some((_, response)) = answer {
                    known.ended_at = known.ended_at.or(Some((response.revision, i)));
                }
            }
            _ => {}
        }
    }

    fn granted(&mut self, lease: i64, usable_from: i64) -> &mut Lease {
        let known = self.leases.entry(lease).or_default();
        known.grants += 1;
        known.usable_from = Some(known.usable_from.unwrap_or(i64::MAX).min(usable_from));
        known
    }
}

impl Lease {
    /// Records a promise, made in response to a request at `invoked_ns`, that the lease lives for
    /// `ttl_s` more seconds.
    fn extend(&mut self, invoked_ns: u64, ttl_s: i64, slack_ns: u64, by: usize) {
        let ttl_ns = u64::try_from(ttl_s).unwrap_or(0).saturating_mul(SECOND_NS);
        let until = invoked_ns.saturating_add(ttl_ns).saturating_sub(slack_ns);
        if self.alive_until.is_none_or(|(so_far, _)| until > so_far) {
            self.alive_until = Some((until, by));
        }
    }
}

/// Returns the leases to which an answered operation attached keys.
fn leases_used(operation: &Operation, body: &Body) -> Vec<i64> {
    use crate::record::Op;
    match (&operation.request, body) {
        (Request::Put(put), _) => vec![put.lease],
        (Request::Txn(txn), Body::Txn { succeeded, .. }) => {
            let ops = if *succeeded { &txn.then } else { &txn.otherwise };
            let lease = |op: &Op| match op {
                Op::Put(put) => Some(put.lease),
                Op::Delete(_) | Op::Range(_) => None,
            };
            ops.iter().filter_map(lease).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the leases that a request names.
fn leases_named(request: &Request) -> Vec<i64> {
    match request {
        Request::Revoke { lease } | Request::KeepAlive { lease } => vec![*lease],
        _ => puts(request).map(|put| put.lease).filter(|lease| *lease != 0).collect(),
    }
}
