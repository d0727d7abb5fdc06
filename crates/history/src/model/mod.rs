//! The reference store: the simplest correct implementation, without members, disk or concurrency.
//!
//! [`Model`] executes requests and is used by tests. The checker uses its two parts directly:
//! [`KeyHistory`] holds every key with all its revisions, and [`evaluate()`] computes the response
//! and the changes of a request without applying them:
//!
//! ```text
//! keys at revision 4     a: 2 → "1", 4 → "2"     b: 3 → "x", 4 → deleted
//! evaluate(txn if mod(a) = 4 then put a="3", delete b)
//!                        succeeded, [put, 0 deleted]
//!                        change: a → "3" (mod 5, created 2, version 3)
//! ```
//!
//! Invariants: a revision has at least one change and changes each key once; the content of a past
//! revision never changes.
//!
//! Of leases, only the attachment of keys is modeled here. Grants, expiry and compactions take
//! effect at a time that no response reveals, so `linear::leases` and `linear::compactions` check
//! them separately.

mod evaluate;
mod keys;
mod store;

pub(crate) use evaluate::{evaluate, relates};
pub use keys::{Change, KeyHistory};
pub use store::Model;
