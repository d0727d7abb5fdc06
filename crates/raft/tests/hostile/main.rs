//! No message from a peer makes a member panic, and a refused message changes nothing.
//!
//! A peer may run another version, be damaged, or be malicious. etcd panics at several messages
//! that no correct member sends; here each of them is refused or harmless.
//!
//! - `refusals`: the messages that would make etcd panic, one by one.
//! - `sequences`: arbitrary messages in arbitrary order to a member in any role, with its storage
//!   at any stage. A control member never sees the refused messages, and the two must not differ.
//! - `wire`: bytes that are almost messages.

#[path = "../arbitrary/mod.rs"]
mod arbitrary;
mod member;
mod refusals;
mod sequences;
mod shaped;
mod wire;
