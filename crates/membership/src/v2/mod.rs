//! The membership in the form of etcd's v2 store: a tree of files in snapshots and old logs.
//!
//! ```text
//!   /0/members/305db25c258609ea/raftAttributes   {"peerURLs":["http://10.0.0.1:2380"]}
//!                              /attributes       {"name":"m1","clientURLs":["http://10.0.0.1:2379"]}
//!     /removed_members/c580ea4952713c8c          (empty)
//!     /version                                   3.7.0
//!   /1                                           keys of users of the v2 API
//! ```
//!
//! No member stores its state in this form any more. But members up to 3.6 read it from the data of
//! a raft snapshot, in a `.snap` file or sent by a leader, and 3.7 still writes it there. So
//! [`encode`] makes it from the [`Membership`](crate::Membership) when a snapshot is taken, and
//! [`decode`] reads it. Logs of 3.5 and older contain changes to this tree, which
//! [`to_raft_request`] converts to commands.

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
