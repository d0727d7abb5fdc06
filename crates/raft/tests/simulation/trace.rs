//! The trace of a run: the last events for reports, and a digest of all events for comparing runs.

use std::fmt;
use std::hash::Hash;

use raft::{Message, MessageType, RoleKind};
use simkit::Digest;
use types::MemberId;

/// The number of events kept for a report.
const EVENTS_KEPT_MAX: usize = 60;

/// A traced event.
#[derive(Hash)]
pub(crate) enum TraceEvent {
    Sent(Summary),
    Dropped(Summary),
    Received(Summary),
    Became { role: &'static str, term: u64 },
    Committed { index: u64 },
    Wrote { entries: u64, last: u64, snapshot: u64, synced: bool },
    Durable { last: u64 },
    Applied { index: u64 },
    Restored { index: u64 },
    Crashed { kept: u64, lost: u64 },
    Started { how: &'static str, term: u64, commit: u64, last: u64, applied: u64 },
    Proposed { taken: bool, text: String },
    Snapshot { index: u64, compacted: u64 },
    ReadRequested { read: u64 },
    ReadAnswered { read: u64, index: u64 },
    Did(&'static str),
    Note(String),
}

/// A message in a few numbers.
#[derive(Hash)]
pub(crate) struct Summary {
    kind: &'static str,
    from: u64,
    to: u64,
    term: u64,
    log_term: u64,
    index: u64,
    commit: u64,
    entries: u64,
    reject: bool,
}

impl Summary {
    pub(crate) fn of(message: &Message) -> Summary {
        let snapshot = message.snapshot.as_ref().map(|snapshot| snapshot.metadata.index);
        Summary {
            kind: message.kind.as_str(),
            from: message.from.0,
            to: message.to.0,
            term: message.term.0,
            log_term: message.log_term.0,
            index: snapshot
                .filter(|_| message.kind == MessageType::MsgSnap)
                .unwrap_or(message.index)
                .0,
            commit: message.commit.0,
            entries: message.entries.len() as u64,
            reject: message.reject,
        }
    }
}

/// An event of a member, or of the whole cluster.
struct TraceRecord {
    at: u64,
    member: u64,
    what: TraceEvent,
}

/// The trace of a run.
pub(crate) struct Trace {
    digest: Digest,
    last: simkit::Trace<TraceRecord>,
}

impl Trace {
    pub(crate) fn new() -> Trace {
        Trace { digest: Digest::EMPTY, last: simkit::Trace::new(EVENTS_KEPT_MAX) }
    }

    pub(crate) fn record(&mut self, at: u64, member: MemberId, what: TraceEvent) {
        at.hash(&mut self.digest);
        member.0.hash(&mut self.digest);
        what.hash(&mut self.digest);
        self.last.record(|| TraceRecord { at, member: member.0, what });
    }

    /// Returns the digest; runs with equal digests are identical.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.value()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.last.fmt(f)
    }
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:>6}  {:>2}  {}", self.at, self.member, self.what)
    }
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEvent::Sent(summary) => write!(f, "sends {summary}"),
            TraceEvent::Dropped(summary) => write!(f, "loses {summary}"),
            TraceEvent::Received(summary) => write!(f, "gets  {summary}"),
            TraceEvent::Became { role, term } => write!(f, "becomes {role} in term {term}"),
            TraceEvent::Committed { index } => write!(f, "commits {index}"),
            TraceEvent::Wrote { entries, last, snapshot, synced } => write!(
                f,
                "writes {entries} entries up to {last}, snapshot {snapshot}, {}",
                if *synced { "and syncs" } else { "no sync" }
            ),
            TraceEvent::Durable { last } => write!(f, "has {last} durably"),
            TraceEvent::Applied { index } => write!(f, "applied {index}"),
            TraceEvent::Restored { index } => write!(f, "restored its state at {index}"),
            TraceEvent::Crashed { kept, lost } => {
                write!(f, "CRASHES: {kept} writes kept, {lost} lost")
            }
            TraceEvent::Started { how, term, commit, last, applied } => write!(
                f,
                "STARTS ({how}) in term {term}: commit {commit}, last {last}, applied {applied}"
            ),
            TraceEvent::Proposed { taken, text } => {
                write!(f, "{} {text}", if *taken { "proposes" } else { "cannot propose" })
            }
            TraceEvent::Snapshot { index, compacted } => {
                write!(f, "makes a snapshot at {index}, compacts up to {compacted}")
            }
            TraceEvent::ReadRequested { read } => {
                write!(f, "requests the read index of read {read}")
            }
            TraceEvent::ReadAnswered { read, index } => {
                write!(f, "may serve read {read} at {index}")
            }
            TraceEvent::Did(what) => f.write_str(what),
            TraceEvent::Note(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { kind, from, to, term, log_term, index, commit, entries, .. } = self;
        write!(f, "{from}->{to} {kind} term {term} log {log_term}/{index} commit {commit}")?;
        if *entries > 0 {
            write!(f, " entries {entries}")?;
        }
        if self.reject {
            f.write_str(" refused")?;
        }
        Ok(())
    }
}

/// Returns a short name of a role.
pub(crate) fn role_name(role: RoleKind) -> &'static str {
    match role {
        RoleKind::Follower => "follower",
        RoleKind::PreCandidate => "pre-candidate",
        RoleKind::Candidate => "candidate",
        RoleKind::Leader => "LEADER",
    }
}
