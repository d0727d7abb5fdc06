//! A history: what clients asked, when, and what they were told.
//!
//! In a file, each record is a line of JSON:
//!
//! ```text
//! {"operation":{"client":1,"invoked_ns":10,"request":{"put":{"key":"a","value":"1"}},
//!               "outcome":{"answered":{"at_ns":20,"response":{"revision":2,"body":{"put":{}}}}}}}
//! {"operation":{"client":2,"invoked_ns":15,"request":{"put":{"key":"a","value":"2"}},"outcome":{"unknown":{"error":"timeout"}}}}
//! {"watch":{"client":3,"request":{"key":"a"},"responses":[{"at_ns":16,"revision":1,"news":"created"}]}}
//! ```
//!
//! (The first is broken in two here, to be read.) All times are nanoseconds of one clock that never goes back, the same for all clients.
//!
//! Three outcomes are told apart, and all depends on doing so honestly. *Answered*: it happened, once, between invocation and answer.
//! *Refused*: it did not happen and never will. *Unknown*, as after a timeout or a lost connection: it may have happened, may happen at any
//! time from its invocation on, even long after its client gave up, or may never happen. In doubt, an outcome is unknown: that a write which
//! hit the quota was refused, for instance, does not mean that it was not applied.

mod file;
mod kv;
mod request;
mod response;
mod watch;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use file::{LINE_BYTES_MAX, ReadError};
pub use kv::{Kv, Span};
pub use request::{Compare, Delete, Op, Put, Range, Relation, Request, Target, Txn};
pub(crate) use response::joined;
pub use response::{Body, Refusal, Response};
pub use watch::{Event, Watch, WatchBody, WatchRequest, WatchResponse};

/// All that clients saw of a store that began empty, at revision 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Requests and answers, in no particular order.
    pub operations: Vec<Operation>,
    /// Watches.
    pub watches: Vec<Watch>,
    /// What members held, when all was over.
    pub finals: Vec<Final>,
    /// Hashes of what members held.
    pub hashes: Vec<Hash>,
    /// Defragmentations. They may not be noticed; they are here for whoever looks for the cause of something.
    pub defragments: Vec<Defragment>,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A request and its answer.
    Operation(Operation),
    /// A watch.
    Watch(Watch),
    /// All that a member held, when all was over.
    Final(Final),
    /// A hash of what a member held.
    Hash(Hash),
    /// A defragmentation.
    Defragment(Defragment),
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Who asked.
    pub client: u64,
    /// The member asked, if known.
    #[serde(default, skip_serializing_if = "no_member")]
    pub member: u64,
    /// When.
    pub invoked_ns: u64,
    /// For what.
    pub request: Request,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It happened.
    Answered {
        /// When its client knew.
        at_ns: u64,
        /// What it was told.
        response: Response,
    },
    /// It did not happen.
    Refused {
        /// When its client knew.
        at_ns: u64,
        /// Why not.
        refusal: Refusal,
    },
    /// Nobody knows.
    Unknown {
        /// What its client saw instead of an answer.
        error: String,
    },
}

/// All that a member held, when all was over: every key, read from that member alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Final {
    /// The member.
    pub member: u64,
    /// When the answer came.
    pub at_ns: u64,
    /// Its revision.
    pub revision: i64,
    /// All keys, at that revision.
    pub kvs: Vec<Kv>,
}

/// What `HashKV` answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hash {
    /// The member.
    pub member: u64,
    /// Up to which revision was hashed.
    pub revision: i64,
    /// From which revision.
    pub compact_revision: i64,
    /// The hash.
    pub hash: u32,
}

/// A defragmentation of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defragment {
    /// The member.
    pub member: u64,
    /// When it was asked for.
    pub invoked_ns: u64,
    /// When it was done, if it was.
    pub at_ns: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn no_member(member: &u64) -> bool {
    *member == 0
}

impl History {
    /// Adds a record.
    pub fn push(&mut self, record: Record) {
        match record {
            Record::Operation(operation) => self.operations.push(operation),
            Record::Watch(watch) => self.watches.push(watch),
            Record::Final(last) => self.finals.push(last),
            Record::Hash(hash) => self.hashes.push(hash),
            Record::Defragment(defragment) => self.defragments.push(defragment),
        }
    }
}

impl Operation {
    /// The answer and when it came, if one came.
    #[must_use]
    pub fn answer(&self) -> Option<(u64, &Response)> {
        match &self.outcome {
            Outcome::Answered { at_ns, response } => Some((*at_ns, response)),
            Outcome::Refused { .. } | Outcome::Unknown { .. } => None,
        }
    }

    /// Whether it may or may not have happened.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown { .. })
    }
}

/// `client 2 (1.5..2.1 ms): put a="1" -> revision 3: put`.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation { client, request, .. } = self;
        let from = Millis(self.invoked_ns);
        match &self.outcome {
            Outcome::Answered { at_ns, response } => {
                write!(
                    f,
                    "client {client} ({from}..{} ms): {request} -> {response}",
                    Millis(*at_ns)
                )
            }
            Outcome::Refused { at_ns, refusal } => {
                write!(f, "client {client} ({from}..{} ms): {request} -> {refusal}", Millis(*at_ns))
            }
            Outcome::Unknown { error } => {
                write!(f, "client {client} ({from}.. ms): {request} -> outcome unknown, {error}")
            }
        }
    }
}

/// Nanoseconds, told as milliseconds.
pub(crate) struct Millis(pub(crate) u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let text = format!("{whole}.{rest:06}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}
