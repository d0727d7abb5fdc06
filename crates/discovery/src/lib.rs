//! Finding the other members of a cluster that is about to begin.
//!
//! A member that is given `--initial-cluster` knows them all. Otherwise it finds them in one of two ways:
//!
//! ```text
//!   --discovery-srv example.com                              [srv]    DNS has a list of all members, and the member is on it
//!       _etcd-server-ssl._tcp.example.com  m1.example.com 2380, m2.example.com 2380
//!   --discovery-token t --discovery-endpoints http://d:2379  [join]   a running cluster keeps a list, and the member writes itself there
//!       /_etcd/registry/t/_config/size     3
//!       /_etcd/registry/t/members/8e9e..   m1=http://10.0.0.1:2380
//! ```
//!
//! Either way what comes out is the text of an `--initial-cluster`.
//!
//! What is always true: nothing is kept; whoever finds a cluster has the size of it that was asked for; what comes from others is bounded by
//! [`ANSWER_BYTES_MAX`] and read as text, never trusted to be URLs.
//!
//! # Left to others
//!
//! `node` knows flags, and says what the member is called. It reads what was found as it reads its flags, and refuses what is no URL.

mod client;
#[cfg(feature = "dns")]
mod dns;
mod error;
mod join;
mod keys;
mod roster;
mod settings;
pub mod srv;

pub use client::ANSWER_BYTES_MAX;
#[cfg(feature = "dns")]
pub use dns::SystemDns;
pub use error::JoinError;
pub use join::{join, join_blocking};
pub use settings::{Settings, User};
