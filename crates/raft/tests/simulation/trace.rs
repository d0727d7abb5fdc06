//! What happened, in order: the end of it for people, a digest of all of it for comparing runs.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use raft::{Message, MessageType, RoleKind};
use types::MemberId;

use crate::random::Digest;

/// Events kept for a report.
const KEPT: usize = 60;

/// What happened.
#[derive(Hash)]
pub(crate) enum What {
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
    ReadAsked { read: u64 },
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

/// Something that happened to a member, or to all of them.
struct Event {
    at: u64,
    member: u64,
    what: What,
}

/// The run so far.
pub(crate) struct Trace {
    digest: Digest,
    last: VecDeque<Event>,
}

impl Trace {
    pub(crate) fn new() -> Trace {
        Trace { digest: Digest::EMPTY, last: VecDeque::with_capacity(KEPT) }
    }

    pub(crate) fn record(&mut self, at: u64, member: MemberId, what: What) {
        at.hash(&mut self.digest);
        member.0.hash(&mut self.digest);
        what.hash(&mut self.digest);
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Event { at, member: member.0, what });
    }

    /// Two runs with the same digest went the same way.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.last.iter().try_for_each(|event| {
            writeln!(f, "  {:>6}  {:>2}  {}", event.at, event.member, event.what)
        })
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Sent(summary) => write!(f, "sends {summary}"),
            What::Dropped(summary) => write!(f, "loses {summary}"),
            What::Received(summary) => write!(f, "gets  {summary}"),
            What::Became { role, term } => write!(f, "becomes {role} in term {term}"),
            What::Committed { index } => write!(f, "commits {index}"),
            What::Wrote { entries, last, snapshot, synced } => write!(
                f,
                "writes {entries} entries up to {last}, snapshot {snapshot}, {}",
                if *synced { "and syncs" } else { "no sync" }
            ),
            What::Durable { last } => write!(f, "has {last} durably"),
            What::Applied { index } => write!(f, "applied {index}"),
            What::Restored { index } => write!(f, "restored its state at {index}"),
            What::Crashed { kept, lost } => write!(f, "CRASHES: {kept} writes kept, {lost} lost"),
            What::Started { how, term, commit, last, applied } => write!(
                f,
                "STARTS ({how}) in term {term}: commit {commit}, last {last}, applied {applied}"
            ),
            What::Proposed { taken, text } => {
                write!(f, "{} {text}", if *taken { "proposes" } else { "cannot propose" })
            }
            What::Snapshot { index, compacted } => {
                write!(f, "makes a snapshot at {index}, compacts up to {compacted}")
            }
            What::ReadAsked { read } => write!(f, "asks for read {read}"),
            What::ReadAnswered { read, index } => write!(f, "may serve read {read} at {index}"),
            What::Did(what) => f.write_str(what),
            What::Note(what) => f.write_str(what),
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

/// A role in a word.
pub(crate) fn role_name(role: RoleKind) -> &'static str {
    match role {
        RoleKind::Follower => "follower",
        RoleKind::PreCandidate => "pre-candidate",
        RoleKind::Candidate => "candidate",
        RoleKind::Leader => "LEADER",
    }
}
