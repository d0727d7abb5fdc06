//! All responses by revision: the writer of each revision, and the observations of the state after
//! it.
//!
//! ```text
//! revision   writer                 observations
//!        2   client 1: put a        client 2: read a, at 2
//!        3   none: a hole           client 3: read b at 3, answered at 5
//!        4   client 2: delete a
//! ```
//!
//! A historical read is placed at the revision it reads, not at the revision of its response. So
//! all observations of a state can be checked as soon as the search has built it, and never again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::record::{Body, History, Op, Operation, Range, Request, Response, Span};
use crate::violation::{Rule, Violation};

/// An observation of the state after a revision.
#[derive(Clone, Debug)]
pub(crate) struct Observation<'a> {
    /// The source of the observation, for messages.
    pub(crate) observer: Observer,
    /// The read.
    pub(crate) request: Cow<'a, Request>,
    /// The observed result.
    pub(crate) body: Cow<'a, Body>,
}

/// The source of an observation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Observer {
    /// The response of this operation.
    Operation(usize),
    /// This final state of a member.
    Final(usize),
}

/// All responses by revision.
#[derive(Debug)]
pub(crate) struct RevisionTable<'a> {
    /// The operation that wrote each revision; indexed by revision.
    writers: Vec<Option<usize>>,
    /// The observations of each state; indexed by revision.
    observations: Vec<Vec<Observation<'a>>>,
    /// By key: the revisions with a complete read of this single key.
    observed_keys: BTreeMap<String, BTreeSet<i64>>,
    /// By revision: the ranges that were read completely.
    observed_ranges: BTreeMap<i64, Vec<Span>>,
}

/// The highest revision accepted as plausible; no history in memory has more revisions.
const REVISIONS_MAX: i64 = 1 << 26;

