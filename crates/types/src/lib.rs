//! Ids and positions as types of their own, and the etcd release that Bowline follows.
//!
//! A term and an index are both `u64` on the wire, and confusing them is a classic bug of consensus
//! implementations. Distinct types can be compared and incremented, and are converted to plain
//! numbers only where bytes or text are produced.
//!
//! The crate contains values only: nothing here allocates, does I/O or knows a protocol.

mod lease;
mod member;
mod position;
mod release;
mod revision;

pub use lease::LeaseId;
pub use member::MemberId;
pub use position::{Index, Term};
pub use release::ETCD_VERSION;
pub use revision::Revision;
