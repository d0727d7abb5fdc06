//! What is wrong with a history.

use std::fmt;

use thiserror::Error;

/// Something that no correct store would have done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule}: {text}")]
pub struct Violation {
    /// Which promise was broken.
    pub rule: Rule,
    /// Who was told what, and what it should have been.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, text: impl Into<String>) -> Violation {
        Violation { rule, text: text.into() }
    }
}

/// The promises that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An answer has the form that belongs to its request.
    WellFormed,
    /// A revision is made by one write.
    UniqueRevision,
    /// A write that begins after another has ended has the greater revision.
    RevisionOrder,
    /// Nobody sees a write before it was asked for.
    SeenBeforeWritten,
    /// A linearizable read sees everything that anybody saw before it began.
    StaleRead,
    /// An answer is that of the state at its revision.
    WrongAnswer,
    /// Every revision was written by somebody.
    UnexplainedRevision,
    /// A lease lives for as long as was promised.
    ExpiredEarly,
    /// KeyHistory are put on leases that exist, and go with them.
    Lease,
    /// What is compacted is gone, and nothing else is.
    Compaction,
    /// Watch: events come in the order of revisions.
    Ordered,
    /// Watch: an event comes once.
    Unique,
    /// Watch: all events of a revision come together.
    Atomic,
    /// Watch: no event is left out.
    Reliable,
    /// Watch: it begins with the first event at or after the revision asked for.
    Resumable,
    /// Watch: after progress is told, nothing older comes.
    Bookmarkable,
    /// Watch: only what was asked for comes.
    Filter,
    /// Watch: an event tells what happened.
    WrongEvent,
    /// Watch: an event tells what was there before.
    PrevKv,
    /// Watch: one is cancelled for compaction only if what it needs is gone.
    Canceled,
    /// What was acknowledged is still there at the end, at every member.
    Durable,
    /// Members that hash the same have the same hash.
    SameHash,
    /// Not broken, but not shown to be kept either: the search was given up.
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
