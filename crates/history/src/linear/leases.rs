//! Leases: that they exist when keys are put on them, and live for as long as was promised.
//!
//! A renewal asked for at 10 s and answered with a time to live of 5 s happened at 10 s or later, so the lease lives until 15 s at least:
//!
//! ```text
//! 0 s          5 s          10 s         15 s
//! |- grant, 5 s -|
//!                        |- keep-alive -|
//!              |------------ may not be gone ------------|
//! ```
//!
//! A lease that expires deletes its keys by a write that nobody asked for: it explains a revision that nobody was told to have made, but
//! only after that time. The member that expires a lease has a clock of its own, so a [slack](crate::Options::lease_slack_ns) is allowed for.
//!
//! A lease id that is granted more than once is not followed beyond that: any of its lives could be meant.

use std::collections::BTreeMap;

use super::footprint::puts;
use super::timeline::Timeline;
use crate::record::{Body, History, Millis, Operation, Outcome, Refusal, Request};
use crate::violation::{Rule, Violation};

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// What is known of a lease.
#[derive(Debug, Default)]
struct Lease {
    /// How often it was granted, or may have been.
    grants: usize,
    /// The first revision that could have put a key on it.
    usable_from: Option<i64>,
    /// When it was surely granted.
    granted_ns: Option<u64>,
    /// Until when it lives at least, and by which operation's word.
    alive_until: Option<(u64, usize)>,
    /// When its end was first asked for.
    revoke_asked_ns: Option<u64>,
    /// The revision at which it was surely gone, and by which operation.
    gone_at: Option<(i64, usize)>,
}

/// What is known of all leases.
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

    /// Until when `lease` may not have expired, and whose word that is.
    pub(crate) fn alive_until(&self, lease: i64) -> Option<(u64, &'a Operation)> {
        let lease = self.leases.get(&lease).filter(|lease| lease.grants == 1)?;
        lease.alive_until.map(|(until, by)| (until, &self.history.operations[by]))
    }

    /// Whether it was granted once at most, so that it cannot come back.
    pub(crate) fn granted_at_most_once(&self, lease: i64) -> bool {
        self.leases.get(&lease).is_none_or(|lease| lease.grants <= 1)
    }

    /// Whether a key could be put on `lease` by `revision`; if not, why.
    pub(crate) fn permits(&self, lease: i64, revision: i64) -> Result<(), String> {
        if lease == 0 {
            return Ok(());
        }
        let known = self.leases.get(&lease);
        if known.and_then(|lease| lease.usable_from).is_none_or(|from| from > revision) {
            return Err(format!("lease {lease} had not been granted by then"));
        }
        match known.filter(|lease| lease.grants == 1).and_then(|lease| lease.gone_at) {
            Some((gone, by)) if gone < revision => {
                Err(format!("lease {lease} was gone by then: {}", self.history.operations[by]))
            }
            _ => Ok(()),
        }
    }

    /// Whether all that was told of leases fits together, as far as it does not take the keys to see.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        self.history.operations.iter().try_for_each(|operation| {
            self.check_puts(operation)?;
            self.check_missing(operation)?;
            self.check_exists(operation)
        })
    }

    /// KeyHistory are put on leases that are there.
    fn check_puts(&self, operation: &Operation) -> Result<(), Violation> {
        let Some((_, response)) = operation.answer() else { return Ok(()) };
        let done = leases_used(operation, &response.body);
        done.into_iter().try_for_each(|lease| {
            self.permits(lease, response.revision)
                .map_err(|why| Violation::new(Rule::Lease, format!("{operation}; {why}")))
        })
    }

    /// Nobody is told that a lease is gone which has time to live.
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
        let asked = leases_named(&operation.request);
        let alive =
            asked.iter().all(|lease| self.certainly_alive(*lease, operation.invoked_ns, at_ns));
        if asked.is_empty() || !alive {
            return Ok(());
        }
        let why = asked.iter().find_map(|lease| self.alive_until(*lease));
        let text = match why {
            Some((until, by)) => {
                format!("{operation}; it lives until {} ms at least: {by}", Millis(until))
            }
            None => operation.to_string(),
        };
        Err(Violation::new(Rule::ExpiredEarly, text))
    }

    /// A lease that exists already was granted by somebody.
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

    /// Whether there is no moment between the two at which the lease could have been missing.
    fn certainly_alive(&self, lease: i64, from_ns: u64, to_ns: u64) -> bool {
        let Some(known) = self.leases.get(&lease) else { return false };
        known.grants == 1
            && known.granted_ns.is_some_and(|at| at < from_ns)
            && known.revoke_asked_ns.is_none_or(|at| at > to_ns)
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
                let asked = known.revoke_asked_ns.unwrap_or(u64::MAX);
                known.revoke_asked_ns = Some(asked.min(operation.invoked_ns));
                if let Some((_, response)) = answer {
                    known.gone_at = known.gone_at.or(Some((response.revision, i)));
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
    /// Somebody was told, after asking at `invoked_ns`, that it lives for `ttl_s` more seconds.
    fn extend(&mut self, invoked_ns: u64, ttl_s: i64, slack_ns: u64, by: usize) {
        let ttl_ns = u64::try_from(ttl_s).unwrap_or(0).saturating_mul(SECOND_NS);
        let until = invoked_ns.saturating_add(ttl_ns).saturating_sub(slack_ns);
        if self.alive_until.is_none_or(|(so_far, _)| until > so_far) {
            self.alive_until = Some((until, by));
        }
    }
}

/// The leases that an answered operation put keys on.
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

/// The leases that a request names.
fn leases_named(request: &Request) -> Vec<i64> {
    match request {
        Request::Revoke { lease } | Request::KeepAlive { lease } => vec![*lease],
        _ => puts(request).map(|put| put.lease).filter(|lease| *lease != 0).collect(),
    }
}
