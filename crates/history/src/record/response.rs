//! What clients are told.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kv::Kv;

/// An answer: the revision in its header, and what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The revision of the store when this was answered; of a write, the revision that it made.
    pub revision: i64,
    /// The rest.
    pub body: Body,
}

/// An answer, but for its header. Inside a transaction there are no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// To a put.
    Put {
        /// What was there, if that was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prev: Option<Kv>,
    },
    /// To a delete.
    Delete {
        /// How many keys.
        deleted: i64,
        /// Which, if that was asked for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prevs: Vec<Kv>,
    },
    /// To a read.
    Range {
        /// What was found.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kvs: Vec<Kv>,
        /// How many keys there are, whatever the limit.
        count: i64,
        /// Whether the limit left some out.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// To a transaction.
    Txn {
        /// Whether all compares held.
        succeeded: bool,
        /// An answer for each thing that was done.
        results: Vec<Body>,
    },
    /// To a grant.
    Grant {
        /// The lease's id.
        lease: i64,
        /// Seconds granted.
        ttl_s: i64,
    },
    /// To a revocation.
    Revoke,
    /// To a renewal.
    KeepAlive {
        /// Seconds from now; zero if there is no such lease.
        ttl_s: i64,
    },
    /// To a compaction.
    Compact,
}

/// A definite no: nothing has happened, and nothing will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// `mvcc: required revision has been compacted`.
    Compacted,
    /// `mvcc: required revision is a future revision`.
    FutureRevision,
    /// `requested lease not found`.
    LeaseNotFound,
    /// `lease already exists`.
    LeaseExists,
    /// Anything else that surely changed nothing.
    Other(String),
}

impl Body {
    /// Whether it says that something was changed, and so that its header names a revision of its own.
    ///
    /// A revocation does not say: None.
    #[must_use]
    pub fn wrote(&self) -> Option<bool> {
        match self {
            Body::Put { .. } => Some(true),
            Body::Delete { deleted, .. } => Some(*deleted > 0),
            Body::Txn { results, .. } => Some(results.iter().any(|it| it.wrote() == Some(true))),
            Body::Revoke => None,
            Body::Range { .. } | Body::Grant { .. } | Body::KeepAlive { .. } | Body::Compact => {
                Some(false)
            }
        }
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}: {}", self.revision, self.body)
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Put { prev: None } => f.write_str("put"),
            Body::Put { prev: Some(prev) } => write!(f, "put, before it {prev}"),
            Body::Delete { deleted, prevs } if prevs.is_empty() => write!(f, "{deleted} deleted"),
            Body::Delete { deleted, prevs } => write!(f, "{deleted} deleted: {}", list(prevs)),
            Body::Range { kvs, count, more } => {
                let more = if *more { " and more" } else { "" };
                write!(f, "{count} found: {}{more}", list(kvs))
            }
            Body::Txn { succeeded, results } => {
                let word = if *succeeded { "succeeded" } else { "failed" };
                write!(f, "txn {word}: [{}]", joined(results, "; "))
            }
            Body::Grant { lease, ttl_s } => write!(f, "lease {lease} granted for {ttl_s} s"),
            Body::Revoke => f.write_str("revoked"),
            Body::KeepAlive { ttl_s } => write!(f, "renewed for {ttl_s} s"),
            Body::Compact => f.write_str("compacted"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Compacted => f.write_str("required revision has been compacted"),
            Refusal::FutureRevision => f.write_str("required revision is a future revision"),
            Refusal::LeaseNotFound => f.write_str("requested lease not found"),
            Refusal::LeaseExists => f.write_str("lease already exists"),
            Refusal::Other(text) => f.write_str(text),
        }
    }
}

/// `[a=.., b=..]`.
fn list(kvs: &[Kv]) -> String {
    format!("[{}]", joined(kvs, ", "))
}

/// The words for each, with something in between.
pub(crate) fn joined<T: fmt::Display>(items: &[T], between: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}
