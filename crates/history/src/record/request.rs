//! Client requests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kv::{Span, is_zero};

/// A request to the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Puts a key.
    Put(Put),
    /// Deletes keys.
    Delete(Delete),
    /// Reads keys.
    Range(Range),
    /// Evaluates compares and executes one of two lists of operations at one revision.
    Txn(Txn),
    /// Grants a lease.
    Grant {
        /// The requested id; zero lets the store choose one, which the response contains.
        lease: i64,
        /// The requested TTL in seconds.
        ttl_s: i64,
    },
    /// Ends a lease and deletes its keys.
    Revoke {
        /// The lease id.
        lease: i64,
    },
    /// Renews a lease.
    KeepAlive {
        /// The lease id.
        lease: i64,
    },
    /// Discards superseded revisions before a revision.
    Compact {
        /// The first revision that can still be read.
        revision: i64,
    },
}

/// Puts a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Put {
    /// The key.
    pub key: String,
    /// The value. Histories with a unique value per put are checked fastest and most precisely.
    pub value: String,
    /// The lease to attach the key to, or zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease: i64,
    /// Whether the response includes the previous value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prev_kv: bool,
}

/// Deletes keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Delete {
    /// The keys to delete.
    #[serde(flatten)]
    pub span: Span,
    /// Whether the response includes the previous values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prev_kv: bool,
}

/// Reads keys in key order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Range {
    /// The keys to read.
    #[serde(flatten)]
    pub span: Span,
    /// The revision to read at; zero reads the newest.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: i64,
    /// The maximum number of keys; zero means no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit: i64,
    /// Whether to return only the number of keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_only: bool,
    /// Whether the read is serializable: served by one member, possibly stale.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serializable: bool,
}

impl Range {
    /// Returns a linearizable read of all of `span` at the newest revision.
    #[must_use]
    pub fn now(span: Span) -> Range {
        Range { span, revision: 0, limit: 0, count_only: false, serializable: false }
    }
}

/// Evaluates compares and executes one of two lists of operations at one revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Txn {
    /// The conditions on the state before the transaction; all must hold.
    pub compares: Vec<Compare>,
    /// Operations if all compares hold.
    pub then: Vec<Op>,
    /// Operations if any compare fails.
    #[serde(rename = "else")]
    pub otherwise: Vec<Op>,
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Puts a key.
    Put(Put),
    /// Deletes keys.
    Delete(Delete),
    /// Reads keys, including the changes of the transaction so far.
    Range(Range),
}

/// A condition on keys. It must hold for each key of the span; an empty span is compared like a
/// missing key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Compare {
    /// The compared keys.
    #[serde(flatten)]
    pub span: Span,
    /// The relation.
    pub is: Relation,
    /// The compared attribute and its target.
    pub to: Target,
}

/// The relation of a compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Greater than the target.
    Greater,
    /// Less than the target.
    Less,
}

/// The compared attribute of a key with the target value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The value. Every compare with a missing key fails.
    Value(String),
    /// The version; zero for a missing key.
    Version(i64),
    /// The create revision; zero for a missing key.
    Create(i64),
    /// The mod revision; zero for a missing key.
    Mod(i64),
    /// The lease; zero for a missing key.
    Lease(i64),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Put(put) => put.fmt(f),
            Request::Delete(delete) => delete.fmt(f),
            Request::Range(range) => range.fmt(f),
            Request::Txn(txn) => txn.fmt(f),
            Request::Grant { lease, ttl_s } => write!(f, "grant lease {lease} for {ttl_s} s"),
            Request::Revoke { lease } => write!(f, "revoke lease {lease}"),
            Request::KeepAlive { lease } => write!(f, "keep lease {lease} alive"),
            Request::Compact { revision } => write!(f, "compact to {revision}"),
        }
    }
}

impl fmt::Display for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "put {}={:?}", self.key, self.value)?;
        if self.lease != 0 {
            write!(f, " on lease {}", self.lease)?;
        }
        Ok(())
    }
}

impl fmt::Display for Delete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delete {}", self.span)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.serializable { "read serializably" } else { "read" };
        write!(f, "{mode} {}", self.span)?;
        if self.revision != 0 {
            write!(f, " at {}", self.revision)?;
        }
        if self.limit != 0 {
            write!(f, " limit {}", self.limit)?;
        }
        if self.count_only { f.write_str(" count") } else { Ok(()) }
    }
}

impl fmt::Display for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, word: &str, ops: &[Op]| {
            ops.iter().enumerate().try_for_each(|(i, op)| {
                let lead = if i == 0 { word } else { "," };
                write!(f, "{lead} {op}")
            })
        };
        f.write_str("txn")?;
        for (i, compare) in self.compares.iter().enumerate() {
            write!(f, "{} {compare}", if i == 0 { " if" } else { " and" })?;
        }
        list(f, " then", &self.then)?;
        list(f, " else", &self.otherwise)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Put(put) => put.fmt(f),
            Op::Delete(delete) => delete.fmt(f),
            Op::Range(range) => range.fmt(f),
        }
    }
}

impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = match self.is {
            Relation::Equal => "=",
            Relation::NotEqual => "!=",
            Relation::Greater => ">",
            Relation::Less => "<",
        };
        match &self.to {
            Target::Value(value) => write!(f, "value({}) {is} {value:?}", self.span),
            Target::Version(version) => write!(f, "version({}) {is} {version}", self.span),
            Target::Create(revision) => write!(f, "create({}) {is} {revision}", self.span),
            Target::Mod(revision) => write!(f, "mod({}) {is} {revision}", self.span),
            Target::Lease(lease) => write!(f, "lease({}) {is} {lease}", self.span),
        }
    }
}
