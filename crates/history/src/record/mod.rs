//! The data of a history: requests, times and outcomes, as recorded by clients.
//!
//! In a file, each record is a line of JSON:
//!
//! ```text
//! {"operation":{"client":1,"invoked_ns":10,"request":{"put":{"key":"a","value":"1"}},
//!               "outcome":{"answered":{"at_ns":20,"response":{"revision":2,"body":{"put":{}}}}}}}
//! {"operation":{"client":2,"invoked_ns":15,"request":{"put":{"key":"a","value":"2"}},
//!               "outcome":{"unknown":{"error":"timeout"}}}}
//! {"watch":{"client":3,"request":{"key":"a"},
//!           "responses":[{"at_ns":16,"revision":1,"news":"created"}]}}
//! ```
//!
//! (Records are broken into two lines here for reading.) All times are nanoseconds of one
//! monotonic clock that all clients share.
//!
//! The verdict depends on classifying each outcome correctly. *Answered*: the operation was
//! executed once, between its invocation and its response. *Refused*: it was not executed and never
//! will be.
//! *Unknown*, for example after a timeout or a lost connection: it may be executed at any time
//! after its invocation, even long after the client gave up, or never. In doubt, an outcome is
//! unknown: a write that was refused for the quota, for instance, may still have been applied.

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

/// All observations of a store that started empty, at revision 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Operations, in no particular order.
    pub operations: Vec<Operation>,
    /// Watches.
    pub watches: Vec<Watch>,
    /// The final state of each member.
    pub finals: Vec<Final>,
    /// Hashes of members.
    pub hashes: Vec<Hash>,
    /// Defragmentations. They must be invisible to clients; they are recorded to help find causes.
    pub defragments: Vec<Defragment>,
}

/// A line of a history file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A request with its outcome.
    Operation(Operation),
    /// A watch.
    Watch(Watch),
    /// The final state of a member.
    Final(Final),
    /// A hash of a member.
    Hash(Hash),
    /// A defragmentation.
    Defragment(Defragment),
}

/// A request with its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The client.
    pub client: u64,
    /// The contacted member, if known.
    #[serde(default, skip_serializing_if = "no_member")]
    pub member: u64,
    /// The time of the request.
    pub invoked_ns: u64,
    /// The request.
    pub request: Request,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The operation was executed.
    Answered {
        /// The time of the response.
        at_ns: u64,
        /// The response.
        response: Response,
    },
    /// The operation was not executed and never will be.
    Refused {
        /// The time of the response.
        at_ns: u64,
        /// The reason.
        refusal: Refusal,
    },
    /// The operation may or may not be executed.
    Unknown {
        /// The error that the client saw instead of a response.
        error: String,
    },
}

/// The final state of a member: all its keys, read from this member alone at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Final {
    /// The member.
    pub member: u64,
    /// The time of the response.
    pub at_ns: u64,
    /// The revision of the member.
    pub revision: i64,
    /// All keys at that revision.
    pub kvs: Vec<Kv>,
}

/// A response to `HashKV`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hash {
    /// The member.
    pub member: u64,
    /// The last hashed revision.
    pub revision: i64,
    /// The compacted revision, after which hashing starts.
    pub compact_revision: i64,
    /// The hash.
    pub hash: u32,
}

/// A defragmentation of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defragment {
    /// The member.
    pub member: u64,
    /// The time of the request.
    pub invoked_ns: u64,
    /// The time of the response, if one came.
    pub at_ns: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde's skip_serializing_if")]
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
    /// Returns the response and its time, if the operation was answered.
    #[must_use]
    pub fn answer(&self) -> Option<(u64, &Response)> {
        match &self.outcome {
            Outcome::Answered { at_ns, response } => Some((*at_ns, response)),
            Outcome::Refused { .. } | Outcome::Unknown { .. } => None,
        }
    }

    /// Reports whether the outcome is unknown.
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

/// Nanoseconds, printed as milliseconds.
pub(crate) struct Millis(pub(crate) u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let text = format!("{whole}.{rest:06}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}
