//! What clients ask for.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kv::{Span, is_zero};

/// A request to the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Writes a key.
    Put(Put),
    /// Deletes keys.
    Delete(Delete),
    /// Reads keys.
    Range(Range),
    /// Compares, then does one of two lists of things, all at one revision.
    Txn(Txn),
    /// Grants a lease.
    Grant {
        /// Its id; zero if the store was to choose. (The answer has the id.)
        lease: i64,
        /// Seconds asked for.
        ttl_s: i64,
    },
    /// Ends a lease, and deletes its keys.
    Revoke {
        /// Which.
        lease: i64,
    },
    /// Renews a lease.
    KeepAlive {
        /// Which.
        lease: i64,
    },
    /// Forgets what was before a revision.
    Compact {
        /// The first revision that can still be read.
        revision: i64,
    },
}

/// Writes a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Put {
    /// The key.
    pub key: String,
    /// Its value. Histories with values of their own for each put are checked fastest, and most sharply.
    pub value: String,
    /// The lease to hang it on, or zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease: i64,
    /// Whether the answer should tell what was there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prev_kv: bool,
}

/// Deletes keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Delete {
    /// Which.
    #[serde(flatten)]
    pub span: Span,
    /// Whether the answer should tell what was there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prev_kv: bool,
}

/// Reads keys, in the order of the keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Range {
    /// Which.
    #[serde(flatten)]
    pub span: Span,
    /// As of which revision; zero for now.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: i64,
    /// How many at most; zero for all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit: i64,
    /// Whether only their number is wanted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_only: bool,
    /// Whether what one member has is good enough, however old.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serializable: bool,
}

impl Range {
    /// All of `span`, now, linearizable.
    #[must_use]
    pub fn now(span: Span) -> Range {
        Range { span, revision: 0, limit: 0, count_only: false, serializable: false }
    }
}

/// Compares, then does one of two lists of things, all at one revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Txn {
    /// What must hold, all of it, before the transaction.
    pub compares: Vec<Compare>,
    /// What is done if it does.
    pub then: Vec<Op>,
    /// What is done if not.
    #[serde(rename = "else")]
    pub otherwise: Vec<Op>,
}

/// One thing that a transaction does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Writes a key.
    Put(Put),
    /// Deletes keys.
    Delete(Delete),
    /// Reads keys, with what the transaction has done to them so far.
    Range(Range),
}

/// A condition on keys. Over several keys it must hold for each; over none, as for a key that is not there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Compare {
    /// Which keys.
    #[serde(flatten)]
    pub span: Span,
    /// How they relate to the target.
    pub is: Relation,
    /// What they are compared with.
    pub to: Target,
}

/// How a key relates to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The same.
    Equal,
    /// Another.
    NotEqual,
    /// More.
    Greater,
    /// Less.
    Less,
}

/// What of a key is compared, and with what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Its value. A key that is not there has none, and every comparison fails.
    Value(String),
    /// Its version; zero if it is not there.
    Version(i64),
    /// The revision that created it; zero if it is not there.
    Create(i64),
    /// The revision that last changed it; zero if it is not there.
    Mod(i64),
    /// Its lease; zero if it is not there.
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
