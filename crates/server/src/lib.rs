//! The replicated state machine: entries of the log in, results out.
//!
//! [`StateMachine`] holds all that members agree on, and [`StateMachine::apply`] changes it by one entry of the log: in the same way, to the same bytes, on
//! every member. The crates that hold the parts do not know each other; here they are joined.
//!
//! ```text
//!                                 ┌─ alarms, versions, members ─► membership
//!   entry ─► decode ─► layers ────┼─ keys ─────────────────────► mvcc ──┐ a revoked lease deletes its keys,
//!            applied               ├─ leases ───────────────────► lease ─┘ a key is attached to its lease
//!            already? skip         └─ users, roles ─────────────► auth
//!                 one backend transaction, with the applied index ─► commit ─► watch hub ─► result
//! ```
//!
//! What is always true: an entry's changes and its index become durable together; an entry at or below the applied index changes nothing; what watchers
//! hear of is there to be read. A failure that is the same on every member is the result of the entry ([`Refusal`]); any other is a
//! [`Fault`], after which this member has to stop, because it no longer knows what the others know.

pub mod apply;
mod state;

pub use apply::{Applied, ConfChanges, Fault, Outcome, Refusal, Reply};
pub use state::{Config, StateMachine};
