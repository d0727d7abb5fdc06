//! Violations: the rules that a history can break.

use std::fmt;

use thiserror::Error;

/// An observation that no correct store could have produced.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule}: {text}")]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// The operation or watch concerned, the value it got and the expected one.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, text: impl Into<String>) -> Violation {
        Violation { rule, text: text.into() }
    }
}

/// The rules that the checker verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A response has the form that belongs to its request.
    WellFormed,
    /// Each revision has one writer.
    UniqueRevision,
    /// A write that begins after another one has ended gets the higher revision.
    RevisionOrder,
    /// No client observes a write before its request was sent.
    SeenBeforeWritten,
    /// A linearizable read reflects everything that any client observed before the read began.
    StaleRead,
    /// A response equals the result of the request on the state at its revision.
    WrongAnswer,
    /// Each revision has a writer: an operation or the expiry of a lease.
    UnexplainedRevision,
    /// A lease lives at least as long as promised.
    ExpiredEarly,
    /// Keys are attached to existing leases and are deleted together with them.
    Lease,
    /// Compacted revisions are unreadable, and all others are readable.
    Compaction,
    /// Watch: events arrive in revision order.
    Ordered,
    /// Watch: each event arrives once.
    Unique,
    /// Watch: all events of a revision arrive in one response.
    Atomic,
    /// Watch: no event is missing.
    Reliable,
    /// Watch: the first event is the first one at or after the requested revision.
    Resumable,
    /// Watch: no event at or below a progress notification arrives after it.
    Bookmarkable,
    /// Watch: only events of the requested range and kinds arrive.
    Filter,
    /// Watch: an event equals the change at its revision.
    WrongEvent,
    /// Watch: `prev_kv` equals the value before the change.
    PrevKv,
    /// Watch: a watch is canceled for compaction only if it needs a compacted revision.
    Canceled,
    /// Every member still holds all acknowledged writes at the end.
    Durable,
    /// Members that hash the same revisions compute the same hash.
    SameHash,
    /// Neither broken nor proven: the search reached its step limit.
    Undecided,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::WellFormed => "malformed answer",
            Rule::UniqueRevision => "two writes at one revision",
            Rule::RevisionOrder => "revision went backwards",
            Rule::SeenBeforeWritten => "observed before it was written",
            Rule::StaleRead => "stale read",
            Rule::WrongAnswer => "wrong answer",
            Rule::UnexplainedRevision => "revision without a writer",
            Rule::ExpiredEarly => "lease expired early",
            Rule::Lease => "lease",
            Rule::Compaction => "compaction",
            Rule::Ordered => "watch not ordered",
            Rule::Unique => "watch not unique",
            Rule::Atomic => "watch not atomic",
            Rule::Reliable => "watch not reliable",
            Rule::Resumable => "watch not resumable",
            Rule::Bookmarkable => "watch not bookmarkable",
            Rule::Filter => "watch delivered an unwanted event",
            Rule::WrongEvent => "wrong event",
            Rule::PrevKv => "wrong previous value",
            Rule::Canceled => "watch canceled without reason",
            Rule::Durable => "acknowledged and lost",
            Rule::SameHash => "members differ",
            Rule::Undecided => "undecided",
        })
    }
}