impl<'a> RevisionTable<'a> {
    /// Builds the table from all responses, none of which is above revision `last`.
    pub(crate) fn new(history: &'a History, last: i64) -> Result<RevisionTable<'a>, Violation> {
        let count = match usize::try_from(last) {
            Ok(count) if last <= REVISIONS_MAX => count + 1,
            _ => return Err(Violation::new(Rule::WellFormed, format!("revision {last} was seen"))),
        };
        let mut table = RevisionTable {
            writers: vec![None; count],
            observations: vec![Vec::new(); count],
            observed_keys: BTreeMap::new(),
            observed_ranges: BTreeMap::new(),
        };
        for i in 0..history.operations.len() {
            table.insert(history, i)?;
        }
        for (i, last) in history.finals.iter().enumerate() {
            let count = i64::try_from(last.kvs.len()).unwrap_or(i64::MAX);
            let body = Body::Range { kvs: last.kvs.clone(), count, more: false };
            let request = Cow::Owned(Request::Range(Range::now(Span::all())));
            let observation =
                Observation { observer: Observer::Final(i), request, body: Cow::Owned(body) };
            table.observe(last.revision, observation);
        }
        Ok(table)
    }

    /// Returns the operation that wrote `revision`, or `None` for a hole.
    pub(crate) fn writer(&self, revision: i64) -> Option<usize> {
        self.writers[index(revision)]
    }

    /// Returns the observations of the state after `revision`.
    pub(crate) fn observations(&self, revision: i64) -> &[Observation<'a>] {
        &self.observations[index(revision)]
    }

    /// Returns the last revision up to `revision` with a complete read of `span`, or zero.
    pub(crate) fn last_observed(&self, span: &Span, revision: i64) -> i64 {
        let alone = match (&span.end, self.observed_keys.get(&span.key)) {
            (None, Some(seen)) => seen.range(..=revision).next_back().copied(),
            _ => None,
        };
        let alone = alone.unwrap_or(0);
        let mut ranges = self.observed_ranges.range(alone + 1..revision.max(alone) + 1).rev();
        let found = ranges.find(|(_, seen)| seen.iter().any(|it| it.covers(span)));
        found.map_or(alone, |(at, _)| *at)
    }

    /// Returns the last revision.
    pub(crate) fn last(&self) -> i64 {
        i64::try_from(self.writers.len() - 1).expect("bounded by REVISIONS_MAX")
    }

    fn insert(&mut self, history: &'a History, i: usize) -> Result<(), Violation> {
        let operation = &history.operations[i];
        let Some((at_ns, response)) = operation.answer() else { return Ok(()) };
        well_formed(operation, at_ns, response)?;
        self.insert_past_reads_of_txn(i, operation, response);
        if response.body.wrote() == Some(true) {
            return self.set_writer(history, i, response.revision);
        }
        match &operation.request {
            // These create no revision and observe no key; `leases` and `compactions` check them.
            Request::KeepAlive { .. } | Request::Grant { .. } | Request::Compact { .. } => {}
            request => {
                let as_of = match request {
                    Request::Range(range) if range.revision > 0 => range.revision,
                    _ => response.revision,
                };
                let (request, body) = (Cow::Borrowed(request), Cow::Borrowed(&response.body));
                self.observe(
                    as_of,
                    Observation { observer: Observer::Operation(i), request, body },
                );
            }
        }
        Ok(())
    }

    fn set_writer(&mut self, history: &History, i: usize, revision: i64) -> Result<(), Violation> {
        let (one, two) = (self.writers[index(revision)], &history.operations[i]);
        if let Some(one) = one {
            let text = format!("revision {revision}: {}; and {two}", history.operations[one]);
            return Err(Violation::new(Rule::UniqueRevision, text));
        }
        self.writers[index(revision)] = Some(i);
        Ok(())
    }

    /// Places historical reads inside a transaction at the revisions they read.
    fn insert_past_reads_of_txn(
        &mut self,
        i: usize,
        operation: &'a Operation,
        response: &'a Response,
    ) {
        let (Request::Txn(txn), Body::Txn { succeeded, results }) =
            (&operation.request, &response.body)
        else {
            return;
        };
        let ops = if *succeeded { &txn.then } else { &txn.otherwise };
        for (op, result) in ops.iter().zip(results) {
            let Op::Range(range) = op else { continue };
            if range.revision > 0 {
                let request = Cow::Owned(Request::Range(range.clone()));
                let body = Cow::Borrowed(result);
                self.observe(
                    range.revision,
                    Observation { observer: Observer::Operation(i), request, body },
                );
            }
        }
    }

    fn observe(&mut self, revision: i64, observation: Observation<'a>) {
        if let Request::Range(range) = &*observation.request
            && !range.count_only
            && range.limit == 0
        {
            match range.span.end {
                None => {
                    self.observed_keys.entry(range.span.key.clone()).or_default().insert(revision);
                }
                Some(_) => {
                    self.observed_ranges.entry(revision).or_default().push(range.span.clone());
                }
            }
        }
        self.observations[index(revision)].push(observation);
    }
}

fn index(revision: i64) -> usize {
    usize::try_from(revision).expect("revisions in the table are checked and not negative")
}

/// Checks that a response fits its request, ends after it began, and has plausible revisions.
fn well_formed(operation: &Operation, at_ns: u64, response: &Response) -> Result<(), Violation> {
    let malformed =
        |what: &str| Err(Violation::new(Rule::WellFormed, format!("{what}: {operation}")));
    if at_ns < operation.invoked_ns {
        return malformed("response precedes its request");
    }
    let least = if response.body.wrote() == Some(true) { 2 } else { 1 };
    if response.revision < least {
        return malformed("impossible revision");
    }
    if !body_matches(&operation.request, &response.body) {
        return malformed("response of the wrong kind");
    }
    if executed_reads(&operation.request, &response.body)
        .any(|range| range.revision > response.revision)
    {
        return malformed("read of a future revision");
    }
    Ok(())
}

/// Returns the reads that an answered request executed.
fn executed_reads<'a>(request: &'a Request, body: &Body) -> impl Iterator<Item = &'a Range> {
    let then = matches!(body, Body::Txn { succeeded: true, .. });
    let (alone, ops) = match request {
        Request::Range(range) => (Some(range), &[][..]),
        Request::Txn(txn) if then => (None, txn.then.as_slice()),
        Request::Txn(txn) => (None, txn.otherwise.as_slice()),
        _ => (None, &[][..]),
    };
    let inside = ops.iter().filter_map(|op| match op {
        Op::Range(range) => Some(range),
        Op::Put(_) | Op::Delete(_) => None,
    });
    alone.into_iter().chain(inside)
}

/// Reports whether a response has the form that belongs to its request.
fn body_matches(request: &Request, body: &Body) -> bool {
    match (request, body) {
        (Request::Txn(txn), Body::Txn { succeeded, results }) => {
            let ops = if *succeeded { &txn.then } else { &txn.otherwise };
            ops.len() == results.len() && ops.iter().zip(results).all(|(op, it)| op_matches(op, it))
        }
        (Request::Put(_), Body::Put { .. })
        | (Request::Delete(_), Body::Delete { .. })
        | (Request::Range(_), Body::Range { .. })
        | (Request::Grant { .. }, Body::Grant { .. })
        | (Request::Revoke { .. }, Body::Revoke)
        | (Request::KeepAlive { .. }, Body::KeepAlive { .. })
        | (Request::Compact { .. }, Body::Compact) => true,
        _ => false,
    }
}

fn op_matches(op: &Op, body: &Body) -> bool {
    matches!(
        (op, body),
        (Op::Put(_), Body::Put { .. })
            | (Op::Delete(_), Body::Delete { .. })
            | (Op::Range(_), Body::Range { .. })
    )
}
