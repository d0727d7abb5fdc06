//! Ids and positions: small values with names.
//!
//! A term and an index are both `u64` on the wire, and mixing them up is the classic mistake in a
//! consensus core. Here they are types of their own: they compare and step forward, and cross into
//! plain numbers only where bytes or text are made.
//!
//! Values only: nothing in this crate owns memory, does I/O or knows a protocol.

mod lease;
mod member;
mod position;
mod revision;

pub use lease::LeaseId;
pub use member::MemberId;
pub use position::{Index, Term};
pub use revision::Revision;
