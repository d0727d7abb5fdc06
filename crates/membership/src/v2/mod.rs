//! Members as the v2 store had them: a tree of files, in snapshots and in the logs of older members.
//!
//! ```text
//!   /0/members/305db25c258609ea/raftAttributes   {"peerURLs":["http://10.0.0.1:2380"]}
//!                              /attributes       {"name":"m1","clientURLs":["http://10.0.0.1:2379"]}
//!     /removed_members/c580ea4952713c8c          (empty)
//!     /version                                   3.7.0
//!   /1                                           what users kept, back then
//! ```
//!
//! Nothing is kept in this form any more. But 3.6 and older read it from the data of a raft snapshot, in a `.snap` file or sent by a
//! leader, and 3.7 still writes it there; so it is made from the [`Membership`](crate::Membership) when a snapshot is ([`encode`]), and can be
//! read back ([`decode`]). And the logs of 3.5 and older have changes to this tree as entries: [`to_raft_request`] says the same in today's words.

mod image;
mod read;
mod request;

pub use image::encode;
pub use read::{ImageError, decode};
pub use request::to_raft_request;

const MEMBERS: &str = "members";
const REMOVED_MEMBERS: &str = "removed_members";
const VERSION: &str = "version";
const RAFT_ATTRIBUTES: &str = "raftAttributes";
const ATTRIBUTES: &str = "attributes";
