//! What a correct store does, in its simplest form: no members, no disk, one thing after the other.
//!
//! [`Model`] is such a store, to be asked. The checkers take it apart: [`KeyHistory`] holds every key with its past, and [`evaluate`] says
//! what a request would be answered and what it would change, changing nothing:
//!
//! ```text
//! keys at revision 4     a: 2 → "1", 4 → "2"     b: 3 → "x", 4 → gone
//! evaluate(txn if mod(a) = 4 then put a="3", delete b)
//!                        succeeded, [put, 0 deleted]     change: a → "3" (mod 5, created 2, version 3)
//! ```
//!
//! Always true: a revision has at least one change, and every change of it has its own key; what is known of an older revision never changes.
//!
//! Leases and compactions are not in here but for which key hangs on which lease: when they take effect is not known to the nanosecond,
//! and so they are checked on their own.

mod evaluate;
mod keys;
mod store;

pub(crate) use evaluate::{evaluate, relates};
pub use keys::{Change, KeyHistory};
pub use store::Model;
