//! Whatever a peer sends, a member does not fall over, and what it refuses leaves no trace.
//!
//! A peer may be of another version, damaged, or an enemy. etcd stops with a panic at several
//! messages that no correct member sends; here each of them is refused or does no harm.
//!
//! - `refusals`: the messages that would stop etcd, one by one.
//! - `sequences`: any messages in any order to a member in any role, with its storage at any stage;
//!   beside it runs a twin that never sees what was refused, and the two must not differ.
//! - `wire`: bytes that are almost messages.

#[path = "../arbitrary/mod.rs"]
mod arbitrary;
mod member;
mod refusals;
mod sequences;
mod shaped;
mod wire;
