//! Responses and refusals.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kv::Kv;

/// A response: the header's revision and the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The revision of the store; for a write, the revision that it made.
    pub revision: i64,
    /// The body.
    pub body: Body,
}

/// A response without its header. The results of a transaction have the same type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Response to a put.
    Put {
        /// The previous value, if requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prev: Option<Kv>,
    },
    /// Response to a delete.
    Delete {
        /// The number of deleted keys.
        deleted: i64,
        /// The deleted keys, if requested.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prevs: Vec<Kv>,
    },
    /// Response to a read.
    Range {
        /// The keys found.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kvs: Vec<Kv>,
        /// The number of keys in the range, regardless of the limit.
        count: i64,
        /// Whether the limit left keys out.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// Response to a transaction.
    Txn {
        /// Whether all compares held.
        succeeded: bool,
        /// The result of each executed operation.
        results: Vec<Body>,
    },
    /// Response to a grant.
    Grant {
        /// The lease id.
        lease: i64,
        /// The granted TTL in seconds.
        ttl_s: i64,
    },
    /// Response to a revocation.
    Revoke,
    /// Response to a keep-alive.
    KeepAlive {
        /// The remaining TTL in seconds; zero for a missing lease.
        ttl_s: i64,
    },
    /// Response to a compaction.
    Compact,
}

/// A definite refusal: the request was not executed and never will be.
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
    /// Any other refusal that certainly changed nothing.
    Other(String),
}

impl Body {
    /// Reports whether the request changed something, so that the header's revision is its own.
    ///
    /// Returns `None` for a revocation, whose response does not show it.
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

/// Formats keys as `[a=.., b=..]`.
fn list(kvs: &[Kv]) -> String {
    format!("[{}]", joined(kvs, ", "))
}

/// Joins the printed items with a separator.
pub(crate) fn joined<T: fmt::Display>(items: &[T], between: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}
